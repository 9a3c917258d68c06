#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) the ucxx_rs developers
#
# Builds the bindings for other languages, and runs their examples.
#
#   bindings/run.sh PREFIX [LANGUAGE...]     PREFIX: an installed package. Without LANGUAGE: all
#
# For each it runs bindings/LANGUAGE/run.sh PREFIX. Status 77 of that means that the language is not
# installed; the last line that it printed says why. Lines that begin with "not here: " name parts
# that are not installed. `scripts/setup.sh bindings` installs them.
#
# BINDINGS_LOGS names a folder for the output. Without it the output goes to a temporary one, and
# is printed after a failure.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [ $# -eq 0 ]; then
  echo "usage: $0 PREFIX [LANGUAGE...]" >&2
  exit 2
fi
prefix=$(cd "$1" && pwd)
languages=("${@:2}")
if [ "${#languages[@]}" -eq 0 ]; then
  for script in "$here"/*/run.sh; do languages+=("$(basename "$(dirname "$script")")"); done
fi
for language in "${languages[@]}"; do
  if [ ! -f "$here/$language/run.sh" ]; then
    echo "$0: there is no bindings/$language/run.sh" >&2
    exit 2
  fi
done

if [ -n "${BINDINGS_LOGS:-}" ]; then
  logs=$BINDINGS_LOGS
  mkdir -p "$logs"
else
  logs=$(mktemp -d)
  trap 'rm -rf "$logs"' EXIT
fi

failed=0
for language in "${languages[@]}"; do
  log=$logs/$language.log
  started=$SECONDS status=0
  "$here/$language/run.sh" "$prefix" >"$log" 2>&1 </dev/null || status=$?
  case $status in
    0) verdict=PASS ;;
    77) verdict="not here: $(tail -n 1 "$log")" ;;
    *)
      verdict="FAIL (status $status)"
      failed=$((failed + 1))
      cat "$log" >&2
      ;;
  esac
  printf '%-10s %4s s  %s\n' "$language" "$((SECONDS - started))" "$verdict"
  # Some have parts, of which one may be missing.
  [ "$status" -ne 0 ] || grep '^not here: ' "$log" | sed 's/^/  /' || true
done
[ "$failed" -eq 0 ]
