#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) the ucxx_rs developers
#
# Builds and runs the Go examples against the library that is installed at PREFIX.
#
#   run.sh PREFIX
#
# Ends with status 77 if there is no Go.
set -euo pipefail

prefix=${1:?usage: run.sh PREFIX}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
command -v go >/dev/null || { echo "go is not installed"; exit 77; }

export PKG_CONFIG_PATH=$prefix/lib/pkgconfig LD_LIBRARY_PATH=$prefix/lib
export CGO_ENABLED=1 GOFLAGS=-mod=mod GOTOOLCHAIN=local
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cd "$here"
go vet ./...
[ -z "$(gofmt -l .)" ] || { echo "gofmt changes: $(gofmt -l . | tr '\n' ' ')" >&2; exit 1; }
go test ./...
go build -o "$scratch/" ./examples/...
for program in ping_pong fetch goroutines hub; do
  "$here/../pair.sh" "$scratch/$program"
done
for members in 1 2 4; do
  timeout --kill-after=5 120 "$prefix/bin/ucxx_rs_group" "$members" "$scratch/window"
done
# Members that count as members of two hosts send messages to each other.
timeout --kill-after=5 120 "$prefix/bin/ucxx_rs_group" 4 \
  bash -c "UCXX_RS_HOST_ID=\$((RANK % 2)) exec '$scratch/window'"
