#!/usr/bin/env bash
# Starts groups of two and four processes by torchrun: a C program, and a Python program that also
# has a process group of PyTorch. By shared memory, and by TCP.
#
#   tests/launchers/torchrun.sh PREFIX BIN_DIR
#
# PREFIX is an installed library, BIN_DIR has the built examples. Status 77: there is no torchrun in
# the path. `pip install torch` brings it.
set -euo pipefail
prefix=$(realpath "$1")
program=$(realpath "$2")/ring_allreduce
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/launchers/common.sh
source "$here/common.sh"
command -v torchrun >/dev/null || skip "torchrun is not installed (pip install torch)"

# The package, for the Python that torchrun starts.
printf 'import sys\nprint(sys.executable)\n' > "$scratch/which.py"
python=$(torchrun --nproc-per-node 1 "$scratch/which.py" 2>/dev/null)
wheel=$("$here/../../scripts/wheel.sh" --prefix "$prefix" "$scratch/dist" 2> "$scratch/said") ||
  { cat "$scratch/said" >&2; exit 1; }
"$python" -m pip install --quiet --disable-pip-version-check --target "$scratch/site" "$wheel" ||
  bad "the package cannot be installed for $python"
export PYTHONPATH=$scratch/site${PYTHONPATH:+:$PYTHONPATH}

export OMP_NUM_THREADS=1
run() { # WHAT SIZE ARGUMENT...
  new_group "$2"
  run_group "$1" "$2" torchrun --master-port "$MASTER_PORT" --nproc-per-node "$2" "${@:3}"
}
for transports in posix,cma,self tcp,self; do
  export UCX_TLS=$transports
  for size in 2 4; do
    run "$size C programs, $transports" "$size" --no-python "$program" --torchrun 1000003
    run "$size Python programs, $transports" "$size" "$here/torch_member.py"
  done
done
unset UCX_TLS

# The port of torchrun's own store is in use. The error names the reason.
if torchrun --nproc-per-node 2 --no-python "$program" > "$scratch/said" 2>&1 </dev/null ||
  ! grep -q 'UCXX_ERR_BUSY: root: .*under torchrun its own store has' "$scratch/said"; then
  cat "$scratch/said" >&2
  bad "a group at MASTER_PORT did not report BUSY"
fi
echo "  ok: BUSY at MASTER_PORT"
# shellcheck disable=SC2016  # the inner shell expands these
run "a program that only knows MASTER_PORT" 2 \
  --no-python bash -c 'MASTER_PORT=$((MASTER_PORT + 1)) exec "$0" 1000003' "$program"
