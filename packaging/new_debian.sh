#!/usr/bin/env bash
# Sourced, after scripts/lib.sh, by what tries packages in a new Debian.
#
# - new_debian_possible: ends the script with 77, and the reason, where it is not.
# - new_debian OUT RELEASE [PACKAGE ...]: makes it in $debian_root. It is made once, with these
#   packages, and kept as OUT/root-RELEASE.tar. With the right to mount, it gets /proc, /sys and
#   /dev/shm.
# - drop_debian: removes it. This also happens when the script ends.

new_debian_possible() {
  if [ "$(id -u)" -ne 0 ]; then say "debootstrap and chroot need root"; exit 77; fi
  if ! command -v debootstrap >/dev/null; then
    say "debootstrap is missing: scripts/setup.sh packages"
    exit 77
  fi
  debian_release=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")
  # The server that this machine's apt uses.
  # shellcheck disable=SC2016  # apt expands these
  debian_mirror=$(apt-get indextargets --format '$(RELEASE) $(SITE)' 'Created-By: Packages' |
    awk -v release="$debian_release" '$1 == release { print $2; exit }')
  [ -n "$debian_mirror" ] || { say "apt names no server for $debian_release"; exit 77; }
}

drop_debian() {
  umount "$debian_root/proc" "$debian_root/sys" "$debian_root/dev/shm" 2>/dev/null || true
  rm -rf --one-file-system "$debian_root"
}

inside() {
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    chroot "$debian_root" "$@"
}

new_debian() {
  local base=$1/root-$2.tar release=$2 packages pair
  packages=$(IFS=,; printf '%s' "${*:3}")
  debian_root=$1/try-root
  drop_debian
  trap drop_debian EXIT
  if [ ! -f "$base" ]; then
    say "--- a new Debian: $release"
    debootstrap --variant=minbase ${packages:+"--include=$packages"} "$release" "$debian_root" "$debian_mirror"
    inside apt-get clean
    tar --create --file "$base.part" --directory "$debian_root" .
    mv "$base.part" "$base"
  else
    mkdir "$debian_root"
    tar --extract --file "$base" --directory "$debian_root"
  fi
  mkdir -p "$debian_root/dev/shm"
  for pair in proc:proc sysfs:sys tmpfs:dev/shm; do
    mount -t "${pair%:*}" none "$debian_root/${pair#*:}" 2>/dev/null || say "no right to mount /${pair#*:}"
  done
}
