#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) the ucxx_rs developers
#
# Runs reconnect: the server is killed in the middle, the client tries in vain for a while, the server is started anew on the same
# port. In the end its file holds each record once, in order.
#
#   run_reconnect.sh BIN_DIR
#
#   EXAMPLE_WRAPPER   words put before the program, for example "valgrind --quiet"
#   EXAMPLE_TIMEOUT   seconds after which everything is ended (120)
set -euo pipefail

if (($# != 1)); then
  echo "usage: $0 BIN_DIR" >&2
  exit 2
fi
read -ra wrapper <<<"${EXAMPLE_WRAPPER:-}"
program=("${wrapper[@]}" "$1/reconnect")
limit=(timeout --kill-after=5 "${EXAMPLE_TIMEOUT:-120}")

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

# until_line WHO PATTERN: reads what one of them prints up to a line that matches, and shows it.
until_line() {
  local line
  while IFS= read -r -u "${says[$1]}" line; do
    echo "$1: $line"
    # shellcheck disable=SC2053 # a pattern
    if [[ $line == $2 ]]; then return 0; fi
  done
  bad "the $1 never said '$2'"
}

start_server() { # port
  rm -f "$scratch/server"
  mkfifo "$scratch/server"
  "${program[@]}" server "$1" "$scratch/records" >"$scratch/server" &
  server=$!
  running+=("$server")
  exec {fd}<"$scratch/server"
  says[server]=$fd
  read -r word port <&"$fd" || true
  [[ $word == port ]] || bad "the server does not tell its port"
}

declare -A says
start_server 0
mkfifo "$scratch/input" "$scratch/client"
"${limit[@]}" "${program[@]}" client "$port" <"$scratch/input" >"$scratch/client" 2>&1 &
client=$!
running+=("$client")
exec {input}>"$scratch/input"
exec {fd}<"$scratch/client"
says[client]=$fd

seq 1 1000 >&"$input"
until_line server "stored 100"
{ # bash reports on stderr that a process was killed, which is the point here
  kill -KILL "$server"
  wait "$server" || true
} 2>/dev/null
until_line client "the connection has ended: UCXX_ERR_PEER_FAILED*"
until_line client "the connection has ended: UCXX_ERR_UNREACHABLE*"
seq 1001 2000 >&"$input" &
exec {input}>&-

start_server "$port"
until_line client "connected: *"
until_line client "2000 records are stored"
wait "$client" || bad "the client ended with status $?"
wait "$server" || bad "the server ended with status $?"
seq 1 2000 | cmp - "$scratch/records" || bad "the records are not what was sent"
