#!/usr/bin/env bash
# Compiles the command line tools. scripts/install.sh calls it.
#
#   scripts/build_tools.sh --library FILE --includedir DIR --rpath PATH --out DIR
#
# With an empty --rpath the tools have no run path.
#
# It uses CC, CPPFLAGS, CFLAGS and LDFLAGS, for cross-compiling and for packages. UCX is not needed
# to build the tools, only to run them.
#
# The tools use the shared library, not the archive, so that ucxx_rs_info reports on the file that
# programs load, and ucxx_rs_perftest measures it. The run path is relative to the tool, so the tree
# can be moved.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

library='' includedir='' rpath='' out=''
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || die "$1: a value is missing"
  case $1 in
    --library) library=$2 ;;
    --includedir) includedir=$2 ;;
    --rpath) rpath=$2 ;;
    --out) out=$2 ;;
    *) die "unknown option $1" ;;
  esac
  shift 2
done
for value in "$library" "$includedir" "$out"; do
  [ -n "$value" ] || die "--library, --includedir and --out are needed"
done

read -ra compiler <<< "${CC:-cc}"
command -v "${compiler[0]}" >/dev/null || die "${compiler[0]} is not there; the tools need a C compiler (CC names another one)"
read -ra cppflags <<< "${CPPFLAGS:-}"
read -ra cflags <<< "${CFLAGS:--O2}"
read -ra ldflags <<< "${LDFLAGS:-}"

shared=(json oob stop perf_session)
perftest=(perftest perf_client perf_crew perf_histogram perf_hubs perf_load perf_messages perf_names perf_options perf_plot perf_remote
  perf_report perf_server perf_slot perf_tests perf_ways perf_windows)
info=(info info_attach info_environment info_explain info_facts info_lanes info_library info_print)

program() { # NAME SOURCE...
  local name=$1 sources=() source
  shift
  for source in "$@"; do sources+=("tools/$source.c"); done
  # Relative source names and the prefix map keep the path of this tree out of the program.
  # Unresolved symbols of the library are allowed, so that a cross build needs no UCX for its
  # target.
  "${compiler[@]}" -std=c11 -Wall -Wextra "-ffile-prefix-map=$root=." "${cppflags[@]}" "-I$includedir" "${cflags[@]}" "${sources[@]}" \
    -o "$out/$name" "${ldflags[@]}" "$library" ${rpath:+"-Wl,-rpath,$rpath"} -Wl,--unresolved-symbols=ignore-in-shared-libs -pthread -ldl
}

cd "$root"
program ucxx_rs_perftest "${perftest[@]}" "${shared[@]}"
program ucxx_rs_info "${info[@]}" "${shared[@]}"
