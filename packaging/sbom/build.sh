#!/usr/bin/env bash
# Makes the software bill of materials of the library, in CycloneDX 1.5: the crates that are linked
# into it, with licences and hashes. Rust's standard library is not in it, and UCX is not either,
# which is loaded from the user's system.
#
#   packaging/sbom/build.sh OUT
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"

[ $# -eq 1 ] || die "usage: build.sh OUT"
out=$(realpath "$1")
name=ucxx_rs-$(package_field version)
# With this variable there is no random serial number.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct HEAD 2>/dev/null || stat -c %Y "$root/Cargo.lock")}
export SOURCE_DATE_EPOCH
tool=$("$root/scripts/cargo_tool.sh" cargo-cyclonedx 0.5.9)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The tool writes beside Cargo.toml.
cp -r "$root"/{Cargo.toml,Cargo.lock,build.rs,src} "$work"
(cd "$work" && "$tool" cyclonedx --quiet --format json --spec-version 1.5 --no-build-deps \
  --target "$(uname -m)-unknown-linux-gnu" --override-filename sbom)
# Identifiers of this crate contain the folder.
sed "s|path+file://$work#|path+file:///ucxx_rs#|" "$work/sbom.json" > "$out/$name.cdx.json"
say "$out/$name.cdx.json"
