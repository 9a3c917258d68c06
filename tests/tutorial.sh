#!/usr/bin/env bash
# The programs of docs/tutorial compile as printed, against the library installed under PREFIX, and
# print what their pages show.
#
#   tests/tutorial.sh PREFIX
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
prefix=${1:?usage: tests/tutorial.sh PREFIX}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig PATH=$prefix/bin:$PATH
read -ra flags <<<"$(pkg-config --cflags --libs ucxx_rs)"
for program in first service pipeline window; do
  "${CC:-cc}" -std=c99 -Wall -Wextra -pedantic -Werror "docs/tutorial/$program.c" "${flags[@]}" \
    -Wl,-rpath,"$prefix/lib" -pthread -o "$work/$program"
done
expect() { # page, what was printed: each line of it stands on the page
  local line
  [ -n "$2" ] || { echo "tutorial: $1: nothing was printed" >&2; return 1; }
  while IFS= read -r line; do
    if ! grep -qFx -- "$line" "docs/tutorial/$1.md"; then
      echo "tutorial: $1 printed '$line', which its page does not show" >&2
      return 1
    fi
  done <<<"$2"
}
server() { # program: starts it, and sets its port
  [ -p "$work/out" ] || mkfifo "$work/out"
  timeout 60 "$work/$1" >"$work/out" &
  pid=$!
  exec 3<"$work/out"
  read -r _ port <&3
}

server first
expect first "$(timeout 60 "$work/first" "$port")"
expect first "$(cat <&3)"
wait "$pid"

server service
expect service "$(timeout 60 "$work/service" "$port" one two)"
expect service "$(cat <&3)"
wait "$pid"

expect pipeline "$(timeout 60 "$work/pipeline")"
expect window "$(timeout 60 ucxx_rs_group 4 "$work/window" 2>"$work/tasks")"
if [ "$(awk '{ tasks += $5 } END { print NR, tasks }' "$work/tasks")" != "4 1000" ]; then
  cat "$work/tasks" >&2
  exit 1
fi
echo "tutorial: four programs, compiled as printed, printed what their pages show"
