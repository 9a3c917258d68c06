#!/usr/bin/env bash
# Runs Python's part of the GPU bundle by the machine's python3. run.sh starts it.
#
#   python.sh tensors [--cpu]    python_gpu.py, with the package that is in the bundle
#   python.sh ucxx BYTES         UCXX's own benchmark, on its own UCX; prints half_round_trip_ns
#
# PLAIN_LIBRARY_PATH: LD_LIBRARY_PATH without the folders of the bundle. Status 77, and the reason
# in the last line: it cannot run here.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
skip() { echo "$*"; exit 77; }

export LD_LIBRARY_PATH=${PLAIN_LIBRARY_PATH-}
command -v python3 >/dev/null || skip "there is no python3"
python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' || skip "python3 is older than 3.9"

if [ "$1" = ucxx ]; then
  python3 -c 'import ucxx.benchmarks' 2>/dev/null || skip "python3 has no ucxx"
  kind=numpy
  usable='import cupy, sys; sys.exit(not cupy.cuda.is_available())'
  if python3 -c "$usable" 2>/dev/null; then kind=cupy; fi
  said=$(python3 -m ucxx.benchmarks.send_recv -s 127.0.0.1 -l ucxx-core --progress-mode thread \
    -o "$kind" -n "$2" --n-iter 200 --n-warmup-iter 50 --reuse-alloc --no-detailed-report 2>&1) ||
    { printf '%s\n' "$said"; exit 1; }
  printf '%s\nmemory=%s\n' "$said" "$kind"
  [[ $said =~ Latency\ \(median\)[\ |]+([0-9]+)\ ns ]] || { echo "no latency was printed"; exit 1; }
  echo "half_round_trip_ns=${BASH_REMATCH[1]}"
  exit
fi

export LD_LIBRARY_PATH=$here/lib:$here/ucx/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export PYTHONPATH=$here/python${PYTHONPATH:+:$PYTHONPATH} UCXX_RS_UCX=$here/ucx/lib
# The bundle's cffi only where there is none: others may need the one that is there.
if ! python3 -c 'import _cffi_backend' 2>/dev/null; then
  PYTHONPATH=$PYTHONPATH:$here/python/cffi
  python3 -c 'import _cffi_backend' 2>/dev/null || skip "python3 has no cffi that it can use"
fi
exec python3 "$here/python/python_gpu.py" "${@:2}"
