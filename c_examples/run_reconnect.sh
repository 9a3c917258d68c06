#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) the ucxx_rs developers
#
# Runs reconnect: kills the server in the middle, lets the client try in vain for a while, and
# starts the server again on the same port. At the end the server's file must hold each record once,
# in order.
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
# shellcheck source=c_examples/run_common.sh
source "$(dirname "${BASH_SOURCE[0]}")/run_common.sh"
program=("${wrapper[@]}" "$1/reconnect")

start_server() { # PORT
  rm -f "$scratch/server"
  mkfifo "$scratch/server"
  "${program[@]}" server "$1" "$scratch/records" >"$scratch/server" &
  server=$!
  running+=("$server")
  hear_server
}

# The kernel must not choose it: it could give it to another program while no server listens.
start_server "$(free_port)"
mkfifo "$scratch/input" "$scratch/client"
"${limit[@]}" "${program[@]}" client "$port" <"$scratch/input" >"$scratch/client" 2>&1 &
client=$!
running+=("$client")
exec {input}>"$scratch/input"
exec {fd}<"$scratch/client"
says[client]=$fd

seq 1 1000 >&"$input"
until_line server "stored 100"
killed "$server"
# The client may have sent all that it has: it tries to connect again only if there is more.
seq 1001 2000 >&"$input" &
exec {input}>&-
until_line client "the connection has ended: UCXX_ERR_PEER_FAILED*"
until_line client "the connection has ended: UCXX_ERR_UNREACHABLE*"

start_server "$port"
until_line client "connected: *"
until_line client "2000 records are stored"
wait "$client" || bad "the client ended with status $?"
wait "$server" || bad "the server ended with status $?"
seq 1 2000 | cmp - "$scratch/records" || bad "the records are not what was sent"
