# Shared by the scripts in this folder; sourced, never run.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
target_dir=${CARGO_TARGET_DIR:-$root/target}
case $target_dir in /*) ;; *) target_dir=$root/$target_dir ;; esac

# The UCX releases that the same binaries are run against, beside the system's own: the wheels of libucx-cu12.
ucx_wheels=(1.21.0 1.22.0)

say() { printf '%s\n' "$*"; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

# One field of the [package] table of Cargo.toml.
package_field() {
  sed -n "/^\[package\]/,/^\[/s/^$1 *= *\"\(.*\)\".*/\1/p" "$root/Cargo.toml" | head -n 1
}

# True when version $1 is at least $2.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }
