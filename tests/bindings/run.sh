#!/usr/bin/env bash
# Tests the header with tools of other languages: rust-bindgen, pycparser and cffi. The Python
# package has its own tests, in python/tests.
#
#   tests/bindings/run.sh PREFIX     PREFIX: an installed package
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/../../scripts/lib.sh"
UCXX_RS_PREFIX=$(cd "$1" && pwd)
export UCXX_RS_PREFIX

(cd "$here/rust" && CARGO_TARGET_DIR=$target_dir/bindings cargo test --locked)

python=$("$root/scripts/venv.sh" cffi==2.1.1 pycparser==3.12)
export PYTHONDONTWRITEBYTECODE=1
PYTHONPATH=$root/python "$python" -W error -m unittest discover --verbose --start-directory "$here/python"
