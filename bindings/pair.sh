#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) the ucxx_rs developers
#
# Runs an example as two processes, over shared memory and then over TCP. Fails if either fails.
#
#   pair.sh COMMAND [ARGUMENT...]
#
# The first one gets no more arguments. Its first line is the port on which it listens, or another
# text, and that is the last argument of the second one.
set -euo pipefail

pair() {
  local server port status=0
  exec {lines}< <(exec timeout --kill-after=5 120 "$@")
  server=$!
  IFS= read -r port <&"$lines" || { echo "$*: the server printed no port" >&2; return 1; }
  timeout --kill-after=5 120 "$@" "$port" || status=$?
  if ((status != 0)); then
    echo "$*: the second process ended with status $status" >&2
    kill "$server" 2>/dev/null || true
  fi
  cat <&"$lines"
  exec {lines}<&-
  wait "$server" || { echo "$*: the first process ended with status $?" >&2; status=1; }
  return "$status"
}

pair "$@"
UCX_TLS=tcp pair "$@"
