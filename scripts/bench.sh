#!/usr/bin/env bash
# Builds and installs the library, and runs the benchmarks with it. The options are those of
# benches/run.py.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cd "$root"
prefix=$target_dir/bench-prefix
scripts/build.sh
rm -rf "$prefix"
scripts/install.sh --prefix "$prefix" >/dev/null
python=$(scripts/venv.sh)
exec "$python" benches/run.py --prefix "$prefix" --fetch-peers "$@"
