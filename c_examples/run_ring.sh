#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) the ucxx_rs developers
#
# Runs ring_allreduce as a group of SIZE processes on this machine: with vectors that can be divided
# evenly, that cannot, and that are shorter than the group. At the end one member dies, and all
# others must report an error.
#
#   run_ring.sh BIN_DIR SIZE
#
#   EXAMPLE_WRAPPER   words put before the program, for example "valgrind --quiet"; then nobody dies
#   EXAMPLE_TIMEOUT   seconds after which everything is ended (120)
set -euo pipefail

if (($# != 2)); then
  echo "usage: $0 BIN_DIR SIZE" >&2
  exit 2
fi
# shellcheck source=c_examples/run_common.sh
source "$(dirname "${BASH_SOURCE[0]}")/run_common.sh"
program=("${wrapper[@]}" "$1/ring_allreduce")
size=$2
trap 'end_limited; clean_up' EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

# Not empty if a member is going to die.
dying=

# ended RANK STATUS [PATTERN]: waits for a member, and checks its exit status and its output.
ended() {
  local status=0
  wait "${members[$1]}" || status=$?
  if ((status == 134)) && [[ -n $dying && ${UCX_TLS:-} == tcp* ]] && grep -qE '(ucp_request|tcp_ep)\.c:[0-9]+ .*Assertion' "$scratch/$1"; then
    echo "rank $1 was ended by UCX 1.13 itself: see docs/known-issues.md"
    return
  fi
  ((status == $2)) || bad "rank $1 ended with status $status, and not $2: $(cat "$scratch/$1")"
  (($# == 2)) || grep -q "$3" "$scratch/$1" || bad "rank $1 did not say '$3': $(cat "$scratch/$1")"
}

# succeeds ARGUMENT...: runs the group, and checks that every member succeeds.
succeeds() {
  local rank
  start_members "$size" "${program[@]}" "$@"
  for ((rank = 0; rank < size; rank++)); do
    if ((rank == 0)); then ended 0 0 "^$size members, .* every sum is right"; else ended "$rank" 0; fi
  done
  cat "$scratch/0"
}

succeeds $((size * 100000))
succeeds 1000003 3
succeeds $((size - 1))

if ((${#wrapper[@]} == 0)); then
  victim=$((size / 2))
  dying=yes
  # bash reports killed processes on stderr.
  {
    start_members "$size" "${program[@]}" --dies "$victim"
    wait "${members[victim]}" || status=$?
  } 2>/dev/null
  ((status == 137)) || bad "rank $victim was not killed: $(cat "$scratch/$victim")"
  for ((rank = 0; rank < size; rank++)); do
    if ((rank != victim)); then ended "$rank" 1 '^error: '; fi
  done
  echo "rank $victim of $size died, and the others ended with an error"
fi
