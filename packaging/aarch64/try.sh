#!/usr/bin/env bash
# Runs what build.sh has made under qemu: the tools and C tests, over TCP and over shared memory.
# What it cannot show is the order of memory accesses, which is that of this machine.
#
#   packaging/aarch64/try.sh OUT
#
# UCXX_TEST_JOBS: tests at a time. Of the tests in C, those run that end soon. Many others need more
# than qemu has: it is slow where threads poll, it allocates memory itself, and it ignores
# MADV_WIPEONFORK.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/../../scripts/lib.sh"
cd "$root"

out=$(realpath -m -- "${1:?OUT is missing}")
tools=aarch64-linux-gnu
[ -d "$out/stage" ] || { say "packaging/aarch64/build.sh has built nothing"; exit 77; }
command -v qemu-aarch64 >/dev/null || { say "there is no qemu-aarch64"; exit 77; }
export QEMU_LD_PREFIX=$out/root
# A library of this machine is none of that one.
unset LD_LIBRARY_PATH
# qemu 7.2 gives each thread its own start time in /proc/self/stat. By that time UCX's keepalive
# takes the process for another one with the same number.
export UCX_KEEPALIVE_INTERVAL=inf

for transports in tcp,self posix,self; do
  say "=== the tools, over $transports"
  UCX_TLS=$transports qemu-aarch64 "$out/stage/bin/ucxx_rs_info" --versions
  UCX_TLS=$transports qemu-aarch64 "$out/stage/bin/ucxx_rs_perftest" --self --verify --csv -n 100 -s 8,64k
done

# The kernel starts no program of another machine. So each gets a script of its name beside it, as
# tests start their programs a second time.
wrap() { # FOLDER
  local program machine
  while read -r program; do
    machine=$(LC_ALL=C readelf -h "$program" 2>/dev/null | sed -n 's/^ *Machine: *//p')
    [ "$machine" = AArch64 ] || continue
    mv "$program" "$program.aarch64"
    # shellcheck disable=SC2016  # the script expands these
    printf '#!/bin/sh\nexec qemu-aarch64 -0 "$0" "$0.aarch64" "$@"\n' > "$program"
    chmod +x "$program"
  done < <(find "$1" -type f -perm /u+x ! -name '*.so*' ! -name '*.aarch64' ! -path '*/CMakeFiles/*')
}

tests() { # NAME SOURCES ARGUMENT_OF_CTEST...
  local build=$out/$1 name=$1
  rm -rf "$build"
  # The linker finds no libraries of UCX's own libraries here; the loader does.
  cmake -S "$2" -B "$build" -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_C_COMPILER=$tools-gcc \
    -DCMAKE_CXX_COMPILER=$tools-g++ -DCMAKE_FIND_ROOT_PATH="$out/root" -DCMAKE_FIND_ROOT_PATH_MODE_PROGRAM=NEVER \
    -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY -DCMAKE_PREFIX_PATH="$out/stage" \
    -DCMAKE_EXE_LINKER_FLAGS=-Wl,--unresolved-symbols=ignore-in-shared-libs >/dev/null
  cmake --build "$build" --parallel "$(nproc)" >/dev/null
  wrap "$build"
  say "=== $name"
  ctest --test-dir "$build" --no-tests=error --output-on-failure -j "${UCXX_TEST_JOBS:-$(nproc)}" --timeout 600 "${@:3}" </dev/null ||
    failed=1
}

names='(worker|worker_to_itself|address|notifier|requests|cancel_all|callbacks|tag_iov|endpoint_unused|half_connected|thread_cancelled)'
failed=0
tests tests tests/c -R "^$names\\.(tcp|shm)\$"
exit "$failed"
