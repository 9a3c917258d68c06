#!/usr/bin/env bash
# Unpacks the GPU bundle in new systems without a compiler, and runs it there on the stand-in for
# the driver.
#
#   packaging/gpu/try.sh OUT      OUT: where build.sh has put the bundle
#
# The systems are Debian 12 (glibc 2.36) and Debian 13 (2.41), from the server that this machine's
# apt uses. Ubuntu 24.04 has glibc 2.39. They are made once, and kept as OUT/root-RELEASE.tar.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/../../scripts/lib.sh"

[ $# -eq 1 ] || die "usage: try.sh OUT"
out=$(cd "$1" && pwd)
[ -f "$out/gpu-bundle.tar.xz" ] || die "$out has no gpu-bundle.tar.xz: build.sh makes it"
if [ "$(id -u)" -ne 0 ]; then say "debootstrap and chroot need root"; exit 77; fi
if ! command -v debootstrap >/dev/null; then
  say "debootstrap is missing: scripts/setup.sh packages"
  exit 77
fi
# Mounts of a namespace of its own end with it, however the script ends.
if ! unshare --mount true 2>/dev/null; then say "/proc cannot be mounted here"; exit 77; fi
if [ -z "${TRY_IN_NAMESPACE:-}" ]; then TRY_IN_NAMESPACE=1 exec unshare --mount "$0" "$out"; fi

# shellcheck disable=SC2016  # apt expands these
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' |
  awk '/debian\/?$/ && !/security/ { print; exit }')
[ -n "$mirror" ] || { say "apt names no server of Debian"; exit 77; }

root=$out/try-root
clean_up() {
  umount "$root/proc" "$root/sys" "$root/dev/shm" 2>/dev/null || true
  rm -rf --one-file-system "$root"
}
clean_up
trap clean_up EXIT
for release in bookworm trixie; do
  if [ ! -f "$out/root-$release.tar" ]; then
    say "--- a new Debian: $release"
    debootstrap --variant=minbase "$release" "$root" "$mirror"
    tar -C "$root" -cf "$out/root-$release.tar.new" .
    mv "$out/root-$release.tar.new" "$out/root-$release.tar"
    rm -rf --one-file-system "$root"
  fi
  mkdir -p "$root"
  tar -C "$root" -xf "$out/root-$release.tar"
  tar -C "$root/root" -xJf "$out/gpu-bundle.tar.xz"
  mount -t proc proc "$root/proc"
  mount -t sysfs sysfs "$root/sys"
  mkdir -p "$root/dev/shm"
  mount -t tmpfs tmpfs "$root/dev/shm"
  say "--- $release: run.sh on the stand-in"
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root chroot "$root" \
    /root/gpu-bundle/run.sh --stand-in --minutes 30 --out /root/results
  # Whole, and with every row.
  python3 - "$root/root/results/report.json" <<'END'
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    report = json.load(file)
names = {each["name"] for each in report["results"]}
wanted = {"cuda_hub", "cuda_killed", "tag", "tag-rate", "am", "am-rate", "fetch", "put", "get"}
missing = wanted | {"frames", "stream", "hub", "producers", "locks", "hub_overlap"}
missing -= names
bad = [e for e in report["results"] if e.get("result", "passed").startswith(("failed", "not run"))]
if missing or bad:
    sys.exit(f"missing: {sorted(missing)}; not passed: {bad}")
print(f"{len(report['results'])} entries in the report")
END
  clean_up
done
