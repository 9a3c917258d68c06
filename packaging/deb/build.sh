#!/usr/bin/env bash
# Builds the Debian packages, and looks at them with lintian and hardening-check.
#
#   packaging/deb/build.sh OUT
#
# - The packages, the source package and the .changes file are in OUT afterwards.
# - It builds from a copy of the sources: dpkg-buildpackage writes beside the folder of the sources.
#   The copy and cargo's folder, OUT/cargo, have fixed names, so that a second build is short.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source scripts/lib.sh
# Modules that Debian's own Python lacks must not be found in that of a virtual environment.
unset PYTHONPATH VIRTUAL_ENV

[ $# -eq 1 ] || die "usage: build.sh OUT"
for tool in dpkg-buildpackage dh lintian hardening-check; do
  if ! command -v "$tool" >/dev/null; then
    say "$tool is missing: scripts/setup.sh packages"
    exit 77
  fi
done
# The tools may be on a system of another kind, whose packages these cannot use.
if ! missing=$(dpkg-checkbuilddeps debian/control 2>&1); then
  say "$missing"
  exit 77
fi
mkdir -p "$1"
out=$(cd "$1" && pwd)
version=$(package_field version)
source=$out/ucxx-rs-$version

packaging/deb/copyright.py --check
rm -rf "$source" "$out"/*ucxx-rs*_"$version"*
mkdir -p "$source"
# Without git these are the sources of an archive, in which nothing but target/ was built.
list() {
  if [ -e .git ]; then
    git ls-files -z --cached --others --exclude-standard
  else
    find . -path ./target -prune -o -type f -print0
  fi
}
list | tar --create --null --files-from=- | tar --extract --directory "$source"

(cd "$source" && CARGO_TARGET_DIR=$out/cargo dpkg-buildpackage -us -uc)

say '--- lintian'
lintian --fail-on error,warning --display-info --pedantic --tag-display-limit 0 "$out"/*.changes

say '--- hardening-check'
unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT
for package in libucxx-rs0.1 ucxx-rs-tools python3-ucxx-rs; do
  dpkg-deb --extract "$out/${package}_${version}_"*.deb "$unpacked"
done
# The library is Rust's: there are no C functions that these options could harden. Rust checks
# bounds itself, and its compiler probes the stack. The module calls no function that has a checked
# form.
# gcc protects the control flow on request only from Debian 13 on.
check() { hardening-check --nocfprotection "$@"; }
check --nostackprotector --nofortify "$unpacked"/usr/lib/*/libucxx_rs.so."$version"
check --nofortify --nopie "$unpacked"/usr/lib/python3/dist-packages/ucxx_rs/*.so
check "$unpacked"/usr/bin/ucxx_rs_{info,perftest}
