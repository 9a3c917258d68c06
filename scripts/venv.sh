#!/usr/bin/env bash
# Makes a Python environment under the target directory, with pinned packages, and prints the path
# of its python. The system's Python is not changed. Some systems forbid pip to change it (PEP 668).
#
#   scripts/venv.sh [--name NAME] [PACKAGE==VERSION ...]
#
# With a NAME it is a separate environment.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

venv=$target_dir/venv
if [ "${1:-}" = --name ]; then
  venv=$target_dir/venv-$2
  shift 2
fi
lock "$venv"
if [ ! -x "$venv/bin/pip" ]; then
  rm -rf "$venv"
  python3 -m venv "$venv" >&2 || die "python3 -m venv failed; on Debian: apt-get install python3-venv"
fi
if [ $# -gt 0 ] && [ "$(cat "$venv/packages" 2>/dev/null)" != "$*" ]; then
  "$venv/bin/pip" install --quiet --disable-pip-version-check "$@" >&2 || die "pip could not install: $*"
  printf '%s\n' "$*" > "$venv/packages"
fi
say "$venv/bin/python"
