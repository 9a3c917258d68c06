#!/usr/bin/env bash
# Builds a tool from crates.io, unless it is there, and prints its path.
#
#   scripts/cargo_tool.sh CRATE VERSION [PROGRAM]      PROGRAM: the crate's name by default
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

[ $# -ge 2 ] || die "usage: cargo_tool.sh CRATE VERSION [PROGRAM]"
folder=$target_dir/cargo-tools/$1-$2
program=$folder/bin/${3:-$1}
if [ ! -x "$program" ]; then
  # Without debug information and link-time optimisation: the tool runs for seconds.
  env -u RUSTFLAGS CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_DEBUG=0 \
    CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_TARGET_DIR="$target_dir/cargo-tools/build" \
    cargo install --quiet --locked --root "$folder" --version "$2" "$1" >&2
fi
say "$program"
