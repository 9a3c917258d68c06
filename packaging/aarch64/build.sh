#!/usr/bin/env bash
# Cross-builds the library and the tools for aarch64, and installs them into OUT/stage. UCX and the
# C library are Debian's, unpacked into OUT/root, so the machine itself stays as it is. Rust's
# standard library is built from its sources, as in scripts/tsan.sh: a toolchain has only its own.
#
#   packaging/aarch64/build.sh OUT
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"
cd "$root"

out=$(realpath -m -- "${1:?OUT is missing}")
triple=aarch64-unknown-linux-gnu
tools=aarch64-linux-gnu
not_here() { say "$*"; exit 77; }
command -v "$tools-gcc" >/dev/null || not_here "there is no $tools-gcc"
command -v apt-get >/dev/null || not_here "there is no apt-get, which brings a UCX for aarch64"
[ -f "$(rustc --print sysroot)/lib/rustlib/src/rust/library/Cargo.lock" ] ||
  not_here "the sources of Rust's standard library are missing: rustup component add rust-src"

# apt with its own state, for a machine of the other kind on which nothing is installed yet.
if [ ! -f "$out/root/complete" ]; then
  rm -rf "$out/root" "$out/apt"
  mkdir -p "$out/root" "$out/apt/lists/partial" "$out/apt/archives/partial"
  : > "$out/apt/status"
  apt=(apt-get -q -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o "Dir::State::status=$out/apt/status"
    -o "Dir::State::Lists=$out/apt/lists" -o "Dir::Cache::archives=$out/apt/archives" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=
    -o Debug::NoLocking=1 -o APT::Sandbox::User=)
  "${apt[@]}" update
  "${apt[@]}" install --yes --download-only --no-install-recommends libucx-dev libstdc++6 ||
    not_here "this system's packages have no UCX for arm64"
  for package in "$out"/apt/archives/*.deb; do dpkg -x "$package" "$out/root"; done
  rm -rf "$out/apt"
  touch "$out/root/complete"
fi

export CARGO_BUILD_TARGET=$triple CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$tools-gcc
export PKG_CONFIG_ALLOW_CROSS=1 PKG_CONFIG_SYSROOT_DIR=$out/root PKG_CONFIG_PATH=
export PKG_CONFIG_LIBDIR=$out/root/usr/lib/$tools/pkgconfig
RUSTC_BOOTSTRAP=1 scripts/build.sh --target-dir "$out/build" -Zbuild-std=std,panic_unwind
rm -rf "$out/stage"
CC=$tools-gcc LD=$tools-ld AS=$tools-as OBJCOPY=$tools-objcopy AR=$tools-ar \
  scripts/install.sh --prefix "$out/stage" --build "$out/build/$triple/release" >/dev/null
