# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) the ucxx_rs developers
#
# What the scripts share that run a server and its clients; sourced, never run. Gives `wrapper`,
# `limit` (words to put before a program that is to end by itself), `scratch` (a folder), `running`
# (pids that do not outlive the script) and `says`.
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

# Descriptors of what the programs print, by name.
declare -A says

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

# hear_server: opens what the server prints into $scratch/server; its first line says the port,
# which is $port from then on.
hear_server() {
  local fd word
  exec {fd}<"$scratch/server"
  says[server]=$fd
  read -r word port <&"$fd" || true
  [[ $word == port ]] || bad "the server does not tell its port"
}

# skip WHY: for what this machine does not have; CTest shows it as skipped.
skip() {
  echo "SKIPPED: $*"
  exit 77
}

# Ends the background jobs that are behind `limit`: it passes on what asks them to end, and a KILL
# would reach nobody but itself.
end_limited() {
  trap '' TERM INT
  # shellcheck disable=SC2046 # words
  kill -TERM $(jobs -p) 2>/dev/null || true
  wait 2>/dev/null || true
}

# One below those that the kernel gives to whoever connects, so that nobody gets it by chance before
# it is used.
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

# new_group SIZE: what the members of a group find in their environment; the rank is each one's own.
new_group() {
  MASTER_ADDR=127.0.0.1
  MASTER_PORT=$(free_port)
  UCXX_RS_GROUP_SECRET=$(head -c 32 /dev/urandom | base64)
  WORLD_SIZE=$1
  export MASTER_ADDR MASTER_PORT UCXX_RS_GROUP_SECRET WORLD_SIZE
}

# start_members SIZE WORD...: starts the words as a group of so many on this machine; `members` are
# their pids, by rank, and $scratch/RANK is what each prints. With EXAMPLE_HOSTS they count as those
# of so many hosts, in turns.
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

# killed PID: with SIGKILL, and gone. bash reports that on stderr, which is the point here.
killed() {
  {
    kill -KILL "$1"
    wait "$1" || true
  } 2>/dev/null
}
