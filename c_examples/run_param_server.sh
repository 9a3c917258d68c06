#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) the ucxx_rs developers
#
# Runs param_server with four workers: once until they are done, and once with a worker that dies
# after its third round, so that all have to end.
#
#   run_param_server.sh BIN_DIR
#
#   EXAMPLE_WRAPPER   words put before the program, for example "valgrind --quiet"
#   EXAMPLE_TIMEOUT   seconds after which everything is ended (120)
set -euo pipefail

if (($# != 1)); then
  echo "usage: $0 BIN_DIR" >&2
  exit 2
fi
# shellcheck source=c_examples/run_common.sh
source "$(dirname "${BASH_SOURCE[0]}")/run_common.sh"
program=("${wrapper[@]}" "$1/param_server")

start_server() {
  mkfifo "$scratch/server"
  "${limit[@]}" "${program[@]}" server 4 8 >"$scratch/server" &
  server=$!
  running+=("$server")
  hear_server
}

# start_workers NUMBER: starts that many workers.
start_workers() {
  local number
  workers=()
  for ((number = 0; number < $1; number++)); do
    "${limit[@]}" "${program[@]}" worker "$port" 2>"$scratch/worker$number" &
    workers+=($!)
    running+=($!)
  done
}

# ended PID STATUS LOG: waits for a process and checks its exit status.
ended() {
  local status=0
  wait "$1" || status=$?
  ((status == $2)) || bad "ended with status $status, and not $2: $(cat "$3")"
}

start_server
start_workers 4
until_line server "complete: 4 workers, 8 of 8 rounds, 160 pulls answered"
for number in 0 1 2 3; do ended "${workers[number]}" 0 "$scratch/worker$number"; done
ended "$server" 0 /dev/null

rm "$scratch/server"
start_server
start_workers 3
{ "${limit[@]}" "${program[@]}" worker "$port" 2 || true; } 2>/dev/null
until_line server "worker * is lost: UCXX_ERR_PEER_FAILED"
until_line server "gave up: 4 workers, *"
for number in 0 1 2; do ended "${workers[number]}" 4 "$scratch/worker$number"; done
ended "$server" 4 /dev/null
