#!/usr/bin/env bash
# Starts a Slurm of one node, of this user alone, and runs a group of four processes in it: by
# Slurm's own variables, and by its PMIx server.
#
#   tests/launchers/slurm.sh BIN_DIR     BIN_DIR: the built examples
#
# Status 77: Slurm is not installed (scripts/setup.sh full), or this user is not root, which slurmd
# wants.
set -euo pipefail
# shellcheck source=tests/launchers/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
program=$(realpath "$1")/ring_allreduce
PATH=$PATH:/usr/sbin:/sbin
for tool in srun slurmctld slurmd munged; do
  command -v "$tool" >/dev/null || skip "$tool is not installed"
done
[ "$EUID" -eq 0 ] || skip "slurmd has to be started by root"

# munged insists on folders that only their owner may write to.
chmod 755 "$scratch"
mkdir "$scratch/state" "$scratch/spool"
stop() {
  local file pid
  for file in d ctld munged; do
    [ -s "$scratch/$file.pid" ] || continue
    pid=$(< "$scratch/$file.pid")
    kill "$pid" 2>/dev/null || continue
    timeout 30 tail --pid="$pid" -f /dev/null || true
  done
  clean_up
}
trap stop EXIT

control=$(free_port)
node=$(free_port)
machine=$(hostname -s)
cat > "$scratch/slurm.conf" <<END
ClusterName=one
SlurmctldHost=$machine(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$scratch/munge.socket
CredType=cred/munge
SlurmctldPort=$control
SlurmdPort=$node
SlurmctldPidFile=$scratch/ctld.pid
SlurmdPidFile=$scratch/d.pid
SlurmctldLogFile=$scratch/ctld.log
SlurmdLogFile=$scratch/d.log
StateSaveLocation=$scratch/state
SlurmdSpoolDir=$scratch/spool
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SchedulerType=sched/builtin
NodeName=$machine NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
export SLURM_CONF=$scratch/slurm.conf
head -c 1024 /dev/urandom > "$scratch/key"
chmod 400 "$scratch/key"
munged --key-file="$scratch/key" --socket="$scratch/munge.socket" --pid-file="$scratch/munged.pid" \
  --log-file="$scratch/munged.log" --seed-file="$scratch/seed" --force
slurmctld -c
slurmd

# srun waits until the node is up.
run() { # WHAT ARGUMENT...
  run_group "$1" 4 srun --overcommit --immediate=60 -n 4 "${@:2}" 1000003
}
new_group 4
# srun sets these.
unset RANK WORLD_SIZE
run "srun, the ranks from its variables" "$program"
unset MASTER_ADDR MASTER_PORT UCXX_RS_GROUP_SECRET
run "srun --mpi=pmix" --mpi=pmix "$program" --pmix
