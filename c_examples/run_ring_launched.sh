#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) the ucxx_rs developers
#
# Runs ring_allreduce as a group of four processes under a launcher of MPI programs, which provides
# the ranks and the size. Skipped if the launcher is not installed.
#
#   run_ring_launched.sh BIN_DIR openmpi|mpich|pmix
#
#   EXAMPLE_TIMEOUT   seconds after which everything is ended (120)
set -euo pipefail

if (($# != 2)); then
  echo "usage: $0 BIN_DIR openmpi|mpich|pmix" >&2
  exit 2
fi
# shellcheck source=c_examples/run_common.sh
source "$(dirname "${BASH_SOURCE[0]}")/run_common.sh"
program=$1/ring_allreduce

# find_launcher WORD PROGRAM...: sets `launcher` to the first program that exists and has the word
# in its version.
find_launcher() {
  local candidate
  for candidate in "${@:2}"; do
    if command -v "$candidate" >/dev/null && grep -q "$1" <<<"$("$candidate" --version 2>&1)"; then
      launcher=("$candidate")
      return
    fi
  done
  return 1
}

under_openmpi() {
  # The names on Debian, on Fedora, and elsewhere.
  find_launcher "Open MPI" mpirun.openmpi /usr/lib64/openmpi/bin/mpirun mpirun || skip "Open MPI's mpirun is not installed"
  launcher+=(--oversubscribe -np 4)
  if ((EUID == 0)); then launcher+=(--allow-run-as-root); fi
}

new_group 4
# The launcher sets these.
unset RANK WORLD_SIZE
case $2 in
  openmpi)
    under_openmpi
    launcher+=(-x MASTER_ADDR -x MASTER_PORT -x UCXX_RS_GROUP_SECRET "$program")
    ;;
  mpich)
    find_launcher HYDRA mpiexec.mpich /usr/lib64/mpich/bin/mpiexec mpiexec || skip "MPICH's mpiexec is not installed"
    launcher+=(-n 4 "$program")
    ;;
  pmix)
    under_openmpi
    # Leave only PMIx.
    unset MASTER_ADDR MASTER_PORT UCXX_RS_GROUP_SECRET
    grep -q 'libpmix[.]so[.]2' <<<"$(PATH=$PATH:/usr/sbin:/sbin ldconfig -p)" || skip "libpmix.so.2 is not installed"
    # libpmix leaks a few bytes. That matters if the program is built with a sanitizer.
    echo leak:libpmix >"$scratch/suppressions"
    export LSAN_OPTIONS=suppressions=$scratch/suppressions:print_suppressions=0
    launcher+=("$program" --pmix)
    ;;
  *) bad "no launcher '$2'" ;;
esac
status=0
"${limit[@]}" "${launcher[@]}" 1000003 >"$scratch/said" 2>&1 </dev/null || status=$?
cat "$scratch/said"
((status == 0)) || bad "ended with status $status"
grep -q "^4 members, .* every sum is right" "$scratch/said" || bad "rank 0 did not say so"
