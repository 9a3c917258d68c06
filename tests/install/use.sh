#!/usr/bin/env bash
# Uses an installed tree, wherever it is: builds C and C++ programs against it with CMake and
# pkg-config, shared and static, runs them, and runs the tools of the tree.
#
#   tests/install/use.sh PREFIX LIBDIR [RUN_PATH [TEXT ...]]
#
#   LIBDIR    below PREFIX
#   RUN_PATH  that the tools have; `$ORIGIN/../lib` by default
#   TEXT      what no text file of the tree may contain, as the folder of its installation
#
# tests/install/run.sh sources it for its functions.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/../../scripts/lib.sh"
set -euo pipefail
version=$(package_field version)
soversion=${version%.*}
not_in_files=()

fail() { printf 'install: %s\n' "$*" >&2; exit 1; }
checked=0
ok() { checked=$((checked + 1)); say "  ok: $*"; }
# Prints build output only after a failure.
quietly() { "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "failed: $*"; }; }

use_tree() { # name, prefix, libdir below it
  local name=$1 prefix=$2 libdir=$3 kind language place
  for place in "${not_in_files[@]}"; do
    if grep -rIlF -e "$place" "$prefix"; then fail "$name: these files contain the path $place"; fi
  done
  local pc=(env "PKG_CONFIG_PATH=$prefix/$libdir/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}" pkg-config)
  [ "$("${pc[@]}" --modversion ucxx_rs)" = "$version" ] || fail "$name: pkg-config does not report version $version"

  # shellcheck disable=SC2034  # used by name
  local cflags shared_libs static_libs
  # A shell that parses them again handles spaces in names.
  eval "cflags=($("${pc[@]}" --cflags ucxx_rs)) shared_libs=($("${pc[@]}" --libs ucxx_rs))"
  eval "static_libs=($("${pc[@]}" --libs ucxx_rs-static))"
  [ "$("${pc[@]}" --modversion ucxx_rs-static)" = "$version" ] || fail "$name: ucxx_rs-static.pc has another version"

  local strict=(-Wall -Wextra -pedantic -Werror)
  mkdir -p "programs/$name"
  for kind in shared static; do
    local -n libs=${kind}_libs
    quietly gcc -std=c99 "${strict[@]}" "${cflags[@]}" "$here/consumer.c" -o "programs/$name/pc-$kind-c" "${libs[@]}"
    quietly g++ -std=c++11 "${strict[@]}" "${cflags[@]}" "$here/consumer.cpp" -o "programs/$name/pc-$kind-cpp" "${libs[@]}"
    quietly cmake -S "$here" -B "programs/$name/cmake-$kind" -DKIND=$kind -DVERSION="$soversion" -DCMAKE_PREFIX_PATH="$prefix"
    quietly cmake --build "programs/$name/cmake-$kind"
    for language in c cpp; do
      run_consumer "$name pkg-config $kind $language" "programs/$name/pc-$kind-$language" $kind "$prefix/$libdir"
      # No library path: CMake writes an imported library's path into what it builds.
      run_consumer "$name CMake $kind $language" "programs/$name/cmake-$kind/consumer_$language" $kind ""
    done
  done
  run_consumer "$name CMake ucxx_rs::ucxx_rs" "programs/$name/cmake-shared/consumer" shared ""
}
run_consumer() { # what, program, kind, library path
  local output needed
  needed=$(readelf -d "$2" | grep -c 'NEEDED.*libucxx_rs' || true)
  case $3 in
    shared) [ "$needed" -eq 1 ] || fail "$1: does not load libucxx_rs.so" ;;
    static) [ "$needed" -eq 0 ] || fail "$1: should be static, but loads libucxx_rs.so" ;;
  esac
  output=$(LD_LIBRARY_PATH=$4${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$2" 2>&1) || fail "$1: $output"
  grep -q "^ucxx_rs $version on UCX" <<< "$output" || fail "$1: $output"
  ok "$1: $(head -n 1 <<< "$output")"
}

# The tools find the library of their own tree: by the given run path, or in the loader's default
# folders.
use_tools() { # name, prefix, libdir below it, run path
  local name=$1 prefix=$2 libdir=$3 tool found output
  for tool in ucxx_rs_info ucxx_rs_perftest; do
    found=$(readelf -d "$prefix/bin/$tool" | sed -nE 's/.*\((RPATH|RUNPATH)\).*\[(.*)\]/\2/p')
    [ "$found" = "$4" ] || fail "$name: $tool has the run path '$found', not '$4'"
  done
  local -x LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}
  [ -n "$4" ] || LD_LIBRARY_PATH=$prefix/$libdir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  output=$("$prefix/bin/ucxx_rs_info" --versions) || fail "$name: ucxx_rs_info: $output"
  grep -qF "ucxx_rs $version, $prefix/$libdir/libucxx_rs.so.$version" <<< "$output" || fail "$name: ucxx_rs_info found another library: $output"
  output=$("$prefix/bin/ucxx_rs_perftest" --self --verify --csv -n 100 -s 8,64k) || fail "$name: ucxx_rs_perftest: $output"
  [ "$(grep -c '^tag_lat,' <<< "$output")" -eq 2 ] || fail "$name: ucxx_rs_perftest: $output"
  # shellcheck disable=SC2016  # the members' shells expand these
  output=$("$prefix/bin/ucxx_rs_group" 3 sh -c 'echo "$RANK of $WORLD_SIZE"' | sort | paste -sd,) || fail "$name: ucxx_rs_group"
  [ "$output" = '0 of 3,1 of 3,2 of 3' ] || fail "$name: ucxx_rs_group started $output"
  ok "$name: the tools run, with the library of their tree"
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  [ $# -ge 2 ] || die "usage: use.sh PREFIX LIBDIR [RUN_PATH [TEXT ...]]"
  prefix=$(realpath "$1")
  not_in_files=("${@:4}")
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  cd "$work"
  use_tree "$(basename "$prefix")" "$prefix" "$2"
  # shellcheck disable=SC2016  # the loader expands it
  use_tools "$(basename "$prefix")" "$prefix" "$2" "${3-"\$ORIGIN/../lib"}"
fi
