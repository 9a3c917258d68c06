#!/usr/bin/env bash
# Installs what scripts/build.sh made. The one installer: `make install` and the CMake wrapper both call it, so both
# give the same tree.
#
#   scripts/install.sh --prefix DIR [--destdir DIR] [--libdir DIR] [--includedir DIR] [--bindir DIR] [--tools yes|no] [--build DIR]
#
# libdir, includedir and bindir are taken relative to the prefix unless absolute. The tools are compiled here, against the library
# just installed; --tools no leaves them out where there is no C compiler. The paths of the installed files are printed, one a line,
# without destdir.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

prefix='' destdir='' libdir=lib includedir=include bindir=bin tools=yes build=$target_dir/release
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || die "$1: a value is missing"
  case $1 in
    --prefix) prefix=$2 ;;
    --destdir) destdir=$2 ;;
    --libdir) libdir=${2:-lib} ;;
    --includedir) includedir=${2:-include} ;;
    --bindir) bindir=${2:-bin} ;;
    --tools) tools=$2 ;;
    --build) build=$2 ;;
    *) die "unknown option $1" ;;
  esac
  shift 2
done
[ -n "$prefix" ] || die "--prefix is missing"
prefix=$(realpath -ms "$prefix")
# realpath would resolve them against the working directory.
case $libdir in /*) ;; *) libdir=$prefix/$libdir ;; esac
case $includedir in /*) ;; *) includedir=$prefix/$includedir ;; esac
case $bindir in /*) ;; *) bindir=$prefix/$bindir ;; esac
libdir=$(realpath -ms "$libdir") includedir=$(realpath -ms "$includedir") bindir=$(realpath -ms "$bindir")
case $tools in yes | no) ;; *) die "--tools: '$tools' is neither yes nor no" ;; esac
docdir=$prefix/share/doc/ucxx_rs
pkgconfigdir=$libdir/pkgconfig
cmakedir=$libdir/cmake/ucxx_rs

version=$(package_field version)
soversion=${version%.*}
shared=$build/libucxx_rs.so
archive=$build/libucxx_rs.a
for file in "$shared" "$archive" "$root/include/ucxx_rs.h"; do
  [ -f "$file" ] || die "$file is missing; build first (make build)"
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

put() { # mode, source, destination folder, name
  install -d "$destdir$3"
  install -m "$1" "$2" "$destdir$3/$4"
  say "$3/$4"
}

# A Rust static library brings the whole of Rust's standard library as global symbols, so that two of them in one program
# clash. One object with everything but ucxx_* made local does not. --force-group-allocation dissolves the COMDAT groups:
# a group kept by name would be dropped in favour of the same group of another Rust archive, and local references to it
# would then have no target.
make_archive() { # source, destination
  local roots
  # The archive itself is not asked with nm: where it holds LLVM bitcode, nm hands it to an LLVM plugin that may be too old.
  mapfile -t roots < <(readelf --dyn-syms -W "$shared" | awk '$7 != "UND" && $8 ~ /^ucxx_/ { print "--undefined=" $8 }')
  [ "${#roots[@]}" -gt 0 ] || die "$shared exports no ucxx_ function"
  "${LD:-ld}" -r --force-group-allocation "${roots[@]}" -o "$work/all.o" "$1"
  "${OBJCOPY:-objcopy}" --strip-debug --remove-section=.llvmbc --remove-section=.llvmcmd \
    --wildcard --keep-global-symbol='ucxx_*' "$work/all.o" "$work/ucxx_rs.o"
  "${AR:-ar}" rcsD "$2" "$work/ucxx_rs.o"
}

# How the prefix is reached from a folder of the installed tree: relative where it can be, so that the tree can be moved.
way_up() { # folder, how that folder is called there
  case $1/ in
    "$prefix"/*) printf '%s/%s' "$2" "$(realpath -ms --relative-to="$1" "$prefix")" ;;
    *) printf '%s' "$prefix" ;;
  esac
}
below_prefix() { # folder, how the prefix is called there
  case $1/ in
    "$prefix"/*) printf '%s/%s' "$2" "$(realpath -ms --relative-to="$prefix" "$1")" ;;
    *) printf '%s' "$1" ;;
  esac
}

fill() { # template, destination, how its own folder and the prefix are called there, folder it goes to
  sed -e "s|@PREFIX@|$(way_up "$5" "$3")|" \
      -e "s|@LIBDIR@|$(below_prefix "$libdir" "$4")|" \
      -e "s|@INCLUDEDIR@|$(below_prefix "$includedir" "$4")|" \
      -e "s|@VERSION@|$version|g" -e "s|@SOVERSION@|$soversion|g" \
      -e "s|@DESCRIPTION@|$(package_field description)|" "$1" > "$2"
}

[ "$destdir$(realpath -m "$prefix")" != "$root" ] || die "PREFIX is the source tree itself; choose another"
put 755 "$shared" "$libdir" "libucxx_rs.so.$version"
ln -sfn "libucxx_rs.so.$version" "$destdir$libdir/libucxx_rs.so.$soversion"
ln -sfn "libucxx_rs.so.$soversion" "$destdir$libdir/libucxx_rs.so"
say "$libdir/libucxx_rs.so.$soversion"
say "$libdir/libucxx_rs.so"
make_archive "$archive" "$work/libucxx_rs.a"
put 644 "$work/libucxx_rs.a" "$libdir" libucxx_rs.a
put 644 "$root/include/ucxx_rs.h" "$includedir" ucxx_rs.h

# shellcheck disable=SC2016  # pkg-config and CMake expand these, not the shell
fill "$root/pkgconfig/ucxx_rs.pc.in" "$work/ucxx_rs.pc" '${pcfiledir}' '${prefix}' "$pkgconfigdir"
put 644 "$work/ucxx_rs.pc" "$pkgconfigdir" ucxx_rs.pc
for name in ucxx_rs-config.cmake ucxx_rs-config-version.cmake; do
  # shellcheck disable=SC2016
  fill "$root/cmake/$name.in" "$work/$name" '${_ucxx_rs_here}' '${_ucxx_rs_prefix}' "$cmakedir"
  put 644 "$work/$name" "$cmakedir" "$name"
done

if [ "$tools" = yes ]; then
  rpath=$libdir
  # Relative as long as both lie below the prefix, so that the tree can be moved.
  case $bindir/ in
    "$prefix"/*)
      # shellcheck disable=SC2016  # the loader expands $ORIGIN
      case $libdir/ in "$prefix"/*) rpath='$ORIGIN'/$(realpath -ms --relative-to="$bindir" "$libdir") ;; esac
      ;;
  esac
  "$root/scripts/build_tools.sh" --library "$destdir$libdir/libucxx_rs.so" --includedir "$destdir$includedir" --rpath "$rpath" --out "$work"
  for tool in ucxx_rs_info ucxx_rs_perftest; do put 755 "$work/$tool" "$bindir" "$tool"; done
fi

for doc in LICENSE README.md CHANGELOG.md; do
  if [ -f "$root/$doc" ]; then put 644 "$root/$doc" "$docdir" "$doc"; fi
done
for doc in "$root"/docs/*.md; do put 644 "$doc" "$docdir/docs" "$(basename "$doc")"; done
for picture in "$root"/docs/pictures/*.svg; do put 644 "$picture" "$docdir/docs/pictures" "$(basename "$picture")"; done
for example in "$root"/c_examples/*.{c,cpp,h,sh,txt}; do put 644 "$example" "$docdir/c_examples" "$(basename "$example")"; done
