#!/usr/bin/env bash
# Tests the header with tools of other languages, rust-bindgen, pycparser and cffi, and with a
# client made with cffi.
#
#   tests/bindings/run.sh PREFIX     PREFIX: an installed package
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/../../scripts/lib.sh"
UCXX_RS_PREFIX=$(cd "$1" && pwd)
export UCXX_RS_PREFIX

(cd "$here/rust" && CARGO_TARGET_DIR=$target_dir/bindings cargo test --locked)

python=$("$root/scripts/venv.sh" cffi==2.1.1 pycparser==3.12)
module=$target_dir/bindings/python
export PYTHONDONTWRITEBYTECODE=1
PKG_CONFIG_PATH=$UCXX_RS_PREFIX/lib/pkgconfig "$python" "$here/python/ucxx_rs_build.py" "$module"
# Warnings are errors: an endpoint or a worker that a test did not close causes one.
PYTHONPATH=$module "$python" -W error -m unittest discover --verbose --start-directory "$here/python"
