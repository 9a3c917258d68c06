#!/usr/bin/env bash
# The program in README.md compiles as printed, against the library installed under PREFIX, and does what it says.
#
#   tests/readme.sh PREFIX
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
prefix=${1:?usage: tests/readme.sh PREFIX}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed -n '/^```c$/,/^```$/p' README.md | sed '1d;/^```$/,$d' >"$work/hello.c"
lines=$(wc -l <"$work/hello.c")
if [ "$lines" -lt 10 ] || [ "$lines" -gt 30 ]; then
  echo "readme: the program has $lines lines" >&2
  exit 1
fi
# The form in which a call returns what became of the operation comes first.
grep -q UCXX_FLAG_WAIT "$work/hello.c" || { echo "readme: the program does not show UCXX_FLAG_WAIT" >&2; exit 1; }
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
read -ra flags <<<"$(pkg-config --cflags --libs ucxx_rs)"
"${CC:-cc}" -std=c99 -Wall -Wextra -pedantic -Werror "$work/hello.c" "${flags[@]}" -Wl,-rpath,"$prefix/lib" -o "$work/hello"
printed=$(timeout 60 "$work/hello")
if [ "$printed" != "hello, world" ]; then
  echo "readme: the program printed '$printed'" >&2
  exit 1
fi
echo "readme: $lines lines, compiled as printed, printed '$printed'"
