#!/usr/bin/env bash
# Unpacks the UCX of a libucx-cu12 wheel under the target directory, and prints the folder of its
# libraries, for LD_LIBRARY_PATH. It installs nothing. A second call uses the unpacked files.
#
#   scripts/ucx_wheel.sh 1.22.0
#   scripts/ucx_wheel.sh --headers        the C++ headers of UCXX instead; prints their folder
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case ${1:-} in
  --headers) package=libucxx-cu12 version=0.52.0 inside=libucxx/include marker=ucxx/api.h folder=$target_dir/ucxx/$version ;;
  [0-9]*) package=libucx-cu12 version=$1 inside=libucx/lib marker=libucp.so.0 folder=$target_dir/ucx/$version ;;
  *) die "usage: ucx_wheel.sh VERSION | --headers" ;;
esac

lock "$folder"
if [ ! -e "$folder/$inside/$marker" ]; then
  python=$("$root/scripts/venv.sh")
  work=$(mktemp -d "$folder.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  "$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
    --dest "$work" "$package==$version" >&2 ||
    die "$package==$version could not be downloaded from PyPI; offline, unpack that wheel into $folder by hand"
  mkdir "$work/unpacked"
  "$python" -m zipfile -e "$work"/*.whl "$work/unpacked"
  [ -e "$work/unpacked/$inside/$marker" ] || die "$package==$version does not hold $inside/$marker"
  rm -rf "$folder"
  mv "$work/unpacked" "$folder"
fi
say "$folder/$inside"
