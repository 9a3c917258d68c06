#!/usr/bin/env bash
# Checks the licences, sources and advisories of the crates, by cargo-deny. The data base of the
# advisories is a git repository. Where it cannot be fetched, they are not checked, and the last
# line names that.
#
#   packaging/licences/try.sh OUT     OUT is not used
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/../../scripts/lib.sh"
cd "$root"

tool=$("$root/scripts/cargo_tool.sh" cargo-deny 0.20.2)
deny() { "$tool" --log-level warn --config "$here/deny.toml" "$@"; }
deny check licenses bans sources
if deny fetch db 2>&1; then
  deny check --disable-fetch advisories
else
  say "advisories were not checked: their data base cannot be fetched"
fi
