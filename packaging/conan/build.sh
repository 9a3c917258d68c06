#!/usr/bin/env bash
# Runs `conan create` on the filled recipe, for the shared and for the static library. It builds
# and runs test_package/. The packages are then saved in one file, which `conan cache restore`
# puts into any cache.
#
#   packaging/conan/build.sh OUT
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=$(mkdir -p "$1" && cd "$1" && pwd)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)

python=$("$root/scripts/venv.sh" --name conan conan==2.34.0)
conan=$(dirname "$python")/conan
# Only the conan of this run may use them, and nothing of the user's is changed.
rm -rf "${out:?}/home" "$out/recipe" "$out"/*.tgz
export CONAN_HOME=$out/home
"$root/scripts/recipe.sh" conan "$out/recipe"
"$conan" profile detect
"$conan" remote disable '*'
for options in shared=True,tools=True shared=False; do
  given=()
  for option in ${options//,/ }; do given+=(-o "&:$option"); done
  # One folder for both, as cargo builds both libraries at once.
  CARGO_TARGET_DIR=$out/cargo "$conan" create "$out/recipe" --version="$version" "${given[@]}"
done
"$conan" cache save 'ucxx_rs/*:*' --file="$out/unfinished.tgz"
mv "$out/unfinished.tgz" "$out/ucxx_rs-$version-conan.tgz"
