#!/usr/bin/env bash
# Builds the packages of this library, or tries those that were built.
#
#   scripts/packages.sh build|try [KIND ...]      without KIND: all of packaging/
#
# For each KIND it runs packaging/KIND/build.sh OUT, or packaging/KIND/try.sh OUT. OUT is
# target/packages/KIND. Status 77 of such a script means that this machine cannot do it; the last
# line that it printed says why.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

verb=${1:-}
case $verb in build | try) ;; *) die "usage: packages.sh build|try [KIND ...]" ;; esac
kinds=("${@:2}")
if [ "${#kinds[@]}" -eq 0 ]; then
  for script in packaging/*/"$verb".sh; do kinds+=("$(basename "$(dirname "$script")")"); done
fi
for kind in "${kinds[@]}"; do
  [ -f "packaging/$kind/$verb.sh" ] || die "'$kind': there is no packaging/$kind/$verb.sh"
done

lines=() failed=0
for kind in "${kinds[@]}"; do
  out=$target_dir/packages/$kind
  log=$target_dir/packages/$kind-$verb.log
  mkdir -p "$out"
  say "=== packages: $verb $kind (log: $log)"
  started=$SECONDS status=0
  "packaging/$kind/$verb.sh" "$out" > "$log" 2>&1 </dev/null || status=$?
  case $status in
    0) verdict=PASS ;;
    77) verdict="not here: $(tail -n 1 "$log")" ;;
    *)
      verdict="FAIL (status $status)"
      failed=$((failed + 1))
      tail -n 30 "$log" >&2
      ;;
  esac
  lines+=("$(printf '%-10s %-5s %5s s  %s' "$kind" "$verb" "$((SECONDS - started))" "$verdict")")
done
printf '%s\n' "${lines[@]}"
[ "$failed" -eq 0 ] || die "$failed of ${#kinds[@]} failed"
