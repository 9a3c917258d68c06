#!/usr/bin/env bash
# Checks the formula's syntax with ruby, and its style with rubocop where that is installed. Status
# 77, as Homebrew itself has not seen it.
#
#   packaging/homebrew/build.sh OUT
#
# With Homebrew, in a tap of yours that also has UCX: scripts/recipe.sh homebrew TAP/Formula, and
# then brew style, brew audit --new ucxx-rs, brew install --build-from-source ucxx-rs
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=$(mkdir -p "$1" && cd "$1" && pwd)
rm -rf "$out/formula"
"$root/scripts/recipe.sh" homebrew "$out/formula"
command -v ruby >/dev/null || { echo "ruby is not installed; apt-get install ruby"; exit 77; }
ruby -wc "$out/formula/ucxx-rs.rb"
if command -v rubocop >/dev/null; then
  # Homebrew wants no spaces around the slash of paths.
  rubocop --only Lint,Layout --except Layout/SpaceAroundOperators "$out/formula/ucxx-rs.rb"
fi
echo "Homebrew is not in Debian: only the syntax and the style were checked"
exit 77
