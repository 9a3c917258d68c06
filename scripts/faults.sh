#!/usr/bin/env bash
# Runs the fault tests against the installed library: see tests/faults/README.md.
#
#   scripts/faults.sh PREFIX ROUNDS [options of tests/faults/run.py]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
[ $# -ge 2 ] || die "usage: faults.sh PREFIX ROUNDS [options of tests/faults/run.py]"

export PYTHONDONTWRITEBYTECODE=1
exec python3 "$root/tests/faults/run.py" --prefix "$1" --rounds "$2" --build "$target_dir/faults" "${@:3}"
