# Shared by the scripts in this folder. Sourced, never run.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
target_dir=${CARGO_TARGET_DIR:-$root/target}
case $target_dir in /*) ;; *) target_dir=$root/$target_dir ;; esac

# UCX releases that the tests run on besides the system's own. They come from the wheels of
# libucx-cu12.
ucx_wheels=(1.21.0 1.22.0)
newest=${ucx_wheels[-1]}

# The Rust version that cudarc needs. Without CUDA, rust-version of Cargo.toml is enough.
rust_with_cuda=1.88

say() { printf '%s\n' "$*"; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

# Locks a file beside FILE until the script ends: two steps of the tests may make FILE at once.
lock() { # FILE
  local descriptor
  mkdir -p "$(dirname "$1")"
  exec {descriptor}>"$1.lock"
  flock "$descriptor"
}

# Prints a field of the [package] table of Cargo.toml.
package_field() {
  sed -n "/^\[package\]/,/^\[/s/^$1 *= *\"\(.*\)\".*/\1/p" "$root/Cargo.toml" | head -n 1
}

# True if version $1 is at least $2.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# Runs the hostile calls (tests/hostile) on the newest UCX, which has no assertions that they would
# reach.
hostile_under() { # INSTRUMENT COMMAND...
  local status=0
  LD_LIBRARY_PATH=$("$root/scripts/ucx_wheel.sh" "$newest") UCX_TLS=posix,cma,self "${@:2}" || status=$?
  # The program's status for a known crash of UCX: see tests/hostile/README.md.
  if [ "$status" -eq 77 ]; then
    say "ended by UCX: hostile under $1 has shown nothing" | tee -a "${ended_by_ucx:-/dev/null}"
    status=0
  fi
  return "$status"
}

# Under valgrind, which finds invalid accesses and uses of uninitialised memory. AddressSanitizer
# finds leaks.
hostile_under_valgrind() { # PROGRAM CALLS
  hostile_under valgrind valgrind --quiet --error-exitcode=99 "--suppressions=$root/c_examples/valgrind.supp" "$@"
}
