#!/usr/bin/env bash
# Tries the package for crates.io: a crate that depends on it builds and runs, and its documentation
# builds without UCX, as on docs.rs.
#
#   packaging/crate/try.sh OUT
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/../../scripts/lib.sh"

[ $# -eq 1 ] || die "usage: try.sh OUT"
name=ucxx_rs-$(package_field version)
archive=$(realpath "$1")/$name.crate
[ -f "$archive" ] || die "no $archive: scripts/packages.sh build crate"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CARGO_TARGET_DIR=$target_dir/packages/crate-try

tar -xf "$archive" -C "$work"
mv "$work/$name" "$work/ucxx_rs"
mkdir -p "$work/user/src"
cp "$here/user.rs" "$work/user/src/main.rs"
cat > "$work/user/Cargo.toml" <<'END'
[package]
name = "user"
version = "0.0.0"
edition = "2021"

[dependencies]
ucxx_rs = { path = "../ucxx_rs" }
END
UCX_TLS=posix,cma,self cargo run --quiet --manifest-path "$work/user/Cargo.toml"

DOCS_RS=1 PKG_CONFIG_PATH=/nonexistent PKG_CONFIG_LIBDIR=/nonexistent \
  cargo doc --quiet --no-deps --locked --manifest-path "$work/ucxx_rs/Cargo.toml"
[ -f "$CARGO_TARGET_DIR/doc/ucxx_rs/index.html" ] || die "no documentation was made"
say "crate: a crate that depends on it runs, and its documentation builds without UCX"
