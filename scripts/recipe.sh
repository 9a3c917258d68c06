#!/usr/bin/env bash
# Fills in a recipe of packaging/: the version, where the source archive is, and its checksums.
#
#   scripts/recipe.sh KIND OUT [ARCHIVE [URL]]      KIND: conan, conda, homebrew, spack or vcpkg
#
# - It copies packaging/KIND to OUT, and replaces in all files @VERSION@, @DESCRIPTION@,
#   @HOMEPAGE@, @SOURCE_URL@, @SOURCE_SHA256@ and @SOURCE_SHA512@.
# - ARCHIVE is the source archive of the release. Without it, one is made of the files that git
#   knows.
# - URL is where the archive was published. Without it, the recipe takes the local file.
# - HOMEPAGE, a variable of the environment, is the project's public address.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

[ $# -ge 2 ] && [ $# -le 4 ] || die "usage: recipe.sh KIND OUT [ARCHIVE [URL]]"
kind=$1
mkdir -p "$2"
out=$(cd "$2" && pwd)
[ -d "$root/packaging/$kind" ] || die "'$kind': there is no packaging/$kind"
version=$(package_field version)

archive=${3:-}
if [ -z "$archive" ]; then
  archive=$target_dir/packages/recipe-source/ucxx_rs-$version.tar.gz
  mkdir -p "${archive%/*}"
  # The same bytes for the same files, so that no tool builds again without need.
  git -C "$root" ls-files -z | LC_ALL=C sort -z |
    tar -C "$root" --null --no-recursion -T - --mtime=@0 --owner=0 --group=0 --numeric-owner \
      --transform="flags=r;s,^,ucxx_rs-$version/," -cf - | gzip -n > "$archive.new"
  mv "$archive.new" "$archive"
fi
[ -f "$archive" ] || die "$archive is missing"
archive=$(realpath "$archive")

cp -R "$root/packaging/$kind/." "$out"
rm -f "$out"/{build,try}.sh
# One program tries all packages. The recipes that have a test of their own want it beside them.
if [ -d "$out/test_package" ]; then
  cp "$root/tests/install/consumer.c" "$out/test_package/test_package.c"
fi
edits=()
fill() { # NAME VALUE
  local value=${2//\\/\\\\}
  value=${value//&/\\&}
  edits+=(-e "s|@$1@|${value//|/\\|}|g")
}
fill VERSION "$version"
fill DESCRIPTION "$(package_field description)"
fill HOMEPAGE "${HOMEPAGE:-https://homepage.invalid}"
fill SOURCE_URL "${4:-file://$archive}"
fill SOURCE_SHA256 "$(sha256sum "$archive" | cut -d ' ' -f 1)"
fill SOURCE_SHA512 "$(sha512sum "$archive" | cut -d ' ' -f 1)"
find "$out" -type f -exec sed -i "${edits[@]}" {} +
say "$out"
