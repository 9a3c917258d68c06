#!/usr/bin/env bash
# Installs the Debian packages into a new Debian, uses them there, and removes them again.
#
#   packaging/deb/try.sh OUT      OUT: where build.sh has put the packages
#
# - The new Debian is of this machine's release, from the server that this machine's apt uses. It is
#   made once, with compilers, and kept as OUT/root-RELEASE.tar.
# - With the right to mount, it gets /proc, /sys and /dev/shm, which end with this script. Without,
#   the example in Python is left out: UCX finds network devices in /sys.
# - After the removal, the packages and the files there must be what they were before.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/../../scripts/lib.sh"

[ $# -eq 1 ] || die "usage: try.sh OUT"
out=$(cd "$1" && pwd)
version=$(package_field version)
packages=(libucxx-rs0.1 libucxx-rs-dev ucxx-rs-tools python3-ucxx-rs)
files=()
for package in "${packages[@]}"; do
  file=$(compgen -G "$out/${package}_${version}_*.deb") ||
    die "$out has no $package: build.sh makes it"
  files+=("$file")
done

if [ "$(id -u)" -ne 0 ]; then say "debootstrap and chroot need root"; exit 77; fi
if ! command -v debootstrap >/dev/null; then
  say "debootstrap is missing: scripts/setup.sh packages"
  exit 77
fi
# Mounts of a namespace of its own end with it, however the script ends.
if [ -z "${TRY_IN_NAMESPACE:-}" ] && unshare --mount true 2>/dev/null; then
  TRY_IN_NAMESPACE=1 exec unshare --mount "$0" "$out"
fi

release=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")
# shellcheck disable=SC2016  # apt expands these
mirror=$(apt-get indextargets --format '$(RELEASE) $(SITE)' 'Created-By: Packages' |
  awk -v release="$release" '$1 == release { print $2; exit }')
[ -n "$mirror" ] || { say "apt names no server for $release"; exit 77; }

root=$out/try-root
clean_up() {
  umount "$root/proc" "$root/sys" "$root/dev/shm" 2>/dev/null || true
  rm -rf --one-file-system "$root"
}
clean_up
trap clean_up EXIT

inside() {
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    chroot "$root" "$@"
}

base=$out/root-$release.tar
if [ ! -f "$base" ]; then
  say "--- a new Debian: $release"
  debootstrap --variant=minbase \
    --include=gcc,g++,libc6-dev,make,cmake,pkg-config,python3,python3-numpy \
    "$release" "$root" "$mirror"
  inside apt-get clean
  tar --create --file "$base.part" --directory "$root" .
  mv "$base.part" "$base"
else
  mkdir "$root"
  tar --extract --file "$base" --directory "$root"
fi
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
for pair in proc:proc sysfs:sys tmpfs:dev/shm; do
  mount -t "${pair%:*}" none "$root/${pair#*:}" 2>/dev/null || say "no right to mount /${pair#*:}"
done

# Without what apt and dpkg keep for themselves, and what adduser leaves: libibverbs1, which UCX
# depends on, makes a group, and Debian's packages do not remove theirs.
listing() {
  local left_out=(-false) path
  for path in proc sys dev run tmp var/cache var/lib/apt var/log 'etc/*-'; do
    left_out+=(-o -path "./$path")
  done
  (cd "$root" && find . -xdev \( "${left_out[@]}" \) -prune -o -printf '%y %p %l\n' | sort)
}
inside apt-get update -qq
listing > "$out/before"
inside dpkg --get-selections > "$out/before-packages"

say "--- install"
mkdir "$root/tmp/try"
cp "${files[@]}" "$here/inside.sh" "$here/CMakeLists.txt" "$root/tmp/try"
inside apt-get install -y --no-install-recommends "${files[@]/#*\///tmp/try/}"

inside bash /tmp/try/inside.sh

say "--- remove"
inside apt-get purge -y --auto-remove "${packages[@]}"
listing > "$out/after"
inside dpkg --get-selections > "$out/after-packages"
diff "$out/before-packages" "$out/after-packages" || die "packages are left"
diff "$out/before" "$out/after" || die "files are left, or missing"
say "nothing is left"
