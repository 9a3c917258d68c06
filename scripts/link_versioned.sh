#!/usr/bin/env bash
# Links the shared library: rustc's linker, given by scripts/build.sh. rustc lists the exported
# symbols in a version script of its own, without a version, and a linker takes no second script
# beside one like that. So this script writes the version, UCXX_RS_SYMBOL_VERSION, into rustc's
# list.
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
