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
source "$here/../new_debian.sh"

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

new_debian_possible
# Mounts of a namespace of its own end with it, however the script ends.
if [ -z "${TRY_IN_NAMESPACE:-}" ] && unshare --mount true 2>/dev/null; then
  TRY_IN_NAMESPACE=1 exec unshare --mount "$0" "$out"
fi

new_debian "$out" "$debian_release" gcc g++ libc6-dev make cmake pkg-config python3 python3-numpy
cp -L /etc/resolv.conf "$debian_root/etc/resolv.conf"

# Without what apt and dpkg keep for themselves, and what adduser leaves: libibverbs1, which UCX
# depends on, makes a group, and Debian's packages do not remove theirs.
listing() {
  local left_out=(-false) path
  for path in proc sys dev run tmp var/cache var/lib/apt var/log 'etc/*-'; do
    left_out+=(-o -path "./$path")
  done
  (cd "$debian_root" && find . -xdev \( "${left_out[@]}" \) -prune -o -printf '%y %p %l\n' | sort)
}
inside apt-get update -qq
listing > "$out/before"
inside dpkg --get-selections > "$out/before-packages"

say "--- install"
mkdir "$debian_root/tmp/try"
cp "${files[@]}" "$here/inside.sh" "$here/CMakeLists.txt" "$debian_root/tmp/try"
inside apt-get install -y --no-install-recommends "${files[@]/#*\///tmp/try/}"

inside bash /tmp/try/inside.sh

say "--- remove"
inside apt-get purge -y --auto-remove "${packages[@]}"
listing > "$out/after"
inside dpkg --get-selections > "$out/after-packages"
diff "$out/before-packages" "$out/after-packages" || die "packages are left"
diff "$out/before" "$out/after" || die "files are left, or missing"
say "nothing is left"
