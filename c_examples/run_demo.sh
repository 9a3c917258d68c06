#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) the ucxx_rs developers
#
# Sends a directory tree from one process to another, first over shared memory and then over TCP,
# and compares the copies with the originals.
#
#   run_demo.sh BIN_DIR
#
#   FILES   what to send: one path, or several separated by white space; default: the sources of
#           this project, and the libraries that the examples use
set -euo pipefail
directory=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=send_tree.sh
source "$directory/send_tree.sh"

if (($# != 1)); then
  echo "usage: [FILES='PATH...'] $0 BIN_DIR" >&2
  exit 2
fi
bin_dir=$1

if [[ -z ${FILES:-} ]]; then
  files=()
  for name in src include c_examples tests benches docs scripts cmake pkgconfig Cargo.toml Cargo.lock build.rs Makefile README.md; do
    if [[ -e $directory/../$name ]]; then files+=("$directory/../$name"); fi
  done
  library=$(ldd "$bin_dir/send_files" | sed -n 's/^.*libucxx_rs\.so[^ ]* => \(\/[^ ]*\) .*$/\1/p')
  for name in "${library%/*}"/libucxx_rs.*; do
    if [[ -f $name && ! -L $name ]]; then files+=("$name"); fi
  done
elif [[ -e $FILES ]]; then
  files=("$FILES")
else
  read -ra files <<<"${FILES//$'\n'/ }"
fi

scratch=$(mktemp -d)
trap 'chmod -R u+rwx "$scratch" 2>/dev/null || true; rm -rf "$scratch"' EXIT

run_over() {
  local name=$1 result
  echo "== over $name (UCX_TLS=$2)"
  mkdir "$scratch/$name"
  UCX_TLS=$2 send_tree "$bin_dir" "$scratch/$name" "${files[@]}"
  same_tree "$scratch/$name" "${files[@]}"
  result=$(tail -n 1 "$scratch/$name/receiver.log")
  echo "receiver: $result"
  rm -rf "${scratch:?}/$name" 2>/dev/null || true
}

run_over "shared memory" posix,cma,self
run_over TCP tcp,self
echo "the copies equal the originals"
