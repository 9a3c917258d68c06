#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) the ucxx_rs developers
#
# Builds the Fortran modules and their examples, and runs them. Status 77: there is no compiler.
#
#   run.sh PREFIX     PREFIX: an installed package
#
#   FC   another compiler than gfortran
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
prefix=$(cd "$1" && pwd)

"$here/generate.py" --check
compiler=${FC:-gfortran}
if ! command -v "$compiler" >/dev/null; then
  echo "$compiler is not installed"
  exit 77
fi
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cd "$build"
"$here/generate.py" --layouts >check_layouts.f90

flags=(-O2)
if [[ $compiler == *gfortran* ]]; then
  # Callbacks have arguments that they do not use, and the examples compare every bit.
  flags+=(-std=f2018 -Wall -Wextra -Werror -Wno-unused-dummy-argument -Wno-compare-reals)
fi
for module in ucxx_rs_types ucxx_rs_functions ucxx_rs; do
  "$compiler" "${flags[@]}" -c "$here/$module.f90"
done
program() { # SOURCE
  "$compiler" "${flags[@]}" -o "$(basename "$1" .f90)" "$1" ./*.o -L"$prefix/lib" -lucxx_rs -Wl,-rpath,"$prefix/lib"
}
program check_layouts.f90
for example in "$here"/examples/*.f90; do program "$example"; done

./check_layouts
"$here/../pair.sh" ./ping_pong
"$here/../pair.sh" ./fetch
for members in 1 2 4; do
  timeout --kill-after=5 120 "$prefix/bin/ucxx_rs_group" "$members" ./stencil
done
# Blocks of different widths, and of one column.
timeout --kill-after=5 120 "$prefix/bin/ucxx_rs_group" 3 ./stencil 37 11 9
timeout --kill-after=5 120 "$prefix/bin/ucxx_rs_group" 5 ./stencil 7 5 20
# Members that count as members of two hosts send messages to each other.
timeout --kill-after=5 120 "$prefix/bin/ucxx_rs_group" 4 \
  bash -c "UCXX_RS_HOST_ID=\$((RANK % 2)) exec ./stencil 48 32 50"
