#!/usr/bin/env bash
# Links the shared library. scripts/build.sh passes it to rustc as the linker. rustc lists the
# exported symbols in a version script without a version, and a linker accepts only one such script.
# So this script adds the version, UCXX_RS_SYMBOL_VERSION, to rustc's script.
set -euo pipefail

for argument in "$@"; do
  case $argument in
    -Wl,*--version-script=*)
      list=${argument##*--version-script=}
      sed -i "1s/^{/$UCXX_RS_SYMBOL_VERSION {/" "${list%%,*}"
      ;;
  esac
done
exec "$UCXX_RS_LINKER" "$@"
