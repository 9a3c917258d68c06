#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) the ucxx_rs developers
#
# Runs the Node examples against the library that is installed at PREFIX.
#
#   run.sh PREFIX
#
# Ends with status 77 if there is no Node of version 18 or later, or no koffi.
set -euo pipefail

prefix=${1:?usage: run.sh PREFIX}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
"$here/generate.py" --check
command -v node >/dev/null || { echo "node is not installed"; exit 77; }
version=$(node --version)
version=${version#v}
((${version%%.*} >= 18)) || { echo "node $version is too old: 18 is needed"; exit 77; }

# A copy, so that npm writes nothing into the sources.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp -r "$here" "$scratch/node"
cd "$scratch/node"
if [ ! -d node_modules/koffi ]; then
  command -v npm >/dev/null || { echo "npm is not installed"; exit 77; }
  npm install --prefer-offline --no-audit --no-fund --no-package-lock --loglevel=error ||
    { echo "npm does not get koffi"; exit 77; }
fi

export LD_LIBRARY_PATH=$prefix/lib
for program in ping_pong fetch http_store; do
  "$here/../pair.sh" node "examples/$program.js"
done
