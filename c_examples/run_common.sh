# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) the ucxx_rs developers
#
# Shared by the scripts that run a server and its clients. Sourced, never run. It sets:
#
# - wrapper: words to put before a program
# - limit: words to put before a program that should end by itself
# - scratch: a folder that is removed at the end
# - running: process ids that are killed at the end
# - says: see below
# shellcheck shell=bash disable=SC2034 # used by those who source this

read -ra wrapper <<<"${EXAMPLE_WRAPPER:-}"
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

# For each program by name, the descriptor from which its output is read.
declare -A says

# until_line NAME PATTERN: reads and prints the output of a program up to a line that matches.
until_line() {
  local line
  while IFS= read -r -u "${says[$1]}" line; do
    echo "$1: $line"
    # shellcheck disable=SC2053 # a pattern
    if [[ $line == $2 ]]; then return 0; fi
  done
  bad "the $1 never said '$2'"
}

# hear_server: opens the server's output, $scratch/server, and sets $port from its first line.
hear_server() {
  local fd word
  exec {fd}<"$scratch/server"
  says[server]=$fd
  read -r word port <&"$fd" || true
  [[ $word == port ]] || bad "the server does not tell its port"
}

# skip WHY: ends the script for a test that this machine cannot run. CTest shows it as skipped.
skip() {
  echo "SKIPPED: $*"
  exit 77
}

# Ends the background jobs that run behind `limit`. TERM, because timeout(1) passes that on to the
# program. KILL would end only timeout(1) itself.
end_limited() {
  trap '' TERM INT
  # shellcheck disable=SC2046 # words
  kill -TERM $(jobs -p) 2>/dev/null || true
  wait 2>/dev/null || true
}

# Prints a free port below those that the kernel gives to connecting sockets, so that none of these
# takes it before it is used.
free_port() {
  local highest port
  highest=$(cut -f 1 /proc/sys/net/ipv4/ip_local_port_range)
  for _ in {1..100}; do
    port=$((10000 + (RANDOM * 32768 + RANDOM) % (highest - 10000)))
    if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
      echo "$port"
      return
    fi
  done
  bad "no free port"
}

# new_group SIZE: sets the environment variables of a group, except RANK.
new_group() {
  MASTER_ADDR=127.0.0.1
  MASTER_PORT=$(free_port)
  UCXX_RS_GROUP_SECRET=$(head -c 32 /dev/urandom | base64)
  WORLD_SIZE=$1
  export MASTER_ADDR MASTER_PORT UCXX_RS_GROUP_SECRET WORLD_SIZE
}

# start_members SIZE WORD...: starts the command as a group of SIZE processes on this machine. Sets
# `members` to their process ids by rank. Their output is in $scratch/RANK. With EXAMPLE_HOSTS they
# count as processes of that many hosts, in turn.
start_members() {
  local rank host=()
  members=()
  new_group "$1"
  for ((rank = 0; rank < $1; rank++)); do
    if [[ -n ${EXAMPLE_HOSTS:-} ]]; then host=("UCXX_RS_HOST_ID=$((rank % EXAMPLE_HOSTS))"); fi
    RANK=$rank env "${host[@]}" "${limit[@]}" "${@:2}" >"$scratch/$rank" 2>&1 &
    members+=($!)
  done
}

# killed PID: kills a process and waits for it. bash reports that on stderr, and here it is
# expected.
killed() {
  {
    kill -KILL "$1"
    wait "$1" || true
  } 2>/dev/null
}
