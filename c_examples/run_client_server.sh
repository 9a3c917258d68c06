#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) the ucxx_rs developers
#
# Runs client_server with clients of every kind: some that finish, some that are rejected, some that are killed in the middle of a
# conversation, one that comes late. The server has to count them all, and to say of each how it left.
#
#   run_client_server.sh BIN_DIR
#
#   EXAMPLE_WRAPPER   words put before the program, for example "valgrind --quiet"
#   EXAMPLE_TIMEOUT   seconds after which everything is ended (120)
set -euo pipefail

if (($# != 1)); then
  echo "usage: $0 BIN_DIR" >&2
  exit 2
fi
read -ra wrapper <<<"${EXAMPLE_WRAPPER:-}"
program=("${wrapper[@]}" "$1/client_server")
limit=(timeout --kill-after=5 "${EXAMPLE_TIMEOUT:-120}")
most=4

scratch=$(mktemp -d)
running=()
clean_up() {
  local pid
  for pid in "${running[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
  rm -rf "$scratch"
}
trap clean_up EXIT

bad() {
  echo "FAILED: $*" >&2
  exit 1
}

# until_line PATTERN: reads what the server prints up to a line that matches, and shows it.
until_line() {
  local line
  while IFS= read -r -u "$says" line; do
    echo "server: $line"
    # shellcheck disable=SC2053 # a pattern
    if [[ $line == $1 ]]; then return 0; fi
  done
  bad "the server never said '$1'"
}

# start_talker NUMBER INPUT: returns when it has its first answer.
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

# Comes, asks two questions and goes.
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
  { # bash reports on stderr that a process was killed, which is the point here
    kill -KILL "${talkers[$1]}"
    wait "${talkers[$1]}" || true
  } 2>/dev/null
  until_line "client * died without a goodbye: UCXX_ERR_PEER_FAILED"
}

talkers=()
mkfifo "$scratch/server"
"${limit[@]}" "${program[@]}" server "$most" 11 >"$scratch/server" &
server=$!
running+=("$server")
exec {says}<"$scratch/server"
read -r word port <&"$says" || true
[[ $word == port ]] || bad "the server does not tell its port"

for _ in 1 2; do
  run_guest
  until_line "client * after a goodbye: *"
done
# Two that never stop asking, and two that think about their second question.
for number in 0 1 2 3; do
  if ((number % 2 == 0)); then
    start_talker "$number" <(exec yes "a question")
  else
    mkfifo "$scratch/thinking$number"
    exec {thinking}<>"$scratch/thinking$number" # open for writing, too, as long as this script runs
    echo "a question" >&"$thinking"
    start_talker "$number" "$scratch/thinking$number"
  fi
done
expect_rejection
expect_rejection
kill_talker 0
kill_talker 1
run_guest
until_line "client * after a goodbye: *"
kill_talker 2
run_guest
until_line "client * after a goodbye: *"
kill_talker 3
run_guest
until_line "accepted 9, rejected 2, finished 5, lost 4, answers *"
wait "$server" || bad "the server ended with status $?"
