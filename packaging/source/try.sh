#!/usr/bin/env bash
# Tries the source archives: a second clone of the repository, in another folder, gives the same
# bytes; and what they contain builds, installs and runs without a network.
#
#   packaging/source/try.sh OUT
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/../../scripts/lib.sh"

[ $# -eq 1 ] || die "usage: try.sh OUT"
out=$(realpath "$1")
name=ucxx_rs-$(package_field version)
git -C "$root" rev-parse --verify --quiet HEAD >/dev/null ||
  { say "this tree is no git repository, so there is nothing to compare with"; exit 77; }
[ -f "$out/$name-vendor.tar.xz" ] || die "no archives in $out: scripts/packages.sh build source"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/again"
git clone --quiet --no-hardlinks "$root" "$work/a clone elsewhere"
(umask 077 && TZ=Asia/Tokyo "$work/a clone elsewhere/packaging/source/build.sh" "$work/again")
for archive in "$name" "$name-vendor"; do
  cmp "$out/$archive.tar.xz" "$work/again/$archive.tar.xz" || die "$archive.tar.xz: a second clone gives other bytes"
  say "$archive.tar.xz: $(stat -c %s "$out/$archive.tar.xz") bytes, made twice"
  tar -xf "$out/$archive.tar.xz" -C "$work"
done

net=(unshare -n)
"${net[@]}" true 2>/dev/null || net=(unshare -rn)
"${net[@]}" true 2>/dev/null || { say "no network namespaces here: only cargo is cut off from the network"; net=(); }
cd "$work/$name"
# Not optimised: this is about the sources, not about the library.
mkdir "$work/home"
without_network() {
  "${net[@]}" env -u CARGO_TARGET_DIR CARGO_HOME="$work/home" CARGO_NET_OFFLINE=true \
    CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 "$@"
}
without_network make --silent
without_network make --silent install PREFIX=/opt/ucxx DESTDIR="$work/root" >/dev/null
mv "$work/root/opt/ucxx" "$work/moved"
"$root/tests/install/use.sh" "$work/moved" lib
say "source: the archives build, install and run without a network"
