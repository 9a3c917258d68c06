#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) the ucxx_rs developers
#
# Runs the examples of languages that have one file each. Those whose language is not installed are
# named. Status 77: none is installed.
#
#   run.sh PREFIX     PREFIX: an installed package
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/lib.sh
source "$here/../../scripts/lib.sh"
prefix=$(cd "$1" && pwd)
export LD_LIBRARY_PATH=$prefix/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT

ran=0
run() { # LANGUAGE COMMAND...
  echo "$1:"
  "$here/../pair.sh" "${@:2}"
  ran=$((ran + 1))
}
not_here() { echo "not here: $*"; }
have() { command -v "$1" >/dev/null; }

if have luajit; then
  UCXX_RS_HEADER=$prefix/include/ucxx_rs.h run Lua luajit "$here/ping_pong.lua"
else
  not_here "Lua: luajit is not installed"
fi

if have mcs && have mono; then
  mcs -warnaserror -out:"$build/ping_pong.exe" "$here/ping_pong.cs"
  run "C#" mono "$build/ping_pong.exe"
else
  not_here "C#: mono is not installed"
fi

if have cargo; then
  (cd "$root/tests/bindings/rust" &&
    UCXX_RS_PREFIX=$prefix CARGO_TARGET_DIR=$target_dir/bindings cargo build --locked --quiet --example ping_pong)
  run Rust "$target_dir/bindings/debug/examples/ping_pong"
else
  not_here "Rust: cargo is not installed"
fi

# The same version as that of packaging/binary/build.sh.
if python=$("$root/scripts/venv.sh" --name zig ziglang==0.15.2); then
  ZIG_GLOBAL_CACHE_DIR=$build/zig ZIG_LOCAL_CACHE_DIR=$build/zig "$python" -m ziglang build-exe "$here/ping_pong.zig" \
    -lc -I"$prefix/include" -L"$prefix/lib" -lucxx_rs -femit-bin="$build/ping_pong_zig"
  run Zig "$build/ping_pong_zig"
else
  not_here "Zig: the package ziglang cannot be installed"
fi

if have julia; then
  run Julia julia "$here/ping_pong.jl"
else
  not_here "Julia: it is not installed"
fi

((ran > 0)) || exit 77
