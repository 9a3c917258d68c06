#!/usr/bin/env bash
# Runs what needs an NVIDIA GPU: the tests of CUDA memory and the example on the real driver, a line
# for each, and then measurements. Without a GPU it prints that, and succeeds. It needs no CUDA
# toolkit, CMake or network.
#
#   scripts/gpu_check.sh [--ucx LIBDIR] [--prefix DIR] [--stand-in FOLDER]
#
#   --ucx        the folder of a UCX with CUDA support, for example libucx/lib of an unpacked
#                libucx-cu12 wheel (scripts/ucx_wheel.sh 1.22.0, with a network). Without it there
#                are no transfers between processes in GPU memory.
#   --prefix     an installed library, instead of one that is built here
#   --stand-in   the folder of the tests' libcuda.so.1 (double.c), to test this script itself; then
#                the measurements have no meaning
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

ucx='' prefix='' stand_in=''
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || die "$1: a value is missing"
  case $1 in
    --ucx) ucx=$(realpath -m "$2") ;;
    --prefix) prefix=$(realpath -m "$2") ;;
    --stand-in) stand_in=$(realpath -m "$2") ;;
    *) die "unknown option $1" ;;
  esac
  shift 2
done
[ -z "$ucx" ] || [ -e "$ucx/libucp.so.0" ] || die "--ucx: there is no libucp.so.0 in $ucx"
[ -z "$stand_in" ] || [ -e "$stand_in/libcuda.so.1" ] || die "--stand-in: there is no libcuda.so.1 in $stand_in"
command -v "${CC:-cc}" >/dev/null || die "a C compiler is needed"
cd "$root"

libraries=${LD_LIBRARY_PATH:-}
[ -z "$ucx" ] || libraries=$ucx${libraries:+:$libraries}
if [ -n "$stand_in" ]; then
  libraries=$stand_in${libraries:+:$libraries}
  # UCX's CUDA modules need more of a driver than the stand-in has.
  export UCX_MODULES=^cuda
fi

out=$target_dir/gpu-check
rm -rf "$out"
mkdir -p "$out"
flags=(-O2 -g -std=gnu11 -pthread -D_GNU_SOURCE -Wall -Wextra)

# Without a GPU nothing else is built.
"${CC:-cc}" "${flags[@]}" -x c - -o "$out/find_gpu" -ldl <<'CODE'
#include <dlfcn.h>
#include <stdio.h>
static void *library;
static int call(const char *name, void *arg) {
  void *found = dlsym(library, name);
  return found == NULL ? -1 : arg == NULL ? ((int (*)(unsigned))found)(0) : ((int (*)(void *))found)(arg);
}
int main(void) {
  int devices = 0, version = 0;
  library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == NULL || call("cuInit", NULL) != 0 || call("cuDeviceGetCount", &devices) != 0 || devices == 0) return 1;
  call("cuDriverGetVersion", &version);
  if (dlsym(library, "double_count") != NULL)
    printf("the stand-in for the driver\n");
  else
    printf("%d CUDA devices, driver %d.%d\n", devices, version / 1000, version % 1000 / 10);
  return 0;
}
CODE
found=$(LD_LIBRARY_PATH=$libraries "$out/find_gpu") || { say "gpu_check: there is no GPU with a CUDA driver here: nothing was checked"; exit 0; }
[ "$found" != "the stand-in for the driver" ] || [ -n "$stand_in" ] || die "the CUDA driver that is found is the tests' stand-in; --stand-in asks for that"
say "gpu_check: $found"

if [ -z "$prefix" ]; then
  prefix=$out/stage
  if ! pkg-config --exists ucx 2>/dev/null && [ -n "$ucx" ]; then
    export PKG_CONFIG_PATH=$ucx/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH} RUSTFLAGS="${RUSTFLAGS:-} -L native=$ucx"
  fi
  scripts/build.sh
  scripts/install.sh --prefix "$prefix" --tools no >/dev/null
fi
libdir=$prefix/lib
[ -e "$libdir/libucxx_rs.so" ] || die "--prefix: there is no lib/libucxx_rs.so in $prefix"

build() { # NAME SOURCE-OR-FLAG...
  "${CC:-cc}" "${flags[@]}" -I"$prefix/include" "${@:2}" -o "$out/$1" -L"$libdir" -lucxx_rs -ldl "-Wl,-rpath,$libdir" -Wl,--allow-shlib-undefined
}

failures=0
check() { # NAME SOURCE...; status 77 is a skip, and the program prints the reason
  local name=$1 code=0 began=$SECONDS
  if ! build "$@" >"$out/$name.log" 2>&1; then
    say "failed   $name: it cannot be built, see $out/$name.log"
    failures=$((failures + 1))
    return
  fi
  LD_LIBRARY_PATH=$libraries timeout 600 "$out/$name" >"$out/$name.log" 2>&1 </dev/null || code=$?
  case $code in
    0) say "passed   $name ($((SECONDS - began)) s)$(sed -n "s/^$name: /: /p" "$out/$name.log" | tail -n 1)" ;;
    77) say "skipped  $name: $(grep -m 1 SKIPPED "$out/$name.log" || echo 'no reason given')" ;;
    *)
      say "failed   $name: status $code, see $out/$name.log, whose end is:"
      tail -n 5 "$out/$name.log" | sed 's/^/         /'
      failures=$((failures + 1))
      ;;
  esac
}

check cuda_hub tests/cuda/cuda_hub.c tests/c/common/test_util.c
check cuda_frames tests/cuda/cuda_frames.c tests/c/common/test_util.c
check cuda_faults tests/cuda/cuda_faults.c tests/c/common/test_util.c
check cuda_pipeline c_examples/cuda_pipeline.c

figures() { # NAME OPTION...
  local name=$1 code=0
  say ""
  say "$*"
  LD_LIBRARY_PATH=$libraries timeout 600 "$out/$name" "${@:2}" >"$out/$name.log" 2>&1 </dev/null || code=$?
  if [ "$code" -ne 0 ]; then
    say "failed   $name: status $code: $(tail -n 1 "$out/$name.log")"
    failures=$((failures + 1))
  elif grep -q '^memory=host$' "$out/$name.log"; then
    if [ -n "$ucx" ]; then say "skipped  the UCX in $ucx does not reach CUDA memory here"; else say "skipped  the UCX that is found does not reach CUDA memory; --ucx names one that does"; fi
    return 1
  else
    awk -F= '/_per_second=/ && !/_(min|max)=/ { printf "  %-38s %8.2f GB/s\n", $1, $2 / 1e9; next }
             /_(min|max)=/ { next }
             /^(hub_|memory=|ucx=|transports=)/ { printf "  %-38s %s\n", $1, $2 }' "$out/$name.log"
  fi
}

build hub_cuda benches/c/hub_cuda.c benches/c/harness.c
build cuda_transfer -DLINK_UCXX_RS benches/c/cuda_transfer.c benches/c/harness.c
for size in 1048576 16777216; do figures hub_cuda --size "$size"; done
for size in 65536 1048576 16777216; do figures cuda_transfer --size "$size" || break; done

[ "$failures" -eq 0 ] || { say ""; say "gpu_check: $failures failed"; exit 1; }
