#!/usr/bin/env bash
# The header through the tools that other languages bind C with: rust-bindgen, pycparser and cffi.
#
#   tests/bindings/run.sh PREFIX     PREFIX: an installed package
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/../../scripts/lib.sh"
UCXX_RS_PREFIX=$(cd "$1" && pwd)
export UCXX_RS_PREFIX

(cd "$here/rust" && CARGO_TARGET_DIR=$target_dir/bindings cargo test --locked)
python=$("$root/scripts/venv.sh" cffi==2.1.1 pycparser==3.12)
"$python" "$here/python/test_header.py"
