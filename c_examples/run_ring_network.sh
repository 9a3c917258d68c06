#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) the ucxx_rs developers
#
# Runs ring_allreduce as a group of four processes in two network namespaces, two in each, with a
# link between them, as on two hosts. Needs root and `ip`, and is skipped otherwise.
#
#   run_ring_network.sh BIN_DIR
#
#   EXAMPLE_TIMEOUT   seconds after which everything is ended (120)
set -euo pipefail

if (($# != 1)); then
  echo "usage: $0 BIN_DIR" >&2
  exit 2
fi
# shellcheck source=c_examples/run_common.sh
source "$(dirname "${BASH_SOURCE[0]}")/run_common.sh"

((EUID == 0)) || skip "only root can make network namespaces"
command -v ip >/dev/null || skip "no ip command (iproute2)"

near=ucxx-rs-$$-near
far=ucxx-rs-$$-far
remove_network() {
  end_limited
  clean_up
  # Deleting one end of the link deletes the other.
  ip netns delete "$near" 2>/dev/null || true
  ip netns delete "$far" 2>/dev/null || true
}
trap remove_network EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

set_up() {
  ip netns add "$near" && ip netns add "$far" &&
    ip link add veth0 netns "$near" type veth peer name veth0 netns "$far" &&
    ip -n "$near" address add 192.0.2.1/24 dev veth0 && ip -n "$far" address add 192.0.2.2/24 dev veth0 &&
    ip -n "$near" link set lo up && ip -n "$far" link set lo up &&
    ip -n "$near" link set veth0 up && ip -n "$far" link set veth0 up
}
set_up 2>"$scratch/set_up" || skip "no network namespaces here: $(cat "$scratch/set_up")"

# UCX ignores devices that are not up when it starts. The kernel reports "up" some time after the
# command.
is_up() { [[ $(ip -n "$1" -o link show veth0) == *"state UP"* ]]; }
for ((attempt = 0; attempt < 1000; attempt++)); do
  if is_up "$near" && is_up "$far"; then break; fi
  sleep 0.01
done
is_up "$near" && is_up "$far" || bad "the link does not come up"

new_group 4
export MASTER_ADDR=192.0.2.1 UCX_TLS=tcp,self UCX_NET_DEVICES=veth0
members=()
for rank in 0 1 2 3; do
  # Neighbours in the ring are in different namespaces.
  if ((rank % 2 == 0)); then side=$near; else side=$far; fi
  RANK=$rank "${limit[@]}" ip netns exec "$side" "$1/ring_allreduce" 1000003 >"$scratch/$rank" 2>&1 &
  members+=($!)
done
for rank in 0 1 2 3; do
  status=0
  wait "${members[rank]}" || status=$?
  ((status == 0)) || bad "rank $rank ended with status $status: $(cat "$scratch/$rank")"
done
grep "^4 members, .* every sum is right" "$scratch/0" || bad "rank 0 did not say so: $(cat "$scratch/0")"
