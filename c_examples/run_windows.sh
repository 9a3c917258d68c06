#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) the ucxx_rs developers
#
# Runs one of the examples with windows as a group of SIZE processes on this machine. The examples
# check their results.
#
#   run_windows.sh BIN_DIR stencil|work_queue|histogram|hash_table SIZE
#
#   EXAMPLE_WRAPPER   words put before the program, for example "valgrind --quiet"; then the runs
#                     are smaller
#   EXAMPLE_TIMEOUT   seconds after which everything is ended (120)
#   EXAMPLE_HOSTS     the processes count as processes of that many hosts, in turn
set -euo pipefail

if (($# != 3)); then
  echo "usage: $0 BIN_DIR stencil|work_queue|histogram|hash_table SIZE" >&2
  exit 2
fi
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=c_examples/run_common.sh
source "$here/run_common.sh"
program=("${wrapper[@]}" "$1/$2")
size=$3
trap 'end_limited; clean_up' EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

# succeeds PATTERN ARGUMENT...: runs the group. Every member must succeed, and rank 0 must print the
# pattern.
succeeds() {
  local rank status
  start_members "$size" "${program[@]}" "${@:2}"
  for ((rank = 0; rank < size; rank++)); do
    status=0
    wait "${members[rank]}" || status=$?
    ((status == 0)) || bad "rank $rank ended with status $status: $(cat "$scratch/$rank")"
  done
  grep "^$size members, .*$1" "$scratch/0" || bad "rank 0 did not say '$1': $(cat "$scratch/0")"
}

# all_learn_of_a_death ARGUMENT...: a member dies in the middle, and all others must end with an
# error.
all_learn_of_a_death() {
  local rank status victim=$((size / 2))
  # bash reports killed processes on stderr.
  {
    start_members "$size" "${program[@]}" --dies "$victim" "$@" 64 48 1000
    status=0
    wait "${members[victim]}" || status=$?
  } 2>/dev/null
  ((status == 137)) || bad "rank $victim was not killed: $(cat "$scratch/$victim")"
  for ((rank = 0; rank < size; rank++)); do
    if ((rank == victim)); then continue; fi
    status=0
    wait "${members[rank]}" || status=$?
    ((status == 1)) || bad "rank $rank ended with status $status, and not 1: $(cat "$scratch/$rank")"
    grep -q '^error: .*UCXX_ERR_PEER_FAILED' "$scratch/$rank" || bad "rank $rank did not say why: $(cat "$scratch/$rank")"
  done
  echo "rank $victim of $size died, and the others ended with an error ($*)"
}

# quickly FULL LESS: prints FULL, or LESS under a wrapper, which makes each instruction slow.
quickly() {
  if ((${#wrapper[@]} == 0)); then echo "$1"; else echo "$2"; fi
}

try_stencil() {
  local width height steps
  read -r width height steps <<<"$(quickly "320 240 500" "48 32 20")"
  succeeds "every bit is right" --picture "$scratch/one.pgm" "$width" "$height" "$steps"
  succeeds "every bit is right" --fence --picture "$scratch/other.pgm" "$width" "$height" "$steps"
  cmp "$scratch/one.pgm" "$scratch/other.pgm" || bad "the pictures differ"
  [[ $(head -n 3 "$scratch/one.pgm" | tr '\n' ' ') == "P5 $width $height 255 " ]] || bad "no picture"
  (($(wc -c <"$scratch/one.pgm") == $(head -n 3 "$scratch/one.pgm" | wc -c) + width * height)) || bad "not all of the picture"
  # Blocks of different sizes, and blocks of a few cells.
  succeeds "every bit is right" 37 53 9
  succeeds "every bit is right" --fence 29 31 7
  succeeds "every bit is right" "$size" "$size" 5
  if ((size > 1 && ${#wrapper[@]} == 0)); then
    all_learn_of_a_death
    all_learn_of_a_death --fence
  fi
}

try_work_queue() {
  local tasks numbers
  read -r tasks numbers <<<"$(quickly "200 2500" "60 100")"
  succeeds "each done once" "$tasks" "$numbers"
  # All members use the queue all the time, and most find it empty.
  succeeds "each done once" "$(quickly 20000 500)" 1
  succeeds "each done once" 1 1
}

try_histogram() {
  local texts=("$here/../LICENSE")
  if ((${#wrapper[@]} == 0)); then texts+=("$here/../docs/"*.md); fi
  succeeds "every count is right" "${texts[@]}"
  # All members add to one number all the time. Not all members have buckets.
  succeeds "every count is right" --buckets 1 --times "$(quickly 500 2)" "${texts[@]}"
  succeeds "every count is right" --buckets 3 "${texts[@]}"
  succeeds "no words" /dev/null
}

try_hash_table() {
  local insertions
  insertions=$(quickly 500 60)
  succeeds "each there once with the right count" "$insertions"
  # Only lists, and all members use the same one. Not all members have buckets.
  succeeds "each there once with the right count" --buckets 1 --range "$(quickly 150 30)" "$(quickly 150 30)"
  # All members insert the same few keys, and claim the same buckets.
  succeeds "each there once with the right count" --range 3 "$insertions"
  # Almost no lists.
  succeeds "each there once with the right count" --buckets 20011 --range 100000 "$(quickly 300 30)"
}

case $2 in
  stencil | work_queue | histogram | hash_table) "try_$2" ;;
  *) bad "no example '$2'" ;;
esac
