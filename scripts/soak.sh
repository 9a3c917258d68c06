#!/usr/bin/env bash
# The longest checks: mixed traffic, faults, hostile callers and decoders. A table at the end has
# the results. The logs are in target/soak.
#
#   scripts/soak.sh                an hour of traffic, 2,000 rounds of faults, 10 million calls, an
#                                  hour for each decoder
#   SHORT=1 scripts/soak.sh        the same in ten minutes
#   scripts/soak.sh PART ...       only these: traffic, faults, hostile, fuzz
#
# TRAFFIC (seconds), ROUNDS, CALLS and DECODER (seconds each) override the amounts. The rounds of
# faults are divided among the system's UCX and the pinned releases. Traffic and calls use the
# newest, because UCX 1.13 has assertions that random calls reach.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

if [ -n "${SHORT:-}" ]; then
  amounts=(120 30 600000 6)
else
  amounts=(3600 2000 10000000 3600)
fi
seconds=${TRAFFIC:-${amounts[0]}} rounds=${ROUNDS:-${amounts[1]}} calls=${CALLS:-${amounts[2]}} decoder=${DECODER:-${amounts[3]}}
stage=$target_dir/stage
logs=$target_dir/soak
# The faults are divided among these.
ucx=("system" "${ucx_wheels[@]}")
failed=0
rows=()
mkdir -p "$logs"

libraries() { # RELEASE: prints its folder, or nothing for the system's UCX
  [ "$1" = system ] || scripts/ucx_wheel.sh "$1"
}

row() { # PART VERDICT RESULT
  [ "$2" = PASS ] || failed=1
  rows+=("$(printf '| %-28s | %-4s | %s |' "$@")")
  say "${rows[-1]}"
}

part_traffic() {
  local log=$logs/traffic.log verdict=PASS
  cmake -Uucxx_rs_DIR -S tests/soak -B "$logs/build" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_PREFIX_PATH="$stage" >/dev/null
  cmake --build "$logs/build" >/dev/null
  LD_LIBRARY_PATH=$(libraries "$newest") scripts/group.sh 4 "$logs/build/traffic" "$seconds" >"$log" 2>&1 || verdict=FAIL
  while read -r line; do row "traffic, UCX $newest, $seconds s" "$verdict" "$line"; done < <(grep '^member' "$log" | sort)
  [ "$verdict" = PASS ] || { tail -n 20 "$log" >&2; row "traffic, UCX $newest, $seconds s" FAIL "$log"; }
}

part_faults() {
  local which log verdict options each=$(((rounds + ${#ucx[@]} - 1) / ${#ucx[@]}))
  for which in "${ucx[@]}"; do
    log=$logs/faults-$which.log verdict=PASS options=()
    [ "$which" = system ] || options=(--ucx "$(libraries "$which")")
    scripts/faults.sh "$stage" "$each" "${options[@]}" >"$log" 2>&1 || verdict=FAIL
    [ "$verdict" = PASS ] || tail -n 40 "$log" >&2
    row "faults, UCX $which, $each rounds" "$verdict" "$(grep -m 1 -oE 'seed[ =]+[^ ,;]+' "$log"); $(tail -n 1 "$log")"
  done
}

# In pieces, each with its own seed. If a crash of UCX ends a piece (status 77, see tests/hostile),
# the piece is counted as ended, and its calls are not counted.
part_hostile() {
  local log=$logs/hostile.log verdict=PASS made=0 piece=200000 ended=0 status build=$logs/hostile
  cmake -Uucxx_rs_DIR -S tests/c -B "$build" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_PREFIX_PATH="$stage" >/dev/null
  cmake --build "$build" --target hostile >/dev/null
  : >"$log"
  while [ "$made" -lt "$calls" ] && [ "$verdict" = PASS ]; do
    for transports in posix,cma,self tcp,self; do
      status=0
      LD_LIBRARY_PATH=$(libraries "$newest") UCX_TLS=$transports "$build/hostile" "$piece" >>"$log" 2>&1 || status=$?
      case $status in
        0) made=$((made + piece)) ;;
        77) ended=$((ended + 1)) ;;
        *) verdict=FAIL; tail -n 12 "$log" >&2; break ;;
      esac
    done
  done
  row "hostile, UCX $newest" "$verdict" "$made calls, seeds in $log; ended by a crash of UCX's: $ended times"
}

part_fuzz() {
  local log=$logs/fuzz.log verdict=PASS
  SECONDS_EACH=$decoder scripts/fuzz.sh >"$log" 2>&1 || verdict=FAIL
  [ "$verdict" = PASS ] || tail -n 40 "$log" >&2
  row "decoders, $decoder s each" "$verdict" "$(grep -c '^fuzz: .* seconds$' "$log") targets, $(awk '/^stat::number_of_executed_units/ { sum += $2 } END { printf "%d", sum }' "$log") inputs"
}

parts=("$@")
[ $# -gt 0 ] || parts=(traffic hostile faults fuzz)
for part in "${parts[@]}"; do
  declare -F "part_$part" >/dev/null || die "no part '$part'; there are: traffic hostile faults fuzz"
done
scripts/build.sh --quiet
scripts/install.sh --prefix "$stage" >/dev/null
for part in "${parts[@]}"; do
  say "=== $part"
  "part_$part"
done

say "=== results"
printf '%s\n' "| part | | what came out |" "|---|---|---|" "${rows[@]}" | tee "$logs/results.md"
[ "$failed" -eq 0 ] || die "something failed"
