#!/usr/bin/env bash
# What a user gets: both install routes give the same tree, the tree can be moved, and C and C++ programs build against the
# moved tree by CMake and by pkg-config, shared and static, and run. Then the binary side: SONAME, flags, symbols.
#
#   tests/install/run.sh        everything happens under target/install-test
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/../../scripts/lib.sh"
work=$target_dir/install-test
version=$(package_field version)
soversion=${version%.*}
rm -rf "$work"
mkdir -p "$work"
cd "$work"

fail() { printf 'install: %s\n' "$*" >&2; exit 1; }
checked=0
ok() { checked=$((checked + 1)); say "  ok: $*"; }
# Build output matters only when something goes wrong.
quietly() { "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "failed: $*"; }; }

list() { (cd "$1" && find . \( -type f -o -type l \) | sort); }

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

make_route "$work/by-make" /opt/ucxx
cmake_route cmake-build "$work/by-cmake" /opt/ucxx
same_trees "default folders" by-make by-cmake

make_route "$work/by-make-multiarch" /usr LIBDIR=lib/x86_64-linux-gnu INCLUDEDIR=include/ucxx_rs
cmake_route cmake-build-multiarch "$work/by-cmake-multiarch" /usr \
  -DCMAKE_INSTALL_LIBDIR=lib/x86_64-linux-gnu -DCMAKE_INSTALL_INCLUDEDIR=include/ucxx_rs
same_trees "multiarch folders" by-make-multiarch by-cmake-multiarch

cat > expected <<END
./bin/ucxx_rs_info
./bin/ucxx_rs_perftest
./include/ucxx_rs.h
./lib/cmake/ucxx_rs/ucxx_rs-config-version.cmake
./lib/cmake/ucxx_rs/ucxx_rs-config.cmake
./lib/libucxx_rs.a
./lib/libucxx_rs.so
./lib/libucxx_rs.so.$soversion
./lib/libucxx_rs.so.$version
./lib/pkgconfig/ucxx_rs.pc
END
diff <(LC_ALL=C sort expected) <(list by-make/opt/ucxx | grep -v '^./share/doc/ucxx_rs/' | LC_ALL=C sort) || fail "not the expected files"
[ -f by-make/opt/ucxx/share/doc/ucxx_rs/LICENSE ] || fail "the licence is not installed"
[ "$(readlink by-make/opt/ucxx/lib/libucxx_rs.so.$soversion)" = "libucxx_rs.so.$version" ] || fail "wrong link"
ok "the installed files are the expected ones"

# --- a moved tree, used by pkg-config and CMake

use_tree() { # name, prefix, libdir below it
  local name=$1 prefix=$2 libdir=$3 kind language
  # A path that the library was never told about.
  grep -rIl -e "$work/by-" -e /opt/ucxx "$prefix" && fail "$name: the place of the installation is written into these files"
  local pc=(env "PKG_CONFIG_PATH=$prefix/$libdir/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}" pkg-config)
  [ "$("${pc[@]}" --modversion ucxx_rs)" = "$version" ] || fail "$name: pkg-config does not give the version $version"

  local cflags shared_libs static_libs
  read -ra cflags <<< "$("${pc[@]}" --cflags ucxx_rs)"
  read -ra shared_libs <<< "$("${pc[@]}" --libs ucxx_rs)"
  # With both libraries in one folder the linker takes the shared one; the archive has to be named.
  read -ra static_libs <<< "$("${pc[@]}" --static --libs ucxx_rs | sed 's/-lucxx_rs/-l:libucxx_rs.a/')"

  local strict=(-Wall -Wextra -pedantic -Werror)
  mkdir -p "programs/$name"
  for kind in shared static; do
    local -n libs=${kind}_libs
    quietly gcc -std=c99 "${strict[@]}" "${cflags[@]}" "$here/consumer.c" -o "programs/$name/pc-$kind-c" "${libs[@]}"
    quietly g++ -std=c++11 "${strict[@]}" "${cflags[@]}" "$here/consumer.cpp" -o "programs/$name/pc-$kind-cpp" "${libs[@]}"
    quietly cmake -S "$here" -B "programs/$name/cmake-$kind" -DKIND=$kind -DVERSION="$soversion" -DCMAKE_PREFIX_PATH="$prefix"
    quietly cmake --build "programs/$name/cmake-$kind"
    for language in c cpp; do
      run_consumer "$name pkg-config $kind $language" "programs/$name/pc-$kind-$language" $kind "$prefix/$libdir"
      # No library path: CMake writes the place of an imported library into what it builds.
      run_consumer "$name CMake $kind $language" "programs/$name/cmake-$kind/consumer_$language" $kind ""
    done
  done
}
run_consumer() { # what, program, kind, library path
  local output needed
  needed=$(readelf -d "$2" | grep -c 'NEEDED.*libucxx_rs' || true)
  case $3 in
    shared) [ "$needed" -eq 1 ] || fail "$1: does not load libucxx_rs.so" ;;
    static) [ "$needed" -eq 0 ] || fail "$1: was to be static, but loads libucxx_rs.so" ;;
  esac
  output=$(LD_LIBRARY_PATH=$4${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$2" 2>&1) || fail "$1: $output"
  grep -q "^ucxx_rs $version on UCX" <<< "$output" || fail "$1: $output"
  ok "$1: $(head -n 1 <<< "$output")"
}

# The tools find the library of their own tree, without a library path.
use_tools() { # name, prefix, libdir below it
  local name=$1 prefix=$2 libdir=$3 dynamic output
  dynamic=$(readelf -d "$prefix/bin/ucxx_rs_info" "$prefix/bin/ucxx_rs_perftest")
  [ "$(grep -cF "[\$ORIGIN/../$libdir]" <<< "$dynamic")" -eq 2 ] || fail "$name: the tools do not look for the library in ../$libdir"
  output=$("$prefix/bin/ucxx_rs_info" --versions) || fail "$name: ucxx_rs_info: $output"
  grep -qF "ucxx_rs $version, $prefix/$libdir/libucxx_rs.so.$version" <<< "$output" || fail "$name: ucxx_rs_info found another library: $output"
  output=$("$prefix/bin/ucxx_rs_perftest" --self --verify --csv -n 100 -s 8,64k) || fail "$name: ucxx_rs_perftest: $output"
  [ "$(grep -c '^tag_lat,' <<< "$output")" -eq 2 ] || fail "$name: ucxx_rs_perftest: $output"
  ok "$name: the tools run, with the library of their tree"
}

use_tools "in place" "$work/by-make/opt/ucxx" lib
mv by-make/opt/ucxx moved
use_tree default "$work/moved" lib
use_tools "moved" "$work/moved" lib
mv by-make-multiarch/usr moved-multiarch
use_tree multiarch "$work/moved-multiarch" lib/x86_64-linux-gnu
use_tools "moved multiarch" "$work/moved-multiarch" lib/x86_64-linux-gnu

# --- folders outside the prefix, another compiler, no tools

outside=$work/outside
quietly "$root/scripts/install.sh" --prefix "$outside/prefix" --libdir "$outside/libraries" --bindir "$outside/programs" \
  --build "$target_dir/release"
grep -qF "[$outside/libraries]" <<< "$(readelf -d "$outside/programs/ucxx_rs_info")" || fail "no absolute run path to a library outside the prefix"
quietly "$outside/programs/ucxx_rs_info" --versions
quietly "$root/scripts/install.sh" --prefix "$work/without" --tools no --build "$target_dir/release"
[ ! -e "$work/without/bin" ] && [ -f "$work/without/lib/libucxx_rs.so.$version" ] || fail "--tools no"
if CC=no-such-compiler "$root/scripts/install.sh" --prefix "$work/uncompiled" --build "$target_dir/release" >"$work/log" 2>&1; then
  fail "CC was not heeded"
fi
grep -q 'no-such-compiler is not there' "$work/log" || { cat "$work/log" >&2; fail "a missing compiler is not named"; }
ok "folders outside the prefix, CC, --tools no"

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

# --- symbols and flags

shared=$work/moved/lib/libucxx_rs.so.$version
archive=$work/moved/lib/libucxx_rs.a
dynamic=$(readelf -d "$shared")
grep -q "SONAME.*\[libucxx_rs\.so\.$soversion\]" <<< "$dynamic" || fail "wrong SONAME"
grep -q 'FLAGS_1.*NODELETE' <<< "$dynamic" || fail "not linked with -z nodelete"
grep -q 'NEEDED.*libucp\.so\.0' <<< "$dynamic" || fail "does not name libucp.so.0"
if grep -qE 'RPATH|RUNPATH' <<< "$dynamic"; then fail "carries a run path"; fi
ok "SONAME libucxx_rs.so.$soversion, NODELETE, libucp.so.0, no run path"

exports=$(nm -D --defined-only "$shared" | awk '{ print $NF }' | sort)
globals=$(nm --defined-only --extern-only "$archive" | awk 'NF == 3 { print $3 }' | sort)
[ -n "$exports" ] || fail "the shared library exports nothing"
if grep -v '^ucxx_' <<< "$exports"; then fail "the shared library exports these"; fi
diff <(echo "$exports") <(echo "$globals") || fail "the archive and the shared library define different global symbols"
ok "$(wc -l <<< "$exports") symbols, all ucxx_*, the same in both libraries"

# --- the libraries that the archive needs are those that rustc names

said=$(cd "$root" && cargo rustc --locked --lib --crate-type staticlib -- --print native-static-libs 2>&1 |
  sed -n 's/^note: native-static-libs: //p')
[ -n "$said" ] || fail "rustc names no native-static-libs"
read -ra wanted <<< "$said"
offered=$(PKG_CONFIG_PATH=$work/moved/lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH} pkg-config --static --libs ucxx_rs)
for library in "${wanted[@]}"; do
  # The C library comes with every program.
  [ "$library" = -lc ] || [[ " $offered " == *" $library "* ]] ||
    fail "rustc wants $library for the archive; ucxx_rs.pc gives: $offered"
done
ok "ucxx_rs.pc names every library that rustc wants"

# --- two Rust runtimes in one program

quietly rustc --edition 2021 -O --crate-type staticlib -C panic=unwind "$here/other.rs" -o "$work/libother.a"
read -ra static_libs <<< "$(PKG_CONFIG_PATH=$work/moved/lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH} \
  pkg-config --static --libs ucxx_rs | sed 's/-lucxx_rs/-l:libucxx_rs.a/')"
for order in "${static_libs[*]} $work/libother.a" "$work/libother.a ${static_libs[*]}"; do
  read -ra libs <<< "$order"
  quietly gcc -I "$work/moved/include" "$here/two_rust_libraries.c" -o two "${libs[@]}" -lgcc_s -lpthread -ldl -lm
  quietly ./two
done
ok "beside another Rust static library, in either order"

say "install: $checked checks passed"
