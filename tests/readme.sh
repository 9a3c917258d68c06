#!/usr/bin/env bash
# The programs in README.md and docs/connections.md compile as printed, against the library
# installed under PREFIX, and do what the pages say.
#
#   tests/readme.sh PREFIX
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
prefix=${1:?usage: tests/readme.sh PREFIX}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
program() { sed -n '/^```c$/,/^```$/p' "$1" | sed '1d;/^```$/,$d'; } # the first one of a page
program README.md >"$work/hello.c"
lines=$(wc -l <"$work/hello.c")
if [ "$lines" -lt 10 ] || [ "$lines" -gt 30 ]; then
  echo "readme: the program has $lines lines" >&2
  exit 1
fi
# The program shows first the form in which a call returns the operation's result.
grep -q UCXX_FLAG_WAIT "$work/hello.c" || { echo "readme: the program does not show UCXX_FLAG_WAIT" >&2; exit 1; }
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
read -ra flags <<<"$(pkg-config --cflags --libs ucxx_rs)"
compile() { # name
  "${CC:-cc}" -std=c99 -Wall -Wextra -pedantic -Werror "$work/$1.c" "${flags[@]}" -Wl,-rpath,"$prefix/lib" -o "$work/$1"
}
compile hello
printed=$(timeout 60 "$work/hello")
if [ "$printed" != "hello, world" ]; then
  echo "readme: the program printed '$printed'" >&2
  exit 1
fi
echo "readme: $lines lines, compiled as printed, printed '$printed'"

program docs/connections.md >"$work/pair.c"
compile pair
mkfifo "$work/server"
timeout 60 "$work/pair" >"$work/server" &
server=$!
exec 3<"$work/server"
read -r port <&3
client=$(timeout 60 "$work/pair" "$port")
read -r heard <&3
wait "$server"
if [ "$client $heard" != "pong ping" ]; then
  echo "readme: the client of docs/connections.md printed '$client', its server '$heard'" >&2
  exit 1
fi
echo "readme: server and client, compiled as printed, printed '$heard' and '$client'"
