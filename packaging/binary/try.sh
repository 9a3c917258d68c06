#!/usr/bin/env bash
# Tries the binary archive: moved to another folder, C and C++ programs build against it four ways
# and run, and so do the tools. gdb finds the debug information. Nothing needs a newer glibc than
# README says.
#
#   packaging/binary/try.sh OUT
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"

[ $# -eq 1 ] || die "usage: try.sh OUT"
out=$(realpath "$1")
version=$(package_field version)
name=ucxx_rs-$version-$(uname -m)-linux-gnu
[ -f "$out/$name.tar.xz" ] || die "no archive in $out: scripts/packages.sh build binary"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree="$work/moved & away"

tar -xf "$out/$name.tar.xz" -C "$work"
mv "$work/$name" "$tree"
said=$(sed -n 's/^glibc: \(.*\) or newer$/\1/p' "$tree/README")
while read -r needed; do
  at_least "$said" "$needed" || die "README says glibc $said, and a file needs $needed"
done < <(find "$tree" -type f -exec readelf -VW {} + 2>/dev/null | sed -nE 's/.*Name: GLIBC_([0-9.]+).*/\1/p' | sort -u)
at_least 2.28 "$said" || die "it needs glibc $said, which is newer than 2.28"
say "glibc $said"

"$root/tests/install/use.sh" "$tree" lib

# The debug information is unpacked over the tree.
tar -xf "$out/$name-debug.tar.xz" -C "$tree" --strip-components=1
if grep -rlF -e "$root" "$tree"; then die "these files contain the folder of their build"; fi
command -v gdb >/dev/null || { say "gdb is not there, so the debug information is not tried"; exit; }
finds() { # FILE FUNCTION SOURCE
  local answer
  answer=$(gdb --batch -nx -ex "info line $2" "$tree/$1" 2>&1)
  [[ $answer == *"$3"* ]] || die "gdb finds no debug information of $1: $answer"
  say "gdb finds the lines of $1: $(tail -n 1 <<< "$answer" | cut -c 1-80)"
}
finds "lib/libucxx_rs.so.$version" ucxx_version_query version.rs
finds bin/ucxx_rs_info main info.c
