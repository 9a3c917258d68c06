#!/usr/bin/env bash
# Builds an example against the package in the store of build.sh, runs its two processes, deletes
# the package and looks for what is left.
#
#   packaging/nix/try.sh OUT
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=$(cd "$1" && pwd)
command -v nix-store >/dev/null || { echo "Nix is not installed; apt-get install nix-bin"; exit 77; }
[ -e "$out/result" ] || { echo "build.sh has made no package"; exit 1; }
export NIX_STORE_DIR=$out/nix/store NIX_STATE_DIR=$out/nix/state NIX_LOG_DIR=$out/nix/log
package=$(realpath "$out/result")
work=$out/try
rm -rf "$work"
mkdir -p "$work"

# shellcheck disable=SC2046
cc -o "$work/hello" "$root/c_examples/hello_tag.c" "-Wl,-rpath,$package/lib" \
  $(PKG_CONFIG_PATH=$package/lib/pkgconfig pkg-config --cflags --libs ucxx_rs)
export UCX_TLS=posix,cma,self
(cd "$work" && { ./hello 0 hello.socket & ./hello 1 hello.socket && wait $!; })
cmake -S "$root/tests/install" -B "$work/consumer" -DKIND=static -DCMAKE_PREFIX_PATH="$package"
cmake --build "$work/consumer"
"$work/consumer/consumer_cpp"

rm "$out/result"
nix-store --option build-users-group '' --delete "$package"
[ ! -e "$package" ] || { echo "left after the removal: $package"; exit 1; }
echo "nix: built against, run and deleted"
