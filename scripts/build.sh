#!/usr/bin/env bash
# Builds the shared and the static library into the cargo target directory.
#
#   scripts/build.sh [OPTION of cargo ...] [-- OPTION of rustc ...]
#
# It uses cargo rustc with these two crate types. cargo build also makes an rlib, and then there is
# no link-time optimisation.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

command -v cargo >/dev/null || die "cargo is not there; a Rust toolchain of $rust_with_cuda or newer is needed (https://rustup.rs)"
cd "$root"

# Names of source files are in messages and debug information. They must not contain the folder of
# this build.
flags=()
rename() { # FOLDER NEW_NAME
  local folder
  for folder in "$1" "$(realpath -m "$1")"; do flags+=("--remap-path-prefix=$folder=$2"); done
}
rename "${CARGO_HOME:-${HOME:-}/.cargo}" cargo
rename "$root" ucxx_rs
# rustc uses these names for the sources of the standard library, if they are installed.
rename "$(rustc --print sysroot)/lib/rustlib/src/rust" "/rustc/$(rustc -vV | sed -n 's/^commit-hash: //p')"

# Flags in the environment replace configured flags, so these have to be added to the user's own.
if [ -z "${CARGO_ENCODED_RUSTFLAGS+set}" ] && [ -z "${RUSTFLAGS+set}" ]; then
  list=
  for flag in "${flags[@]}"; do
    flag=${flag//\\/\\\\}
    list+="\"${flag//\"/\\\"}\","
  done
  set -- --config "build.rustflags=[$list]" "$@"
else
  if [ -z "${CARGO_ENCODED_RUSTFLAGS+set}" ]; then
    read -ra own <<< "$RUSTFLAGS"
    flags=("${own[@]}" "${flags[@]}")
  else
    flags=(${CARGO_ENCODED_RUSTFLAGS:+"$CARGO_ENCODED_RUSTFLAGS"} "${flags[@]}")
  fi
  CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f'; printf '%s' "${flags[*]}")
  export CARGO_ENCODED_RUSTFLAGS
fi

# link_versioned.sh calls the user's linker.
triple=${CARGO_BUILD_TARGET:-$(rustc -vV | sed -n 's/^host: //p')}
linker=CARGO_TARGET_$(tr a-z- A-Z_ <<< "$triple")_LINKER
export UCXX_RS_LINKER=${!linker:-cc}

for_cargo=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  for_cargo+=("$1")
  shift
done
[ $# -eq 0 ] || shift
exec cargo rustc --release --locked --lib --crate-type cdylib --crate-type staticlib "${for_cargo[@]}" -- \
  -C linker="$root/scripts/link_versioned.sh" "$@"
