#!/usr/bin/env bash
# Installs the library by cargo-c, into OUT/prefix.
#
#   packaging/cargo-c/build.sh OUT
#
# This release of cargo-c builds with Rust 1.85, the oldest that the library needs.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
[ $# -eq 1 ] || { echo "usage: build.sh OUT" >&2; exit 1; }
mkdir -p "$1"
out=$(cd "$1" && pwd)

cinstall=$("$root/scripts/cargo_tool.sh" cargo-c "${CARGO_C_VERSION:-0.10.13+cargo-0.88.0}" cargo-cinstall)
rm -rf "$out/prefix"
cd "$root"
"$cinstall" cinstall --locked --prefix "$out/prefix" --libdir lib
