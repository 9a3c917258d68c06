#!/usr/bin/env bash
# Makes the binary archive: what `make install` installs, and its debug information apart.
#
#   packaging/binary/build.sh OUT
#
#   ucxx_rs-VERSION-MACHINE-linux-gnu.tar.xz
#   ucxx_rs-VERSION-MACHINE-linux-gnu-debug.tar.xz   unpacked over the first one, gdb finds it
#
# Everything is linked against an old glibc, so that the archive runs on old systems. The old glibc
# is the list of its symbols that comes with zig; the library is linked by the system's own linker.
# The same sources and tools give the same bytes.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/../../scripts/lib.sh"

[ $# -eq 1 ] || die "usage: build.sh OUT"
out=$(realpath "$1")
cc=$here/cc.sh
glibc=$("$cc" --glibc)
machine=$(uname -m)
name=ucxx_rs-$(package_field version)-$machine-linux-gnu
build=$target_dir/packages/binary-build
time=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct HEAD 2>/dev/null || stat -c %Y "$root/Cargo.lock")}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# zig makes the empty libraries with the symbols of that glibc when it links the first program. It
# compiles some files of its own for that, whose debug information has zig's folder. The same
# options later on use the same files.
cflags='-O2 -g -fdebug-compilation-dir=.'
export ZIG_GLOBAL_CACHE_DIR=$work/zig ZIG_LOCAL_CACHE_DIR=$work/zig
# shellcheck disable=SC2086  # several options
printf 'int main(void) { return 0; }\n' | "$cc" $cflags -x c - -o "$work/first" -lpthread
find "$work/zig" -name '*.o' -exec objcopy --strip-debug {} \;
# objcopy refuses archives whose members have folders in their names.
archive=$(find "$work/zig" -name libc_nonshared.a)
mkdir "$work/nonshared"
while read -r member; do
  ar pP "$archive" "$member" > "$work/nonshared/${member##*/}"
  objcopy --strip-debug "$work/nonshared/${member##*/}"
done < <(ar t "$archive")
rm "$archive"
ar rcsD "$archive" "$work/nonshared"/*
libc=$build/glibc-$glibc
rm -rf "$libc"
mkdir -p "$libc"
find "$work/zig" \( -name 'lib*.so.*' -o -name libc_nonshared.a \) -exec cp {} "$libc" \;
for library in "$libc"/lib*.so.*; do ln -s "$(basename "$library")" "${library%.so.*}.so"; done
rm "$libc/libc.so"
printf 'GROUP ( libc.so.6 libc_nonshared.a AS_NEEDED ( libld.so.2 ) )\n' > "$libc/libc.so"

# A folder of its own: cargo does not notice that only the libraries of a link have changed.
CARGO_TARGET_DIR=$build "$root/scripts/build.sh" -- -L native="$libc" -C link-arg=-Wl,--build-id=sha1
CC=$cc CFLAGS=$cflags LDFLAGS=-Wl,--build-id=sha1 "$root/scripts/install.sh" --prefix "$work/$name" --build "$build/release" >/dev/null

programs() { find "$work/$name" -type f \( -path '*/bin/*' -o -name 'lib*.so.*' \) -exec sh -c 'readelf -h "$1" >/dev/null 2>&1' _ {} \; -print; }
# gdb looks for FILE's debug information in .debug/FILE.debug beside it.
mkdir "$work/debug"
while read -r file; do
  debug=$work/debug/${file#"$work/"}
  debug=${debug%/*}/.debug/${file##*/}.debug
  mkdir -p "${debug%/*}"
  objcopy --only-keep-debug "$file" "$debug"
  chmod 644 "$debug"
  objcopy --strip-unneeded --add-gnu-debuglink="$debug" "$file"
done < <(programs)

needed=$(programs | xargs -d '\n' readelf -VW | grep -oE 'GLIBC_[0-9.]+' | sort -Vu | tail -n 1)
cat > "$work/$name/README" <<END
ucxx_rs $(package_field version), built for Linux on $machine

glibc: ${needed#GLIBC_} or newer
UCX: 1.13 or newer, from your system; it is not in this archive

The folder can be moved. Programs find it by CMAKE_PREFIX_PATH, or by PKG_CONFIG_PATH with the
folder lib/pkgconfig. bin/ucxx_rs_info --versions prints which UCX is used.
The archive $name-debug has the debug information. Unpack it into
the same place, and gdb finds it.
share/doc/ucxx_rs has the documentation and the licence.
END

pack() { # ARCHIVE FOLDER
  tar --sort=name --format=gnu --mtime="@$time" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
    -C "$2" -cf - "$name" | xz --threads=1 -6 > "$out/$1.tar.xz"
  say "$out/$1.tar.xz"
}
pack "$name" "$work"
pack "$name-debug" "$work/debug"
