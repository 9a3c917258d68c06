#!/usr/bin/env bash
# Makes the package for crates.io from the commit that is checked out, and tries what `cargo
# publish` would do, without the upload.
#
#   packaging/crate/build.sh OUT
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"

[ $# -eq 1 ] || die "usage: build.sh OUT"
out=$(realpath "$1")
git -C "$root" rev-parse --verify --quiet HEAD >/dev/null || { say "this tree is no git repository"; exit 77; }
name=ucxx_rs-$(package_field version)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

git clone --quiet "$root" "$work/clone"
cd "$work/clone"
export CARGO_TARGET_DIR=$target_dir/packages/crate-build
# cargo package builds what it has packed. publish would do that a second time.
cargo package --locked
cargo publish --dry-run --locked --no-verify
cp "$CARGO_TARGET_DIR/package/$name.crate" "$out/"
say "$out/$name.crate"
