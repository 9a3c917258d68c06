#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) the ucxx_rs developers
#
# Runs client_server with clients of every kind: some finish, some are rejected, some are killed in
# the middle, and one comes late. The server must count all of them, and print how each ended.
#
#   run_client_server.sh BIN_DIR [PROGRAM]
#
#   EXAMPLE_WRAPPER   words put before the program, for example "valgrind --quiet"
#   EXAMPLE_TIMEOUT   seconds after which everything is ended (120)
set -euo pipefail

if (($# < 1 || $# > 2)); then
  echo "usage: $0 BIN_DIR [PROGRAM]" >&2
  exit 2
fi
# shellcheck source=c_examples/run_common.sh
source "$(dirname "${BASH_SOURCE[0]}")/run_common.sh"
program=("${wrapper[@]}" "$1/${2:-client_server}")
most=4

# start_talker NUMBER INPUT: starts a client with this input, and returns after its first answer.
start_talker() {
  local answer words
  mkfifo "$scratch/talker$1"
  "${program[@]}" client "$port" <"$2" >"$scratch/talker$1" 2>"$scratch/talker$1.log" &
  running+=($!)
  talkers+=($!)
  exec {words}<"$scratch/talker$1"
  read -r answer <&"$words" || true
  [[ $answer == "A QUESTION" ]] || bad "talker $1: '$answer', $(cat "$scratch/talker$1.log")"
  cat <&"$words" >/dev/null &
  exec {words}<&-
}

# Runs a client that asks two questions and ends.
run_guest() {
  local answers
  answers=$(printf 'who are you?\nGood night.\n' | "${limit[@]}" "${program[@]}" client "$port") || bad "a client failed"
  [[ $answers == $'WHO ARE YOU?\nGOOD NIGHT.' ]] || bad "a client was answered '$answers'"
}

expect_rejection() {
  local status=0
  "${limit[@]}" "${program[@]}" client "$port" </dev/null 2>"$scratch/rejected" || status=$?
  sed 's/^/client: /' "$scratch/rejected"
  ((status == 3)) || bad "a client too many ended with status $status"
  grep -q UCXX_ERR_REJECTED "$scratch/rejected" || bad "it did not say why"
}

kill_talker() {
  kill -0 "${talkers[$1]}" || bad "talker $1 has ended by itself: $(cat "$scratch/talker$1.log")"
  killed "${talkers[$1]}"
  until_line server "client * died without a goodbye: UCXX_ERR_PEER_FAILED"
}

talkers=()
mkfifo "$scratch/server"
"${limit[@]}" "${program[@]}" server "$most" 11 >"$scratch/server" &
server=$!
running+=("$server")
hear_server

for _ in 1 2; do
  run_guest
  until_line server "client * after a goodbye: *"
done
# Two clients that ask without a pause, and two that wait before their second question.
for number in 0 1 2 3; do
  if ((number % 2 == 0)); then
    start_talker "$number" <(exec yes "a question")
  else
    mkfifo "$scratch/thinking$number"
    exec {thinking}<>"$scratch/thinking$number" # also open for writing as long as this script runs
    echo "a question" >&"$thinking"
    start_talker "$number" "$scratch/thinking$number"
  fi
done
expect_rejection
expect_rejection
kill_talker 0
kill_talker 1
run_guest
until_line server "client * after a goodbye: *"
kill_talker 2
run_guest
until_line server "client * after a goodbye: *"
kill_talker 3
run_guest
until_line server "accepted 9, rejected 2, finished 5, lost 4, answers *"
wait "$server" || bad "the server ended with status $?"
