#!/usr/bin/env bash
# Runs the examples: a record batch from Python to Python, and from C to Python.
#
#   bindings/arrow/run.sh PREFIX     PREFIX: an installed package
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/../../scripts/lib.sh"
prefix=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

wheel=$("$root/scripts/wheel.sh" --prefix "$prefix" "$work" | tail -n 1)
python=$("$root/scripts/venv.sh" --name arrow pyarrow==26.0.1 cffi==2.1.1 numpy==2.4.6) ||
  { say "pyarrow could not be installed"; exit 77; }
"$python" -m pip install --quiet --force-reinstall --no-deps "$wheel"
"${CC:-cc}" -O2 -Wall -Wextra -Werror -I"$prefix/include" "$here/examples/send.c" \
  -o "$work/send" -L"$prefix/lib" -lucxx_rs "-Wl,-rpath,$prefix/lib"
export PYTHONPATH=$here

"$python" "$here/examples/round_trip.py"
transfer() { # SENDER...
  local port pid
  exec 3< <(exec timeout 120 "$python" "$here/examples/receive.py")
  pid=$!
  read -r port <&3
  timeout 120 "$@" "$port"
  cat <&3
  exec 3<&-
  wait "$pid"
}
for transports in '' tcp,self; do
  if [ -n "$transports" ]; then export UCX_TLS=$transports; fi
  say "from Python to Python, ${transports:-UCX chooses}"
  transfer "$python" "$here/examples/send.py"
  say "from C to Python, ${transports:-UCX chooses}"
  transfer "$work/send"
done
