#!/usr/bin/env bash
# The library and UCXX as peers, over TCP and over UCX's default transports: UCXX's Python package,
# and its C++ interface. Each part is skipped, with a line that says so, if it is not available.
#
#   tests/bindings/ucxx/run.sh FOLDER     where tests/c was built: target/suites/tests/c
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/../../../scripts/lib.sh"
program=$(realpath "$1/foreign_peer") frames=$(realpath "$1/foreign_multi")
[ -x "$program" ] && [ -x "$frames" ] || die "$program and $frames are not built: scripts/test.sh suites"

# The benchmarks' peers, where their versions are pinned and they are installed.
peers=$target_dir/bench/peers
export PYTHONDONTWRITEBYTECODE=1
suite() { # arguments..., source on stdin
  PYTHONPATH=$root/benches "$("$root/scripts/venv.sh")" - "$peers" "$@"
}
fetch() { # the function that does it
  suite "$1" <<'PYTHON'
import pathlib, sys
from suite import Unavailable, build
try:
    getattr(build, sys.argv[2])(pathlib.Path(sys.argv[1]))
except Unavailable as reason:
    sys.exit(str(reason))
PYTHON
}

# If UCXX is installed, a compile error is a failure.
compile() { # source, program
  mkdir -p "$(dirname "$2")"
  suite "$@" <<'PYTHON'
import pathlib, sys
from suite import Unavailable, build
peers, source, program = map(pathlib.Path, sys.argv[1:])
try:
    build.compile_with_ucxx(peers, ["-Werror", source], program)
except Unavailable as reason:
    sys.exit(str(reason))
PYTHON
}

# Keeps UCXX on shared memory with error handling; see docs/wire-formats.md.
shared=(env UCX_MM_ERROR_HANDLING=y UCX_CMA_MEMORY_INVALIDATE=y UCX_WARN_UNUSED_ENV_VARS=n)
against() { # its language, the command that starts it...
  local language=$1 transports
  shift
  # UCXX's own UCX release, on both sides: 1.13 does not work with newer ones everywhere.
  local -x LD_LIBRARY_PATH UCXX_TEST_CALLBACKS=
  # UCXX's Python package has neither headers nor receiver callbacks.
  [ "$language" = Python ] || UCXX_TEST_CALLBACKS=yes
  LD_LIBRARY_PATH=$("$root/scripts/ucx_wheel.sh" 1.21.0)
  for transports in tcp,self all; do
    say "ucxx, $language: with error handling, UCX_TLS=$transports"
    UCX_TLS=$transports "$program" peer "${shared[@]}" "$@" peer
    say "ucxx, $language: without, UCX_TLS=$transports"
    UCX_TLS=$transports "$program" none "${shared[@]}" "$@" none
    say "ucxx, $language: multi-buffer transfer and queues, UCX_TLS=$transports"
    UCX_TLS=$transports "$frames" "${shared[@]}" "$@" peer
  done
}

if fetch fetch_python_ucxx; then
  against Python "$peers/python/bin/python" "$here/foreign.py"
else
  say "ucxx, Python: LEFT OUT: UCXX's Python package cannot be installed here"
fi

if fetch fetch_ucxx; then
  foreign=$target_dir/bindings/ucxx/foreign
  compile "$here/foreign.cpp" "$foreign"
  against C++ "$foreign"
else
  say "ucxx, C++: LEFT OUT: UCXX cannot be downloaded here"
fi
