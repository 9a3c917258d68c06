#!/usr/bin/env bash
# Compiles C and C++ programs against what build.sh has installed, runs them, and compares the tree
# with that of `make install`.
#
#   packaging/cargo-c/try.sh OUT
#
# UCXX_RS_PREFIX: where `make install` has installed; without it, that is done here.
#
# There is nothing to remove: cargo-c has no command for that.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"
[ $# -eq 1 ] || die "usage: try.sh OUT"
out=$(cd "$1" && pwd)
theirs=$out/prefix ours=${UCXX_RS_PREFIX:-} work=$out/try
[ -d "$theirs" ] || die "$theirs is missing: build.sh has not run"
rm -rf "$work"
mkdir -p "$work"

say "--- programs"
export PKG_CONFIG_PATH=$theirs/lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
export LD_LIBRARY_PATH=$theirs/lib UCX_TLS=posix,cma,self
read -ra flags <<< "$(pkg-config --cflags --libs ucxx_rs)"
cc -o "$work/hello_tag" "$root/c_examples/hello_tag.c" "${flags[@]}"
c++ -std=c++17 -o "$work/ping_pong" "$root/c_examples/cpp/ping_pong.cpp" "${flags[@]}"
# With the archive.
read -ra flags <<< "$(pkg-config --cflags --libs --static ucxx_rs | sed 's/-lucxx_rs\>/-l:libucxx_rs.a/')"
cc -o "$work/hello_static" "$root/c_examples/hello_tag.c" "${flags[@]}"
! readelf -d "$work/hello_static" | grep ucxx_rs >/dev/null || die "hello_static uses the shared library"
for program in hello_tag ping_pong hello_static; do "$root/c_examples/run_pair.sh" "$work" "$program"; done

say "--- the same as make install"
if [ -z "$ours" ]; then
  ours=$work/make
  "$root/scripts/build.sh" --quiet
  "$root/scripts/install.sh" --prefix "$ours" > "$work/installed"
fi
same() { # WHAT COMMAND...: prints the same for both trees
  local what=$1
  shift
  diff <("$@" "$theirs") <("$@" "$ours") || die "$what differ: < cargo-c, > make install"
  [ -n "$("$@" "$ours")" ] || die "$what: nothing to compare"
  say "  ok: $what"
}
files() {
  # What cargo-c cannot install: it fills no templates for CMake and for a second pkg-config file,
  # and compiles no programs in C. Pages of documentation belong to those.
  (cd "$1" && find . ! -type d | grep -vE '^./(bin|share|lib/cmake)/|ucxx_rs-static[.]pc$' | sort)
}
contents() { (cd "$1" && find include -type f -exec sha256sum {} + | sort); }
symbols() { nm -D --defined-only "$1/lib/libucxx_rs.so" | awk '{ print $2, $3 }'; }
dynamic() {
  readelf -dW "$1/lib/libucxx_rs.so" | grep -E 'SONAME|NEEDED|FLAGS|RUNPATH|RPATH' |
    sed 's/^ *0x[0-9a-f]* //' | sort
}
# Not --static: cargo-c takes those options from rustc, and adds libucp and libc.
package() {
  local query
  for query in --modversion --cflags --libs --print-requires-private; do
    PKG_CONFIG_PATH=$1/lib/pkgconfig pkg-config "$query" ucxx_rs |
      sed "s|$1|PREFIX|g; s|PREFIX/lib/pkgconfig/../..|PREFIX|g"
  done
}
same "the lists of files" files
same "the headers" contents
same "the exported symbols and their version" symbols
same "SONAME, needed libraries and flags" dynamic
same "the answers of pkg-config" package
