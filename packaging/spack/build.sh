#!/usr/bin/env bash
# Checks the recipe without Spack: `make` runs with the targets that it asks for, and an installed
# tool is started. Status 77, as Spack itself has not seen it.
#
#   packaging/spack/build.sh OUT
#
# With Spack: scripts/recipe.sh spack REPO/packages/ucxx_rs, for a repository of yours, and then
# spack style, spack audit packages ucxx-rs, spack install ucxx-rs
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=$(mkdir -p "$1" && cd "$1" && pwd)
rm -rf "$out/recipe" "$out/prefix"
"$root/scripts/recipe.sh" spack "$out/recipe"
python3 "$root/packaging/spack/check.py" "$out/recipe/package.py" "$root" "$out/prefix"
"$out/prefix/bin/ucxx_rs_info" --versions
echo "Spack is neither in Debian nor on PyPI: make ran with the recipe's targets"
exit 77
