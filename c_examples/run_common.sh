# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) the ucxx_rs developers
#
# What the scripts share that run a server and its clients; sourced, never run. Gives `wrapper`, `limit` (words to put before a program
# that is to end by itself), `scratch` (a folder), `running` (pids that do not outlive the script) and `says`.
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

# hear_server: opens what the server prints into $scratch/server; its first line says the port, which is $port from then on.
hear_server() {
  local fd word
  exec {fd}<"$scratch/server"
  says[server]=$fd
  read -r word port <&"$fd" || true
  [[ $word == port ]] || bad "the server does not tell its port"
}

# killed PID: with SIGKILL, and gone. bash reports that on stderr, which is the point here.
killed() {
  {
    kill -KILL "$1"
    wait "$1" || true
  } 2>/dev/null
}
