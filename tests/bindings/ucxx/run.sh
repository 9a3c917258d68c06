#!/usr/bin/env bash
# The library and UCXX as each other's peers, over TCP and over what UCX chooses. Left out, with a line that says so, where UCXX cannot
# be had.
#
#   tests/bindings/ucxx/run.sh FOLDER     where tests/c was built: target/suites/tests/c
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/../../../scripts/lib.sh"
program=$(realpath "$1/foreign_peer") frames=$(realpath "$1/foreign_multi")
[ -x "$program" ] && [ -x "$frames" ] || die "$program and $frames are not built: scripts/test.sh suites"

# The benchmarks' peer, where it is pinned and installed.
peers=$target_dir/bench/peers
fetch() {
  PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$root/benches "$("$root/scripts/venv.sh")" - "$peers" <<'PYTHON'
import pathlib, sys
from suite import Unavailable
from suite.build import fetch_python_ucxx
try:
    fetch_python_ucxx(pathlib.Path(sys.argv[1]))
except Unavailable as reason:
    sys.exit(str(reason))
PYTHON
}
if ! fetch; then
  say "ucxx: LEFT OUT: UCXX cannot be installed here"
  exit 0
fi

# The release that UCXX brings, on both sides: 1.13 does not work with newer ones everywhere.
LD_LIBRARY_PATH=$("$root/scripts/ucx_wheel.sh" 1.21.0)
export LD_LIBRARY_PATH PYTHONDONTWRITEBYTECODE=1
# What keeps UCXX on shared memory with error handling; see docs/wire-formats.md.
shared=(env UCX_MM_ERROR_HANDLING=y UCX_CMA_MEMORY_INVALIDATE=y UCX_WARN_UNUSED_ENV_VARS=n)
for transports in tcp,self all; do
  say "ucxx: with error handling, UCX_TLS=$transports"
  UCX_TLS=$transports "$program" peer "${shared[@]}" "$peers/python/bin/python" "$here/foreign.py" peer
  say "ucxx: without, UCX_TLS=$transports"
  UCX_TLS=$transports "$program" none "${shared[@]}" "$peers/python/bin/python" "$here/foreign.py" none
  say "ucxx: multi-buffer transfer, UCX_TLS=$transports"
  UCX_TLS=$transports "$frames" "${shared[@]}" "$peers/python/bin/python" "$here/foreign.py" peer
done
