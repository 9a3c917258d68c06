#!/usr/bin/env bash
# Checks the port without vcpkg: the JSON, and the portfile with stand-ins for vcpkg's functions,
# for both linkages. A program is built against each tree and run. Status 77, as vcpkg itself has
# not seen it.
#
#   packaging/vcpkg/build.sh OUT
#
# With vcpkg: scripts/recipe.sh vcpkg PORTS/ucxx-rs && vcpkg install ucxx-rs --overlay-ports=PORTS
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=$(mkdir -p "$1" && cd "$1" && pwd)
port=$out/ports/ucxx-rs
rm -rf "$port" "$out/consumer-"*
"$root/scripts/recipe.sh" vcpkg "$port"
version=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["version"])' "$port/vcpkg.json")

for linkage in dynamic static; do
  cmake -DPORT_FOLDER="$port" -DOUT="$out" -DVERSION="$version" -DLINKAGE=$linkage \
    -P "$root/packaging/vcpkg/stand_ins.cmake"
  build=$out/consumer-$linkage
  kind=$([ $linkage = static ] && echo static || echo shared)
  cmake -S "$root/tests/install" -B "$build" -DKIND="$kind" -DCMAKE_PREFIX_PATH="$out/$linkage"
  cmake --build "$build"
  "$build/consumer"
done
echo "vcpkg is neither in Debian nor on PyPI: the portfile ran with stand-ins for its functions"
exit 77
