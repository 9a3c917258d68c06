#!/usr/bin/env bash
# Makes the source archives of the commit that is checked out.
#
#   packaging/source/build.sh OUT
#
#   ucxx_rs-VERSION.tar.xz         what git has: no file that is not committed
#   ucxx_rs-VERSION-vendor.tar.xz  the crates that builds and tests on Linux need, and the
#                                  configuration that makes cargo use them; unpacked over the first
#                                  one, it builds without a network
#
# The same commit gives the same bytes, with the same releases of git, tar and xz: all times are the
# commit's, and names are sorted.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"

[ $# -eq 1 ] || die "usage: build.sh OUT"
out=$(realpath "$1")
git -C "$root" rev-parse --verify --quiet HEAD >/dev/null ||
  { say "this tree is no git repository, so it has no commit to make an archive of"; exit 77; }
name=ucxx_rs-$(package_field version)
time=$(git -C "$root" log -1 --format=%ct HEAD)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# One thread: with more of them xz writes other bytes.
compress() { xz --threads=1 -6; }

# The user's configuration must not decide about modes.
git -C "$root" -c tar.umask=0022 archive --format=tar --prefix="$name/" HEAD > "$work/$name.tar"
compress < "$work/$name.tar" > "$out/$name.tar.xz"
say "$out/$name.tar.xz"

tar -xf "$work/$name.tar" -C "$work"
mkdir "$work/$name/.cargo"
# Relative names, so that the tree can be anywhere.
(cd "$work/$name" && cargo vendor --locked --versioned-dirs vendor 2>/dev/null) > "$work/$name/.cargo/config.toml"
"$root/packaging/source/thin.py" "$work/$name"
tar --sort=name --format=gnu --mtime="@$time" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
  -C "$work" -cf - "$name/.cargo" "$name/vendor" | compress > "$out/$name-vendor.tar.xz"
say "$out/$name-vendor.tar.xz"
