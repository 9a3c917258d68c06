#!/usr/bin/env bash
# Runs the C tests, the examples and the faults under difficult conditions: see
# tests/stress/README.md.
#
#   scripts/stress.sh MINUTES [--seed S] [--scene N ...] [--only REGEX] [--release R ...]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"
[[ $# -ge 1 && $1 =~ ^[0-9.]+$ ]] || die "usage: stress.sh MINUTES [options of tests/stress/run.py]"

stage=$target_dir/stage
[ -n "${STAGED:-}" ] || scripts/test.sh suites
system=$("$target_dir/suites/consumer/consumer_c" | sed -n 's/.* on UCX //p')
wheels=()
for wheel in "${ucx_wheels[@]}"; do
  libraries=$(scripts/ucx_wheel.sh "$wheel")
  wheels+=(--wheel "$wheel=$libraries")
done
export PYTHONDONTWRITEBYTECODE=1
# Build this once, before several tests need it at the same time.
python3 tests/faults/run.py --prefix "$stage" --build "$target_dir/faults" --rounds 0 >/dev/null
exec python3 tests/stress/run.py "$1" --prefix "$stage" --target "$target_dir" --system "$system" "${wheels[@]}" "${@:2}"
