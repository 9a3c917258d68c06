#!/usr/bin/env bash
# The C compiler of what has to run on old systems: it links against the glibc of Red Hat Enterprise
# Linux 8. Rust's standard library would run on an older one.
#
#   packaging/binary/cc.sh ARGUMENT...
#   packaging/binary/cc.sh --glibc        prints that version
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"
glibc=2.28
if [ "${1:-}" = --glibc ]; then
  echo "$glibc"
  exit
fi
python=$("$root/scripts/venv.sh" --name zig ziglang==0.15.2)
# zig's own linker takes --allow-shlib-undefined for the option that install.sh passes to GNU's.
exec "$python" -m ziglang cc -target "$(uname -m)-linux-gnu.$glibc" \
  "${@/#-Wl,--unresolved-symbols=ignore-in-shared-libs/-Wl,--allow-shlib-undefined}"
