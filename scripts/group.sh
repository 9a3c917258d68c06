#!/usr/bin/env bash
# Starts a program as the N members of a group on this machine (docs/groups.md). Each gets RANK,
# WORLD_SIZE, MASTER_ADDR, MASTER_PORT and UCXX_RS_GROUP_SECRET in its environment. It is installed
# as ucxx_rs_group, so it uses no other file.
#
#   ucxx_rs_group N PROGRAM [ARGUMENT ...]
#
# The exit status is 0 if all members succeed. The first that fails, or Ctrl-C, ends the others, and
# then the status is that one's. The output of the members is not changed. They have no standard
# input.
set -euo pipefail

name=$(basename "$0")
die() { printf '%s: %s\n' "$name" "$*" >&2; exit 1; }
[[ $# -ge 2 && $1 =~ ^[1-9][0-9]{0,3}$ ]] || die "usage: $name N PROGRAM [ARGUMENT ...]"
size=$1
shift
command -v "$1" >/dev/null || die "no program '$1'"

# A port below those that the kernel gives to connecting sockets, so that none of these takes it
# before rank 0 does.
free_port() {
  local highest port
  highest=$(cut -f 1 /proc/sys/net/ipv4/ip_local_port_range)
  for _ in {1..100}; do
    port=$((10000 + (RANDOM * 32768 + RANDOM) % (highest - 10000)))
    if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
      printf '%s\n' "$port"
      return
    fi
  done
  die "no free port"
}

# For each rank, the process group of its member, until it ends. A group each, because a program may
# be a script that starts others.
declare -A members
signal_members() {
  local member
  for member in "${members[@]}"; do kill "-$1" -- "-$member" 2>/dev/null || true; done
}
# Sends TERM to the members, and KILL five seconds later.
end_members() {
  local member killer
  trap '' INT TERM HUP
  [ "${#members[@]}" -gt 0 ] || return 0
  signal_members TERM
  { sleep 5; signal_members KILL; } &
  killer=$!
  for member in "${members[@]}"; do wait "$member" 2>/dev/null || true; done
  signal_members KILL
  # It ignores TERM, like this shell.
  kill -KILL -- "-$killer" 2>/dev/null || true
}
trap end_members EXIT
# The process id of a member that is being started is not known yet, so it would be left running.
# Until all are started, a signal is only recorded.
asked= starting=yes
end_with() {
  asked=$1
  [ -n "$starting" ] || exit "$asked"
}
trap 'end_with 130' INT
trap 'end_with 143' TERM
trap 'end_with 129' HUP

MASTER_ADDR=127.0.0.1
MASTER_PORT=$(free_port)
UCXX_RS_GROUP_SECRET=$(head -c 32 /dev/urandom | base64)
WORLD_SIZE=$size
export MASTER_ADDR MASTER_PORT UCXX_RS_GROUP_SECRET WORLD_SIZE

# Each member writes its rank and status there when it ends. `wait -n` does not tell which one
# ended.
scratch=$(mktemp -d)
mkfifo "$scratch/ends"
exec {ends}<>"$scratch/ends"
rm -r "$scratch"

run_member() { # RANK COMMAND...
  local status=0
  # After TERM, exit when the program has ended, however long that takes.
  trap 'exit 143' TERM
  RANK=$1 "${@:2}" </dev/null {ends}>&- || status=$?
  printf '%s\n' "$1 $status" >&"$ends"
}

# Gives each background job its own process group.
set -m
for ((rank = 0; rank < size; rank++)); do
  run_member "$rank" "$@" &
  members[$rank]=$!
done
starting=
[ -z "$asked" ] || exit "$asked"

while [ "${#members[@]}" -gt 0 ]; do
  read -r rank status <&"$ends"
  if [ "$status" -ne 0 ]; then
    printf '%s\n' "$name: rank $rank has ended with status $status; the others are ended" >&2
    exit "$status"
  fi
  wait "${members[$rank]}"
  unset "members[$rank]"
done
