#!/usr/bin/env bash
# Compares the Rust interface with that of an earlier commit: is the version's step large enough?
#
#   packaging/crate/semver.sh [COMMIT]      COMMIT: the last tag by default
#
# There is no release on crates.io to compare with before the first one.
set -euo pipefail
# shellcheck source=SCRIPTDIR/../../scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"
cd "$root"

before=${1:-$(git describe --tags --abbrev=0 2>/dev/null || true)}
if [ -z "$before" ]; then
  say "there is no tag to compare with; name a commit"
  exit 77
fi
program=$(scripts/cargo_tool.sh cargo-semver-checks 0.51.0)
# Not all features: `vendored` would build a UCX. The C interface is hidden from the documentation,
# so this does not look at it: tests/abi does.
"$program" semver-checks check-release --package ucxx_rs --default-features --baseline-rev "$before"
