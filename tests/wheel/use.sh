#!/usr/bin/env bash
# Uses an installed wheel of ucxx-rs on one UCX: by Python, by its tools, and by programs in C and
# C++ with pkg-config and CMake. run.sh calls it.
#
#   tests/wheel/use.sh WORK WHAT UCX     WORK: the folder of run.sh; WHAT: a word for the output;
#                                        UCX: the version that has to be in use
#
# Python and the tools have only their environment in PATH: no compiler.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/../../scripts/lib.sh"
work=$1 what=$2 ucx=$3
version=$(package_field version)
soversion=${version%.*}
env=$work/env
packages=$("$env/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')

fail() { printf 'wheel: %s: %s\n' "$what" "$*" >&2; exit 1; }
ok() { say "  ok: $what: $*"; }
quietly() { "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "failed: $*"; }; }
alone() { env -i "HOME=$work" "PATH=$env/bin" ${UCXX_RS_UCX:+"UCXX_RS_UCX=$UCXX_RS_UCX"} "$@"; }
ask() { alone python -m ucxx_rs "$@"; }

# --- Python and the tools

said=$(ask --ucx) || fail "--ucx"
grep -qF "UCX $ucx, /" <<< "$said" || fail "$said"
quietly alone python -W error "$here/round_trip.py" "$ucx"
ok "$(<"$work/log")"
sed -n '/^```python$/,/^```$/p' "$root/python/README.md" | sed '/^```/d' >"$work/example.py"
quietly alone python -W error "$work/example.py"
[ "$(<"$work/log")" = hello ] || fail "the example printed '$(<"$work/log")'"
said=$(ask --info --versions) || fail "--info"
grep -qE "UCX +$ucx, " <<< "$said" || fail "the tool has another UCX: $said"
grep -qF "$packages/ucxx_rs/lib/libucxx_rs.so.$soversion" <<< "$said" || fail "the tool has another library: $said"
[ "$(ask --version)" = "$version" ] || fail "--version: $(ask --version)"
libdir=$(ask --lib-dir) includedir=$(ask --include-dir)
[ "$(ask --prefix)/lib" = "$libdir" ] || fail "--prefix: $(ask --prefix)"
quietly ask --perftest --self --verify --csv -n 100 -s 8

# --- programs in C and C++

# They are the same whatever the variable chooses; the tools have shown that it is followed.
[ -z "${UCXX_RS_UCX:-}" ] || exit 0
path=$(ask --library-path)
consumer=$root/tests/install/consumer.c
strict=(-std=c99 -Wall -Wextra -pedantic -Werror)
ways=()
runs() { # WAY PROGRAM
  local said
  said=$(LD_LIBRARY_PATH=$path "$2") || fail "$1: the program failed: $said"
  grep -qxF "ucxx_rs $version on UCX $ucx" <<< "$said" || fail "$1: $said"
  ways+=("$1")
}
eval "flags=($(PKG_CONFIG_PATH=$(ask --pkgconfig-dir) pkg-config --cflags --libs ucxx_rs))"
for compiler in gcc clang; do
  for linker in bfd gold lld; do
    if command -v "$compiler" >/dev/null && command -v "ld.$linker" >/dev/null; then
      quietly "$compiler" "-fuse-ld=$linker" "${strict[@]}" "$consumer" -o "$work/consumer" "${flags[@]}"
      runs "$compiler with $linker" "$work/consumer"
    fi
  done
done
# By its path, as CMake's find_library returns it.
quietly gcc "-I$includedir" "$consumer" -o "$work/consumer" "$libdir/libucxx_rs.so"
runs "the library by its path" "$work/consumer"
quietly cmake -S "$root/tests/install" -B "$work/cmake" -DKIND=shared "-DVERSION=$soversion" "-Ducxx_rs_DIR=$(ask --cmake-dir)"
quietly cmake --build "$work/cmake" --clean-first
runs "CMake, C" "$work/cmake/consumer_c"
runs "CMake, C++" "$work/cmake/consumer_cpp"
quietly g++ -std=c++17 -Wall -Wextra -Werror -fsyntax-only -x c++ "-I$includedir" - <<< '#include <ucxx_rs.hpp>'
# CMake writes a run path, and the library has one to the wheel of UCX.
quietly "$work/cmake/consumer_c"
ok "programs on UCX $ucx: $(printf '%s; ' "${ways[@]}")"
