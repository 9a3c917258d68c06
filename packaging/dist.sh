#!/usr/bin/env bash
# Makes everything that a release has, and collects it in target/dist with SHA256SUMS. `make dist`
# calls it. What this machine cannot make is left out, and named at the end.
#
#   packaging/dist.sh [--no-build]      --no-build collects what was made before
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"
cd "$root"

case ${1:-} in '' | --no-build) ;; *) die "usage: dist.sh [--no-build]" ;; esac
dist=$target_dir/dist
rm -rf "$dist"
mkdir -p "$dist"
missing=() failed=()

# Everything is tried, also after a failure.
part() { # KIND FOLDER PATTERN COMMAND...: the files of FOLDER that PATTERN describes
  local kind=$1 folder=$2 pattern=$3 made=() status=0
  if [ "$no_build" = no ]; then
    "${@:4}" || status=$?
  fi
  if [ "$status" -ne 0 ]; then
    failed+=("$kind")
    return
  fi
  mapfile -t made < <(find "$folder" -type f -regextype posix-extended -regex ".*/$pattern" 2>/dev/null)
  if [ "${#made[@]}" -gt 0 ]; then cp -- "${made[@]}" "$dist/"; else missing+=("$kind"); fi
}
no_build=no
[ "${1:-}" != --no-build ] || no_build=yes

packages=$target_dir/packages
[ -z "$(git status --porcelain 2>/dev/null)" ] || say "dist: what is not committed is not in the source archive"
patterns=(
  'source ucxx_rs-.*\.tar\.xz'
  'binary ucxx_rs-.*\.tar\.xz'
  'crate ucxx_rs-.*\.crate'
  'sbom ucxx_rs-.*\.cdx\.json'
  'deb .*\.deb'
  'rpm .*\.rpm'
)
for each in "${patterns[@]}"; do
  kind=${each%% *}
  # A package of an earlier version must not get into this release.
  [ "$no_build" = yes ] || rm -rf "${packages:?}/$kind"
  if [ -f "packaging/$kind/build.sh" ]; then
    part "$kind" "$packages/$kind" "${each#* }" scripts/packages.sh build "$kind"
  else
    missing+=("$kind")
  fi
done
[ "$no_build" = yes ] || rm -rf "$target_dir/wheel"
# With the library of the binary archive, so that it runs on systems that are as old.
wheel() {
  local archive tree status=0
  archive=$(compgen -G "$packages/binary/ucxx_rs-*-linux-gnu.tar.xz") || { scripts/wheel.sh; return; }
  tree=$(mktemp -d)
  tar -xf "$archive" -C "$tree"
  scripts/wheel.sh --prefix "$tree"/ucxx_rs-* || status=$?
  rm -rf "$tree"
  return "$status"
}
part wheel "$target_dir/wheel" '.*\.whl' wheel

cd "$dist"
sums=$(find . -type f -printf '%P\n' | LC_ALL=C sort | xargs -r -d '\n' sha256sum)
printf '%s\n' "$sums" > SHA256SUMS
cat SHA256SUMS
if [ "${#missing[@]}" -gt 0 ]; then say "dist: this machine cannot make: ${missing[*]}"; fi
[ "${#failed[@]}" -eq 0 ] || die "failed: ${failed[*]}"
say "dist: made in $dist"
