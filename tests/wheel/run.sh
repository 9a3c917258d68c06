#!/usr/bin/env bash
# Tests the wheel of the Python package as its users see it: built from an installed library, and
# installed into a fresh environment.
#
#   tests/wheel/run.sh PREFIX     PREFIX: an installed library; everything is in target/wheel-test
#
# use.sh runs on the system's UCX and on that of a wheel. It also runs on the wheel alone, where
# this machine permits a mount namespace, in which the system's UCX is hidden.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/../../scripts/lib.sh"
prefix=$(cd "$1" && pwd)
work=$target_dir/wheel-test
version=$(package_field version)
soversion=${version%.*}
unset UCXX_RS_UCX LD_LIBRARY_PATH PKG_CONFIG_PATH PYTHONPATH
rm -rf "$work"
mkdir -p "$work"

fail() { printf 'wheel: %s\n' "$*" >&2; exit 1; }
ok() { say "  ok: $*"; }
quietly() { "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "failed: $*"; }; }

"$here/test_ucx.py"

# --- the wheel

wheel=$("$root/scripts/wheel.sh" --prefix "$prefix" "$work/dist" 2>"$work/log") || { cat "$work/log" >&2; fail "no wheel"; }
size=$(stat -c %s "$wheel")
case $(basename "$wheel") in
  ucxx_rs-"$version"-cp39-abi3-manylinux_*) ;;
  *) fail "$wheel: another version, or not for every Python" ;;
esac
[ "$size" -lt 4000000 ] || fail "$wheel has $size bytes"
cat >"$work/expected" <<END
bin/ucxx_rs_info
bin/ucxx_rs_perfplot
bin/ucxx_rs_perftest
$(cd "$root" && printf '%s\n' include/ucxx_rs.h include/ucxx_rs.hpp include/ucxx_rs/*.hpp)
lib/cmake/ucxx_rs/ucxx_rs-config-version.cmake
lib/cmake/ucxx_rs/ucxx_rs-config.cmake
lib/cmake/ucxx_rs/ucxx_rs-targets.cmake
lib/libucxx_rs.so
lib/libucxx_rs.so.$soversion
lib/pkgconfig/ucxx_rs.pc
_native.abi3.so
$(cd "$root/python/ucxx_rs" && find . -type f -not -name '*.pyc' -printf '%P\n')
END
python3 -m zipfile -l "$wheel" | sed -n 's|^ucxx_rs/\([^ ]*[^/ ]\) .*|\1|p' | LC_ALL=C sort >"$work/contained"
diff <(LC_ALL=C sort "$work/expected") "$work/contained" || fail "not the expected files"
ok "$(basename "$wheel"), $size bytes"

# --- installed

env=$work/env
quietly python3 -m venv "$env"
quietly "$env/bin/pip" install --disable-pip-version-check "$wheel"
packages=$("$env/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
[ "$(stat -c %a "$packages/ucxx_rs/bin/ucxx_rs_info")" = 755 ] || fail "the tools cannot be run"
for file in "$packages"/ucxx_rs/{_native.abi3.so,lib/libucxx_rs.so.*,bin/*}; do
  if grep -aqF -e "$root/" -e "$prefix/" "$file"; then fail "$file contains the path of its build"; fi
done
if grep -rIlF -e "$root/" -e "$prefix" "$packages/ucxx_rs"; then fail "these files contain the path of the build"; fi


system=$(pkg-config --modversion ucx)
"$here/use.sh" "$work" "system alone" "$system"

# The wheel of UCX, as pip would install it.
folder=$("$root/scripts/ucx_wheel.sh" "$newest")
cp -rs "${folder%/libucx/lib}"/* "$packages/"
chosen=$newest
at_least "$newest" "$system" || chosen=$system
"$here/use.sh" "$work" "system and wheel" "$chosen"
UCXX_RS_UCX=system "$here/use.sh" "$work" "system chosen" "$system"
folder=$("$root/scripts/ucx_wheel.sh" "${ucx_wheels[0]}")
UCXX_RS_UCX=$folder "$here/use.sh" "$work" "a folder chosen" "${ucx_wheels[0]}"

# --- other users of UCX in the process

"$env/bin/python" -W error - "$newest" <<'END'
import sys
import libucx

libucx.load_library()
from ucxx_rs import _ucx

assert _ucx.load().version == sys.argv[1], _ucx.used
assert _ucx.used.why == "the process had loaded it before", _ucx.used
END
ok "a UCX that is loaded already is used"

# --- without the system's UCX

# The folder of the system's UCX, without UCX, for a command and what it starts.
hidden() {
  # shellcheck disable=SC2016  # the other shell expands these
  local hide='set -e
    mount -t tmpfs none "$1"
    mkdir "$1/upper" "$1/work"
    mount -t overlay none -o "lowerdir=$2,upperdir=$1/upper,workdir=$1/work" "$2"
    rm -rf "$2"/libuc[mpst]* "$2"/ucx "$2"/pkgconfig/ucx* "$2"/cmake/ucx
    shift 2
    exec "$@"'
  "${namespace[@]}" bash -c "$hide" hide "$work/hidden" "$(realpath "$(pkg-config --variable=libdir ucx)")" "$@"
}
mkdir "$work/hidden"
namespace=(unshare -m)
hidden true 2>/dev/null || namespace=(unshare -rm)
if hidden true 2>"$work/log"; then
  hidden "$here/use.sh" "$work" "wheel alone" "$newest"
  rm -rf "$packages"/libucx*
  if hidden "$env/bin/python" -c 'import ucxx_rs' 2>"$work/log"; then fail "an import succeeds without UCX"; fi
  grep -qF "pip install 'ucxx-rs[ucx]'" "$work/log" || { cat "$work/log" >&2; fail "the error does not say what to install"; }
  ok "without UCX: $(tail -n 1 "$work/log")"
else
  say "the system's UCX cannot be hidden here: $(head -n 1 "$work/log")"
fi
