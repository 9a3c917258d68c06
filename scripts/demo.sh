#!/usr/bin/env bash
# The demo, built as a user would build it: installs the library under a prefix, compiles the
# examples against that prefix only, and sends a directory tree from one process to another.
#
#   FILES='DIR ...' scripts/demo.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cd "$root"
prefix=$target_dir/demo
build=$target_dir/demo-build
scripts/build.sh
rm -rf "$prefix"
scripts/install.sh --prefix "$prefix" >/dev/null
say "installed into $prefix"
say "compiling the examples against it, with CMake"
# Nested makes must not use the flags of the outer `make demo`.
unset MAKEFLAGS MAKELEVEL
cmake -Uucxx_rs_DIR -S c_examples -B "$build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
cmake --build "$build" --parallel >"$build/log" || { cat "$build/log" >&2; die "the examples do not compile"; }
exec c_examples/run_demo.sh "$build"
