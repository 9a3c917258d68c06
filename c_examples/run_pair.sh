#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) the ucxx_rs developers
#
# Runs an example as two processes, rank 0 and rank 1. Fails if either fails.
#
#   run_pair.sh BIN_DIR PROGRAM [ARGUMENT...]
#
#   EXAMPLE_WRAPPER   words put before the program, for example "valgrind --quiet"
#   EXAMPLE_SERVER    the program of rank 1, instead of BIN_DIR/PROGRAM
#   EXAMPLE_TIMEOUT   seconds after which both are ended (120)
set -euo pipefail

if (($# < 2)); then
  echo "usage: $0 BIN_DIR PROGRAM [ARGUMENT...]" >&2
  exit 2
fi
programs=("$1/$2" "${EXAMPLE_SERVER:-$1/$2}")
shift 2
read -ra wrapper <<<"${EXAMPLE_WRAPPER:-}"

scratch=$(mktemp -d)
pids=()
clean_up() {
  local pid
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  rm -rf "$scratch"
}
trap clean_up EXIT

for rank in 0 1; do
  timeout --kill-after=5 "${EXAMPLE_TIMEOUT:-120}" "${wrapper[@]}" "${programs[rank]}" "$rank" "$scratch/socket" "$@" &
  pids+=($!)
done

result=0
for rank in 0 1; do
  status=0
  wait "${pids[rank]}" || status=$?
  if ((status != 0)); then
    echo "$0: rank $rank of ${programs[0]} ended with status $status" >&2
    result=1
  fi
done
pids=()
exit "$result"
