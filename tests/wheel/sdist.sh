#!/usr/bin/env bash
# Makes the source distribution of ucxx-rs, unpacks it outside this tree, and has pip build and
# install it, with cargo: as a user without a fitting wheel does. That takes minutes.
#
#   tests/wheel/sdist.sh
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/../../scripts/lib.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

archive=$("$root/scripts/wheel.sh" --sdist "$work")
mkdir "$work/unpacked"
tar -xzf "$archive" -C "$work/unpacked" --strip-components=1
python3 -m venv "$work/env"
# A folder that stays, so that a second run has less to do.
CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}/sdist \
  "$work/env/bin/pip" install --quiet --disable-pip-version-check "$work/unpacked"
cd "$work"
"$work/env/bin/python" -m ucxx_rs --ucx
"$work/env/bin/python" "$here/round_trip.py"
"$work/env/bin/python" -m ucxx_rs --info --versions | sed -n 2p
say "sdist: $(basename "$archive"), $(stat -c %s "$archive") bytes, builds and runs"
