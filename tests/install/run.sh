#!/usr/bin/env bash
# Tests the installed package. Both install routes give the same tree, the tree can be moved, and C
# and C++ programs build against it with CMake and pkg-config, shared and static, and run. Also:
# SONAME, flags and symbols; folders with unusual names, uninstalling, projects that contain this
# one, and package builds.
#
#   tests/install/run.sh        everything happens under target/install-test
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/use.sh"
work=$target_dir/install-test
# Paths that the library was never given.
not_in_files=("$work/by-" /opt/ucxx)
soversion=${version%.*}
rm -rf "$work"
mkdir -p "$work"
cd "$work"

list() { (cd "$1" && find . \( -type f -o -type l \) | sort); }

# --- without a network, from vendored sources: started here, as it takes longest, and checked below

# Not optimised: this is about the crates that cargo needs.
build_offline() {
  local net=(unshare -n)
  "${net[@]}" true 2>/dev/null || net=(unshare -rn)
  "${net[@]}" true 2>/dev/null || { say "no network namespaces here: only cargo is cut off from the network"; net=(); }
  mkdir "$work/cargo-home"
  cargo vendor --locked --manifest-path "$root/Cargo.toml" "$target_dir/vendor" >"$work/cargo-home/config.toml"
  "${net[@]}" env CARGO_NET_OFFLINE=true CARGO_HOME="$work/cargo-home" CARGO_TARGET_DIR="$work/offline" \
    CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
    "$root/scripts/build.sh" -- --print native-static-libs
}
build_offline >"$work/offline.log" 2>&1 &
offline=$!
# Leaves nothing running, even after a failure.
trap wait EXIT

# --- both routes, the same tree

make_route() { # destdir, prefix, further make variables
  quietly make -C "$root" install DESTDIR="$1" PREFIX="$2" "${@:3}"
}
cmake_route() { # build folder, destdir, prefix, further options
  quietly cmake -S "$root" -B "$1" -DCMAKE_INSTALL_PREFIX="$3" -DUCXX_RS_CARGO_TARGET_DIR="$target_dir" "${@:4}"
  quietly cmake --build "$1"
  DESTDIR=$2 quietly cmake --install "$1"
}
same_trees() { # what, tree, tree
  [ -n "$(list "$2")" ] || fail "$1: nothing was installed into $2"
  diff <(list "$2") <(list "$3") || fail "$1: make and CMake install different files"
  diff -r "$2" "$3" || fail "$1: make and CMake install different contents"
  ok "$1: make install and cmake --install give the same tree"
}

# DESTDIR is written into no file, so any name works. A relative one refers to the folder of the
# call.
odd=$'made by: it\'s "a|b", R&D; \\1 #(x)'
make_route "$work/$odd" /opt/ucxx
mv "$odd" by-make
cmake_route cmake-build by-cmake /opt/ucxx
same_trees "default folders" by-make by-cmake

make_route "$work/by-make-multiarch" /usr LIBDIR=lib/x86_64-linux-gnu INCLUDEDIR=include/ucxx_rs
cmake_route cmake-build-multiarch "$work/by-cmake-multiarch" /usr \
  -DCMAKE_INSTALL_LIBDIR=lib/x86_64-linux-gnu -DCMAKE_INSTALL_INCLUDEDIR=include/ucxx_rs
same_trees "multiarch folders" by-make-multiarch by-cmake-multiarch

cat > expected <<END
./bin/ucxx_rs_group
./bin/ucxx_rs_info
./bin/ucxx_rs_perfplot
./bin/ucxx_rs_perftest
$(cd "$root" && printf './%s\n' include/ucxx_rs.h include/ucxx_rs.hpp include/ucxx_rs/*.hpp && find ./share -type f)
./lib/cmake/ucxx_rs/ucxx_rs-config-version.cmake
./lib/cmake/ucxx_rs/ucxx_rs-config.cmake
./lib/cmake/ucxx_rs/ucxx_rs-targets.cmake
./lib/libucxx_rs.a
./lib/libucxx_rs.so
./lib/libucxx_rs.so.$soversion
./lib/libucxx_rs.so.$version
./lib/pkgconfig/ucxx_rs-static.pc
./lib/pkgconfig/ucxx_rs.pc
./share/bash-completion/completions/ucxx_rs_group
./share/bash-completion/completions/ucxx_rs_info
./share/bash-completion/completions/ucxx_rs_perfplot
./share/bash-completion/completions/ucxx_rs_perftest
./share/man/man1/ucxx_rs_group.1
./share/man/man1/ucxx_rs_info.1
./share/man/man1/ucxx_rs_perfplot.1
./share/man/man1/ucxx_rs_perftest.1
./share/man/man7/ucxx_rs.7
./share/ucxx_rs/wireshark/ucxx_rs.lua
END
diff <(LC_ALL=C sort expected) <(list by-make/opt/ucxx | grep -v '^./share/doc/ucxx_rs/' | LC_ALL=C sort) || fail "not the expected files"
doc=by-make/opt/ucxx/share/doc/ucxx_rs
[ -f "$doc/LICENSE" ] || fail "the licence is not installed"
diff <(cd "$root/c_examples" && ls -R) <(cd "$doc/c_examples" && ls -R) || fail "examples are left out"
[ "$(readlink by-make/opt/ucxx/lib/libucxx_rs.so.$soversion)" = "libucxx_rs.so.$version" ] || fail "libucxx_rs.so.$soversion links to another file"
ok "the installed files are the expected ones"

# Each relative link of the pages under a folder, as "page target".
links() {
  (cd "$1" && grep -roE --include='*.md' '\]\([^)#: ]+[)#]' . | sed -E 's/:\]\(/ /; s/[)#]$//')
}
dead_links() { # folder
  local page target
  while read -r page target; do
    [ -e "$1/$(dirname "$page")/$target" ] || printf '%s: %s\n' "$page" "$target"
  done < <(links "$1")
}
[ "$(links "$doc" | wc -l)" -gt 50 ] || fail "the installed pages have too few links"
dead=$(dead_links "$doc")
[ -z "$dead" ] || fail "installed pages have dead links: $dead"
ok "$(links "$doc" | wc -l) links of the installed pages lead to a file"

# Folders of the build, and of the sources of cargo and the toolchain.
built_at=("$root/" "$(realpath "${CARGO_HOME:-$HOME/.cargo}")/" "$(rustc --print sysroot)/")
for file in by-make/opt/ucxx/lib/libucxx_rs.{a,so} by-make/opt/ucxx/bin/*; do
  for place in "${built_at[@]}"; do
    ! grep -aqF "$place" "$file" || fail "$file contains the path of its build: $(grep -aoE "$place[[:print:]]*" "$file" | head -n 1)"
  done
done
grep -aq 'src/engine/core/worker' by-make/opt/ucxx/lib/libucxx_rs.so || fail "the library names no source file at all"
ok "no installed file contains the path of its build"

# --- a moved tree, used by pkg-config and CMake

# shellcheck disable=SC2016  # the loader expands it
beside='$ORIGIN/../lib'
use_tools "in place" "$work/by-make/opt/ucxx" lib "$beside"
mv by-make/opt/ucxx moved
use_tools "moved" "$work/moved" lib "$beside"
# Programs are built against trees with unusual names; the plain one serves the examples and the C
# tests. Below /usr the loader searches by itself, and distributions refuse a run path there.
unusual="moved & multiarch^@%~=+"
mv by-make-multiarch/usr "$unusual"
use_tree "$unusual" "$work/$unusual" lib/x86_64-linux-gnu
use_tools "$unusual" "$work/$unusual" lib/x86_64-linux-gnu ''

# --- folders outside the prefix, another compiler, no tools

outside="$work/out & side"
quietly "$root/scripts/install.sh" --prefix "$outside/R&D" --libdir "$outside/my libraries/lib" --includedir "my & headers" \
  --bindir "$outside/programs" --build "$target_dir/release"
grep -qF "[$outside/my libraries/lib]" <<< "$(readelf -d "$outside/programs/ucxx_rs_info")" || fail "no absolute run path to a library outside the prefix"
quietly "$outside/programs/ucxx_rs_info" --versions
use_tree outside "$outside/my libraries" lib
quietly "$root/scripts/install.sh" --prefix "$work/without" --tools no --build "$target_dir/release"
[ ! -e "$work/without/bin" ] && [ ! -e "$work/without/share/man/man1" ] && [ ! -e "$work/without/share/bash-completion" ] && [ ! -e "$work/without/share/ucxx_rs/wireshark" ] && [ -f "$work/without/lib/libucxx_rs.so.$version" ] || fail "--tools no"
if CC=no-such-compiler "$root/scripts/install.sh" --prefix "$work/uncompiled" --build "$target_dir/release" >"$work/log" 2>&1; then
  fail "CC was ignored"
fi
grep -q 'no-such-compiler is not there' "$work/log" || { cat "$work/log" >&2; fail "a missing compiler is not named"; }
[ ! -e "$work/uncompiled" ] || fail "something was installed before the missing compiler was noticed"
ok "folders outside the prefix, CC, --tools no"

# --- invalid installations are refused before anything is written

refused() { # part of the sentence, arguments of install.sh
  rm -rf "$work/refused"
  if "$root/scripts/install.sh" --build "$target_dir/release" "${@:2}" >"$work/log" 2>&1; then fail "should have been refused: ${*:2}"; fi
  grep -qF -e "$1" "$work/log" || { cat "$work/log" >&2; fail "the refusal does not contain '$1': ${*:2}"; }
  [ ! -e "$work/refused" ] || fail "something was written before the refusal: ${*:2}"
}
for character in '|' ',' "'" '"' '\' '$' '`' ';' ':' '#' '(' '*' '<' $'\n' $'\t'; do
  refused '--prefix: pkg-config' --prefix "$work/refused/a${character}b"
  refused '--libdir: pkg-config' --prefix "$work/refused" --libdir "l${character}b"
done
refused '--includedir: pkg-config' --prefix "$work/refused" --includedir 'inc|ude'
refused '--bindir: pkg-config' --prefix "$work/refused" --bindir 'b,n'
refused 'is missing; build first' --prefix "$work/refused" --build "$work"
: > a-file
refused 'a-file is no folder' --prefix "$work/refused" --includedir "$work/a-file/include"
ok "invalid folders are refused, and nothing is written"

# --- uninstalling

installed=$work/by-cmake/opt/ucxx
touch "$installed/lib/libother.so" "$installed/share/doc/ucxx_rs/mine"
quietly make -C "$root" uninstall DESTDIR="$work/by-cmake" PREFIX=/opt/ucxx
diff <(list "$installed") <(printf '%s\n' ./lib/libother.so ./share/doc/ucxx_rs/mine) || fail "make uninstall: these should be left, or removed"
[ ! -e "$installed/lib/cmake/ucxx_rs" ] && [ ! -e "$installed/share/doc/ucxx_rs/docs" ] && [ ! -e "$installed/share/ucxx_rs" ] || fail "make uninstall leaves folders of its own"
if make -C "$root" uninstall DESTDIR="$work/by-cmake" PREFIX=/opt/ucxx >"$work/log" 2>&1; then fail "make uninstall succeeds with nothing installed"; fi
grep -q 'is not installed in these folders' "$work/log" || { cat "$work/log" >&2; fail "make uninstall does not report that nothing is installed"; }
ok "make uninstall removes what make install wrote, and nothing else"

# --- version rules of find_package

asks_for() { # version
  quietly cmake -S "$here" -B version-check -DKIND=shared -DVERSION="$1" -DCMAKE_PREFIX_PATH="$work/moved"
}
refuses() {
  if cmake -S "$here" -B version-check -DKIND=shared -DVERSION="$1" -DCMAKE_PREFIX_PATH="$work/moved" >"$work/log" 2>&1; then
    fail "find_package(ucxx_rs $1) was satisfied by $version"
  fi
  grep -q "version: $version" "$work/log" || { cat "$work/log" >&2; fail "find_package(ucxx_rs $1) failed for another reason"; }
}
asks_for "$version"
asks_for "${version%%.*}"
refuses "$soversion.99"
refuses "${version%%.*}.99"
refuses 99
ok "find_package accepts MAJOR.MINOR, and refuses other versions"

# --- a project that contains this one has the targets of find_package

for how in subdirectory fetch; do
  quietly cmake -S "$here" -B "contained-$how" -DHOW=$how -DKIND=static -DUCXX_RS_CARGO_TARGET_DIR="$target_dir"
  quietly cmake --build "contained-$how"
  run_consumer "$how ucxx_rs::ucxx_rs" "contained-$how/consumer" shared ""
  run_consumer "$how ucxx_rs::static" "contained-$how/consumer_c" static ""
  before=$(stat -c %y "contained-$how/consumer")
  quietly cmake --build "contained-$how"
  [ "$before" = "$(stat -c %y "contained-$how/consumer")" ] || fail "$how: a second build links again"
done

# --- symbols and flags

shared=$work/moved/lib/libucxx_rs.so.$version
archive=$work/moved/lib/libucxx_rs.a
dynamic=$(readelf -d "$shared")
grep -q "SONAME.*\[libucxx_rs\.so\.$soversion\]" <<< "$dynamic" || fail "wrong SONAME"
grep -q 'FLAGS_1.*NODELETE' <<< "$dynamic" || fail "not linked with -z nodelete"
grep -q 'NEEDED.*libucp\.so\.0' <<< "$dynamic" || fail "does not need libucp.so.0"
if grep -qE 'RPATH|RUNPATH' <<< "$dynamic"; then fail "has a run path"; fi
ok "SONAME libucxx_rs.so.$soversion, NODELETE, libucp.so.0, no run path"

# GNU's linker also creates an absolute symbol for the version itself.
exports=$(nm -D --defined-only "$shared" | awk '$2 != "A" { sub(/@.*/, "", $NF); print $NF }' | sort)
globals=$(nm --defined-only --extern-only "$archive" | awk 'NF == 3 { print $3 }' | sort)
[ -n "$exports" ] || fail "the shared library exports nothing"
if grep -v '^ucxx_' <<< "$exports"; then fail "the shared library exports these"; fi
diff <(echo "$exports") <(echo "$globals") || fail "the archive and the shared library define different global symbols"
ok "$(wc -l <<< "$exports") symbols, all ucxx_*, the same in both libraries"

# --- the archive needs exactly the libraries that rustc names

wait "$offline" || { cat offline.log >&2; fail "no build from vendored sources without a network"; }
[ -f offline/release/libucxx_rs.so ] || fail "the build without a network produced no library"
ok "a build from vendored sources, without a network"
said=$(sed -n 's/^note: native-static-libs: //p' offline.log)
[ -n "$said" ] || fail "rustc names no native-static-libs"
read -ra wanted <<< "$said"
export PKG_CONFIG_PATH=$work/moved/lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
for asked in '--static ucxx_rs' ucxx_rs-static; do
  # shellcheck disable=SC2086  # an option and a name
  offered=$(pkg-config --libs $asked)
  for library in "${wanted[@]}"; do
    # Every program has the C library.
    [ "$library" = -lc ] || [[ " $offered " == *" $library "* ]] ||
      fail "rustc needs $library for the archive; pkg-config --libs $asked prints: $offered"
  done
done
ok "both pkg-config files name every library that rustc needs"

# --- two Rust runtimes in one program

quietly rustc --edition 2021 -O --crate-type staticlib -C panic=unwind "$here/other.rs" -o "$work/libother.a"
eval "static_libs=($(pkg-config --libs ucxx_rs-static))"
for order in first last; do
  case $order in
    first) libs=("${static_libs[@]}" "$work/libother.a") ;;
    last) libs=("$work/libother.a" "${static_libs[@]}") ;;
  esac
  quietly gcc -I "$work/moved/include" "$here/two_rust_libraries.c" -o two "${libs[@]}" -lgcc_s -lpthread -ldl -lm
  quietly ./two
done
ok "beside another Rust static library, in either order"

# --- what packages need: plain make builds, and no set-up installs anything during a package build

[ "$(make -sn -C "$root")" = scripts/build.sh ] || fail "plain make does something other than build"
asked=$(cargo metadata --no-deps --format-version 1 --manifest-path "$root/Cargo.toml" | python3 -c '
import json, sys
capi = json.load(sys.stdin)["packages"][0]["metadata"]["capi"]
for asset in capi["install"]["include"]["asset"]: print(asset["from"], "->", asset["to"])')
[ "$asked" = $'include/ucxx_rs.h* -> \ninclude/ucxx_rs/*.hpp -> ucxx_rs' ] || fail "cargo-c would install these headers: $asked"
# Fake package managers that only record their calls, and a machine without UCX, rustfmt and clippy.
mkdir stubs
for name in apt-get dnf rustup; do printf '#!/bin/sh\necho "$0 $*" >>"%s"\n' "$work/called" >"stubs/$name"; done
printf '#!/bin/sh\necho 0\n' >stubs/id
printf '#!/bin/sh\nexit 1\n' >stubs/pkg-config
printf '#!/bin/sh\ncase $1 in fmt | clippy) exit 1 ;; esac\nexec "%s" "$@"\n' "$(command -v cargo)" >stubs/cargo
chmod +x stubs/*
sets_up() { # level, environment
  rm -f called
  if env "${@:2}" PATH="$work/stubs:$PATH" "$root/scripts/setup.sh" "$1" >"$work/log" 2>&1; then fail "set-up reported nothing missing: $*"; fi
}
for level in demo test; do
  sets_up $level
  [ -s called ] || { cat "$work/log" >&2; fail "set-up for $level installs nothing, although it should"; }
  for variable in DH_INTERNAL_OPTIONS= DH_INTERNAL_BUILDFLAGS=1 RPM_BUILD_ROOT=/buildroot FAKEROOTKEY=1; do
    sets_up $level "$variable"
    [ ! -e called ] || fail "inside a package build ($variable) set-up called: $(cat called)"
    grep -q 'inside a package build nothing is installed' "$work/log" || { cat "$work/log" >&2; fail "$variable: set-up does not say that nothing is installed"; }
  done
done
ok "plain make builds; cargo-c installs the header; inside a package build nothing is installed"

say "install: $checked checks passed"
