#!/usr/bin/env bash
# Parses the Nix files, and builds package.nix with nix-build into a store of its own. nixpkgs is
# not needed: stand_ins.nix replaces what package.nix takes from it. So Nix reads and builds the
# package, but with this machine's compiler, Rust and UCX, and outside a sandbox.
#
#   packaging/nix/build.sh OUT
#
# With nixpkgs: nix build ./packaging/nix
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=$(mkdir -p "$1" && cd "$1" && pwd)
command -v nix-build >/dev/null || { echo "Nix is not installed; apt-get install nix-bin"; exit 77; }

here=$root/packaging/nix
nix-instantiate --parse "$here"/{package,flake,stand_ins}.nix >/dev/null
nix-instantiate --eval --strict --expr "
  let flake = import $here/flake.nix; in
  flake.outputs {
    nixpkgs.lib.genAttrs = names: f: map f names;
    nixpkgs.legacyPackages = builtins.listToAttrs (map
      (name: { inherit name; value.callPackage = file: _: builtins.pathExists file; })
      [ \"x86_64-linux\" \"aarch64-linux\" ]);
  }"

if [ -d "$out/nix" ]; then chmod -R u+w "$out/nix" && rm -rf "$out/nix"; fi
export NIX_STORE_DIR=$out/nix/store NIX_STATE_DIR=$out/nix/state NIX_LOG_DIR=$out/nix/log
# The builder has none of the user's settings, so rustup's programs would not work in it.
nix-build "$here/stand_ins.nix" --out-link "$out/result" \
  --option sandbox false --option build-users-group '' --option substituters '' \
  --argstr path "$(rustc --print sysroot)/bin:$PATH" --argstr cargoHome "${CARGO_HOME:-$HOME/.cargo}" \
  --argstr version_of_rust "$(rustc --version | cut -d ' ' -f 2)" \
  --argstr version_of_ucx "$(pkg-config --modversion ucx)"
"$out/result/bin/ucxx_rs_info" --versions
