#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) the ucxx_rs developers
#
# Runs an echo server, and clients in a second process. Fails if either fails.
#
#   run_echo.sh SERVER CLIENT [CONNECTIONS [MESSAGES]]
#
#   EXAMPLE_TIMEOUT   seconds after which both are ended (120)
set -euo pipefail

server=$1 client=$2 connections=${3:-1} messages=${4:-100}
limit=(timeout --kill-after=5 "${EXAMPLE_TIMEOUT:-120}")
scratch=$(mktemp -d)
trap 'kill %1 2>/dev/null || true; rm -rf "$scratch"' EXIT

mkfifo "$scratch/output"
"${limit[@]}" "$server" server "$connections" >"$scratch/output" &
exec 3<"$scratch/output"
read -r word port <&3
[[ $word == port ]]
"${limit[@]}" "$client" client "$port" "$connections" "$messages"
cat <&3
wait %1
