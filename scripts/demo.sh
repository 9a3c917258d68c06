#!/usr/bin/env bash
# The demo as a user would build it: the library installed into a prefix of its own, the examples
# compiled against that prefix only, and a directory tree sent from one process to another.
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
# Under `make`, a nested make would take the outer one's flags for its own.
unset MAKEFLAGS MAKELEVEL
cmake -Uucxx_rs_DIR -S c_examples -B "$build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
cmake --build "$build" --parallel >"$build/log" || { cat "$build/log" >&2; die "the examples do not compile"; }
exec c_examples/run_demo.sh "$build"
