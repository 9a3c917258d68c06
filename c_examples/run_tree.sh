#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) the ucxx_rs developers
#
# Makes a small tree, sends it with send_files, and compares what arrived. The tree has files of 0
# bytes, of one byte, of a chunk and of one byte more or less, nested and empty directories, several
# modes, and awkward names.
#
#   run_tree.sh BIN_DIR
set -euo pipefail
# shellcheck source=send_tree.sh
source "$(dirname "${BASH_SOURCE[0]}")/send_tree.sh"

if (($# != 1)); then
  echo "usage: $0 BIN_DIR" >&2
  exit 2
fi
scratch=$(mktemp -d)
trap 'chmod -R u+rwx "$scratch"; rm -rf "$scratch"' EXIT

tree=$scratch/tree
chunk=$((1 << 20))
mkdir -p "$tree/a/b/c" "$tree/empty directory" "$tree/many"
for size in 0 1 31 32 33 8192 $((chunk - 1)) $chunk $((chunk + 1)) $((5 * chunk + 12345)); do
  head -c "$size" /dev/urandom >"$tree/a/size $size"
done
for number in {1..100}; do echo "file $number" >"$tree/many/$number"; done
echo 'run me' >"$tree/a/b/tool" && chmod 755 "$tree/a/b/tool"
echo 'read only' >"$tree/a/b/c/fixed" && chmod 444 "$tree/a/b/c/fixed"
chmod 555 "$tree/a/b/c"
echo 'odd' >"$tree/a/-n * \$HOME"$'\n'"line"
ln -s b/tool "$tree/a/link to a file"
ln -s .. "$tree/a/link to a directory"
ln -s nowhere "$tree/a/link to nothing"
echo 'single' >"$scratch/single file"

send_tree "$1" "$scratch" "$tree" "$scratch/single file"
same_tree "$scratch" "$tree" "$scratch/single file"
echo "the tree that arrived is the tree that was sent"
