#!/usr/bin/env bash
# Builds the shared and the static library into the cargo target directory.
# cargo rustc with these two crate types, and not cargo build: link-time optimisation is left out of a build that also
# makes an rlib.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

command -v cargo >/dev/null || die "cargo is not there; a Rust toolchain of $(package_field rust-version) or newer is needed (https://rustup.rs)"
cd "$root"
exec cargo rustc --release --locked --lib --crate-type cdylib --crate-type staticlib "$@"
