#!/usr/bin/env bash
# Starts a Slurm of one node, of this user alone, and runs a group of four processes in it: by
# Slurm's own variables, and by its PMIx server.
#
#   tests/launchers/slurm.sh BIN_DIR     BIN_DIR: the built examples
#
# Status 77: Slurm is not installed (scripts/setup.sh full), or this user is not root, which slurmd
# wants.
set -euo pipefail
program=$(realpath "$1")/ring_allreduce
PATH=$PATH:/usr/sbin:/sbin
skip() { echo "slurm: $*"; exit 77; }
for name in srun slurmctld slurmd munged; do
  command -v "$name" >/dev/null || skip "$name is not installed"
done
[ "$EUID" -eq 0 ] || skip "slurmd has to be started by root"

work=$(mktemp -d)
# munged insists on folders that only their owner may write to.
chmod 755 "$work"
mkdir "$work/state" "$work/spool"
stop() {
  local file pid
  for file in d ctld munged; do
    [ -s "$work/$file.pid" ] || continue
    pid=$(< "$work/$file.pid")
    kill "$pid" 2>/dev/null || continue
    timeout 30 tail --pid="$pid" -f /dev/null || true
  done
  rm -rf "$work"
}
trap stop EXIT

ports=$(python3 - <<'END'
import socket

sockets = [socket.socket() for _ in range(3)]
for each in sockets:
    each.bind(("127.0.0.1", 0))
print(*(each.getsockname()[1] for each in sockets))
END
)
read -r control node meeting <<< "$ports"
host=$(hostname -s)
cat > "$work/slurm.conf" <<END
ClusterName=one
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge.socket
CredType=cred/munge
SlurmctldPort=$control
SlurmdPort=$node
SlurmctldPidFile=$work/ctld.pid
SlurmdPidFile=$work/d.pid
SlurmctldLogFile=$work/ctld.log
SlurmdLogFile=$work/d.log
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SchedulerType=sched/builtin
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
export SLURM_CONF=$work/slurm.conf
head -c 1024 /dev/urandom > "$work/key"
chmod 400 "$work/key"
munged --key-file="$work/key" --socket="$work/munge.socket" --pid-file="$work/munged.pid" \
  --log-file="$work/munged.log" --seed-file="$work/seed" --force
slurmctld -c
slurmd

# srun waits until the node is up.
run() { # WHAT ARGUMENT...
  local what=$1
  shift
  if ! timeout 120 srun --overcommit --immediate=60 -n 4 "$@" 1000003 > "$work/said" 2>&1 </dev/null; then
    cat "$work/said" "$work/ctld.log" "$work/d.log" >&2
    echo "slurm: $what: failed" >&2
    exit 1
  fi
  cat "$work/said"
  grep -q '^4 members, .* every sum is right' "$work/said" || { echo "slurm: $what: wrong" >&2; exit 1; }
  echo "  ok: $what"
}
MASTER_ADDR=127.0.0.1 MASTER_PORT=$meeting UCXX_RS_GROUP_SECRET=$(head -c 16 /dev/urandom | base64) \
  run "srun, the ranks from its variables" "$program"
run "srun --mpi=pmix" --mpi=pmix "$program" --pmix
