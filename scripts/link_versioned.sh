#!/usr/bin/env bash
# Links the shared library. scripts/build.sh and cargo-c (Cargo.toml) pass it to rustc as the
# linker. It gives the exported symbols a version, so that two releases of the library can be in one
# process. rustc lists those symbols in a version script without a version, and GNU ld accepts only
# one such script, so build.rs cannot add another one.
#
# UCXX_RS_LINKER is the compiler that links, cc by default.
set -euo pipefail

# cargo sets these variables for rustc.
version=$CARGO_PKG_VERSION_MAJOR.$CARGO_PKG_VERSION_MINOR
for argument in "$@"; do
  case $argument in
    -Wl,*--version-script=*)
      list=${argument##*--version-script=}
      sed -i "1s/^{/UCXX_RS_$version {/" "${list%%,*}"
      ;;
  esac
done
exec "${UCXX_RS_LINKER:-cc}" "$@"
