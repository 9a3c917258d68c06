# Shared by the scripts in this folder; sourced, never run.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
target_dir=${CARGO_TARGET_DIR:-$root/target}
case $target_dir in /*) ;; *) target_dir=$root/$target_dir ;; esac

# The UCX releases that the same binaries are run against, beside the system's own: the wheels of
# libucx-cu12.
ucx_wheels=(1.21.0 1.22.0)

# What cudarc needs. Without it rust-version of Cargo.toml will do.
rust_with_cuda=1.88

say() { printf '%s\n' "$*"; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

# One field of the [package] table of Cargo.toml.
package_field() {
  sed -n "/^\[package\]/,/^\[/s/^$1 *= *\"\(.*\)\".*/\1/p" "$root/Cargo.toml" | head -n 1
}

# True when version $1 is at least $2.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# The hostile calls on a UCX without assertions that end them, the newest.
hostile_under() { # who looks, command...
  local status=0
  LD_LIBRARY_PATH=$("$root/scripts/ucx_wheel.sh" "${ucx_wheels[-1]}") UCX_TLS=posix,cma,self "${@:2}" || status=$?
  # Its word for a crash of UCX's own that is known: see tests/hostile/README.md.
  if [ "$status" -eq 77 ]; then
    say "ended by UCX: hostile under $1 has shown nothing" | tee -a "${ended_by_ucx:-/dev/null}"
    status=0
  fi
  return "$status"
}

# So many of them: an access outside of what is allocated, or a decision by what nobody has set.
# Leaks are for AddressSanitizer.
hostile_under_valgrind() { # program, calls
  hostile_under valgrind valgrind --quiet --error-exitcode=99 "--suppressions=$root/c_examples/valgrind.supp" "$@"
}
