# Sourced by the scripts that start groups under a launcher, each of which has the launcher's name.
# It adds run_group to what the scripts of c_examples share.
# shellcheck shell=bash

# shellcheck source=c_examples/run_common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../c_examples/run_common.sh"
name=$(basename "$0" .sh)

# Runs a group whose rank 0 prints its size and its result in one line, as ring_allreduce does.
run_group() { # WHAT SIZE COMMAND...
  local what=$1 size=$2 status=0
  shift 2
  "${limit[@]}" "$@" > "$scratch/said" 2>&1 </dev/null || status=$?
  if [ "$status" -ne 0 ] || ! grep "^$size members, .* every sum is right" "$scratch/said"; then
    cat "$scratch/said" >&2
    find "$scratch" -maxdepth 1 -name '*.log' -exec cat {} + >&2
    bad "$name: $what: status $status"
  fi
  echo "  ok: $what"
}
