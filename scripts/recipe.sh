#!/usr/bin/env bash
# Fills in a recipe of packaging/: the version, where the source archive is, and its checksums.
#
#   scripts/recipe.sh KIND OUT [ARCHIVE [URL]]      KIND: conan, conda, homebrew, spack or vcpkg
#
# - It copies packaging/KIND/recipe to OUT, and replaces in all files @VERSION@, @DESCRIPTION@,
#   @HOMEPAGE@, @MAINTAINER@, @SOURCE_URL@, @SOURCE_SHA256@ and @SOURCE_SHA512@.
# - ARCHIVE is the source archive of the release. Without it, one is made of the files that git
#   knows.
# - URL is where the archive was published. Without it, the recipe takes the local file.
# - HOMEPAGE and MAINTAINER are variables of the environment: the project's public address, and
#   the GitHub name of the recipe's maintainer.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

[ $# -ge 2 ] && [ $# -le 4 ] || die "usage: recipe.sh KIND OUT [ARCHIVE [URL]]"
kind=$1
mkdir -p "$2"
out=$(cd "$2" && pwd)
[ -d "$root/packaging/$kind/recipe" ] || die "'$kind': there is no packaging/$kind/recipe"
version=$(package_field version)

archive=${3:-}
if [ -z "$archive" ]; then
  git -C "$root" rev-parse >/dev/null 2>&1 || die "this is no git checkout; name the source archive"
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

cp -R "$root/packaging/$kind/recipe/." "$out"
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
fill MAINTAINER "${MAINTAINER:-nobody}"
fill SOURCE_URL "${4:-file://$archive}"
fill SOURCE_SHA256 "$(sha256sum "$archive" | cut -d ' ' -f 1)"
fill SOURCE_SHA512 "$(sha512sum "$archive" | cut -d ' ' -f 1)"
find "$out" -type f -exec sed -i "${edits[@]}" {} +
say "$out"
