#!/usr/bin/env bash
# Compiles the command line tools; called by scripts/install.sh.
#
#   scripts/build_tools.sh --library FILE --includedir DIR --rpath PATH --out DIR
#
# An empty --rpath gives them no run path.
#
# CC, CPPFLAGS, CFLAGS and LDFLAGS are heeded, for cross-compiling as for packages; nothing of UCX
# is needed but what the library loads when a tool runs.
#
# The tools are linked to the shared library, not to the archive: what ucxx_rs_info reports on and
# ucxx_rs_perftest measures is then the very file that programs load. A run path relative to the
# tool lets it find the library beside it, wherever the tree stands.
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

shared=(oob stop perf_session)
perftest=(perftest perf_histogram perf_load perf_names perf_options perf_report perf_slot perf_tests)
info=(info info_environment info_explain info_facts info_lanes info_library)

program() { # name, sources...
  local name=$1 sources=() source
  shift
  for source in "$@"; do sources+=("tools/$source.c"); done
  # Relative source names and the prefix map keep this tree's place out of the program. What the
  # library itself needs is looked for when the program runs, so that no UCX has to be there for the
  # target of a cross build.
  "${compiler[@]}" -std=c11 -Wall -Wextra "-ffile-prefix-map=$root=." "${cppflags[@]}" "-I$includedir" "${cflags[@]}" "${sources[@]}" \
    -o "$out/$name" "${ldflags[@]}" "$library" ${rpath:+"-Wl,-rpath,$rpath"} -Wl,--unresolved-symbols=ignore-in-shared-libs -pthread -ldl
}

cd "$root"
program ucxx_rs_perftest "${perftest[@]}" "${shared[@]}"
program ucxx_rs_info "${info[@]}" "${shared[@]}"
