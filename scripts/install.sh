#!/usr/bin/env bash
# Installs the result of scripts/build.sh, or removes it. `make install` and the CMake wrapper both
# call it, so both install the same files.
#
#   scripts/install.sh --prefix DIR [--destdir DIR] [--libdir DIR] [--includedir DIR] [--bindir DIR]
#                      [--tools yes|no] [--build DIR] [--uninstall yes|no]
#
# - --libdir, --includedir and --bindir are below the prefix unless absolute.
# - --tools no leaves out the tools, which are compiled here and need a C compiler, and leaves out
#   the dissector for Wireshark.
# - It prints the path of each installed or removed file, without destdir.
# - It builds and checks everything before it writes anything.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

prefix='' destdir='' libdir=lib includedir=include bindir=bin tools=yes build=$target_dir/release uninstall=no
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
    --uninstall) uninstall=$2 ;;
    *) die "unknown option $1" ;;
  esac
  shift 2
done
[ -n "$prefix" ] || die "--prefix is missing"
case $tools in yes | no) ;; *) die "--tools: '$tools' is neither yes nor no" ;; esac
case $uninstall in yes | no) ;; *) die "--uninstall: '$uninstall' is neither yes nor no" ;; esac

prefix=$(realpath -ms -- "$prefix")
# realpath would resolve relative names against the working directory.
case $libdir in /*) ;; *) libdir=$prefix/$libdir ;; esac
case $includedir in /*) ;; *) includedir=$prefix/$includedir ;; esac
case $bindir in /*) ;; *) bindir=$prefix/$bindir ;; esac
libdir=$(realpath -ms -- "$libdir") includedir=$(realpath -ms -- "$includedir") bindir=$(realpath -ms -- "$bindir")
if [ -n "$destdir" ]; then destdir=$(realpath -ms -- "$destdir"); fi
docdir=$prefix/share/doc/ucxx_rs
datadir=$prefix/share/ucxx_rs
mandir=$prefix/share/man
completionsdir=$prefix/share/bash-completion/completions
pkgconfigdir=$libdir/pkgconfig
cmakedir=$libdir/cmake/ucxx_rs

# These names are written into the pkg-config files, the CMake package and the tools. Builds pass
# them to make, the shell and the linker. DESTDIR is not written anywhere.
check_name() { # OPTION FOLDER
  local LC_ALL=C
  case $2 in
    *[!a-zA-Z0-9/._+=@%~^\&\ $'\x80'-$'\xff'-]*)
      die "$1: pkg-config, CMake or the linker would misread a character in '$2';" \
        "only letters, digits, spaces and /._+=@%~^&- are possible"
      ;;
  esac
}
check_name --prefix "$prefix"
check_name --libdir "$libdir"
check_name --includedir "$includedir"
check_name --bindir "$bindir"
[ "$destdir$(realpath -m -- "$prefix")" != "$root" ] || die "PREFIX is the source tree itself; choose another"

build=$(realpath -m -- "$build")
version=$(package_field version)
soversion=${version%.*}
shared=$build/libucxx_rs.so
archive=$build/libucxx_rs.a
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The plan: each file to install, by its name below DESTDIR.
paths=()
declare -A kinds sources
plan() { # MODE|link SOURCE FOLDER NAME
  paths+=("$3/$4")
  kinds[$3/$4]=$1 sources[$3/$4]=$2
}
plan 755 "$shared" "$libdir" "libucxx_rs.so.$version"
plan link "libucxx_rs.so.$version" "$libdir" "libucxx_rs.so.$soversion"
plan link "libucxx_rs.so.$soversion" "$libdir" libucxx_rs.so
plan 644 "$work/libucxx_rs.a" "$libdir" libucxx_rs.a
for file in "$root"/include/ucxx_rs.{h,hpp}; do plan 644 "$file" "$includedir" "$(basename "$file")"; done
for file in "$root"/include/ucxx_rs/*.hpp; do plan 644 "$file" "$includedir/ucxx_rs" "$(basename "$file")"; done
for name in ucxx_rs.pc ucxx_rs-static.pc; do plan 644 "$work/$name" "$pkgconfigdir" "$name"; done
for name in ucxx_rs-config.cmake ucxx_rs-config-version.cmake; do plan 644 "$work/$name" "$cmakedir" "$name"; done
plan 644 "$root/cmake/ucxx_rs-targets.cmake" "$cmakedir" ucxx_rs-targets.cmake
if [ "$tools" = yes ]; then
  for name in ucxx_rs_info ucxx_rs_perftest; do plan 755 "$work/$name" "$bindir" "$name"; done
  plan 755 "$root/scripts/group.sh" "$bindir" ucxx_rs_group
  plan 755 "$root/tools/perfplot.py" "$bindir" ucxx_rs_perfplot
  for name in ucxx_rs_info ucxx_rs_perftest ucxx_rs_perfplot ucxx_rs_group; do
    plan 644 "$work/$name.1" "$mandir/man1" "$name.1"
    plan 644 "$root/tools/completions/$name" "$completionsdir" "$name"
  done
  plan 644 "$root/tools/wireshark/ucxx_rs.lua" "$datadir/wireshark" ucxx_rs.lua
fi
while IFS= read -r file; do
  plan 644 "$root/share/ucxx_rs/$file" "$(dirname "$datadir/$file")" "$(basename "$file")"
done < <(cd "$root/share/ucxx_rs" && find . -type f -printf '%P\n' | LC_ALL=C sort)
plan 644 "$work/ucxx_rs.7" "$mandir/man7" ucxx_rs.7
pages=()
for file in "$root"/{README,CHANGELOG,c_examples/README}.md "$root"/docs/{,tutorial/}*.md; do
  pages+=("${file#"$root"/}")
  plan 644 "$work/${file#"$root"/}" "$(dirname "$docdir/${file#"$root"/}")" "$(basename "$file")"
done
for file in "$root"/LICENSE "$root"/docs/{pictures/*.svg,tutorial/*.c} "$root"/c_examples/*.{c,h,sh,txt,csv,supp} "$root"/c_examples/{cpp,event_loops}/*; do
  plan 644 "$file" "$(dirname "$docdir/${file#"$root"/}")" "$(basename "$file")"
done

if [ "$uninstall" = yes ]; then
  [ -e "$destdir$libdir/libucxx_rs.so.$version" ] ||
    die "$destdir$libdir/libucxx_rs.so.$version is not there: ucxx_rs $version is not installed in these folders"
  for path in "${paths[@]}"; do
    if [ -e "$destdir$path" ] || [ -L "$destdir$path" ]; then
      rm -- "$destdir$path"
      say "$path"
    fi
  done
  # Remove the folders that contain only this package.
  for folder in "$destdir$docdir" "$destdir$datadir" "$destdir$cmakedir" "$destdir$includedir/ucxx_rs"; do
    if [ -d "$folder" ]; then find "$folder" -depth -type d -empty -delete; fi
  done
  exit
fi

for file in "$shared" "$archive"; do
  [ -f "$file" ] || die "$file is missing; build first (make build)"
done
for path in "${paths[@]}"; do
  folder=$destdir${path%/*}
  until [ -e "$folder" ]; do folder=$(dirname "$folder"); done
  [ -d "$folder" ] && [ -w "$folder" ] || die "$destdir$path cannot be written: $folder is no folder, or not yours to write to"
done

# A Rust static library contains Rust's standard library with global symbols, so two such libraries
# in one program clash. Make it one object, in which only the exports of the shared library are
# global. --force-group-allocation removes the COMDAT groups. Otherwise the linker could drop a
# group in favour of the same group of another Rust archive, and local references to it would have
# no target.
#
# The exports are hidden: a library that contains the archive does not export them, and so does not
# use those of another one. A reference to a hidden symbol makes it hidden.
make_archive() {
  local exports
  # Read the symbols of the shared library, not of the archive: the archive may contain LLVM
  # bitcode, and nm passes that to an LLVM plugin that may be too old.
  mapfile -t exports < <(readelf --dyn-syms -W "$shared" | awk '$7 != "UND" && sub(/@.*/, "", $8) && $8 ~ /^ucxx_/ { print $8 }')
  [ "${#exports[@]}" -gt 0 ] || die "$shared exports no ucxx_ function with a version; scripts/build.sh makes one that does"
  {
    printf '.globl %s\n' "${exports[@]}"
    printf '.hidden %s\n' "${exports[@]}"
    say '.section .ucxx_rs_hidden'
    printf '.8byte %s\n' "${exports[@]}"
  } | "${AS:-as}" --noexecstack -o "$work/hidden.o" -
  "${LD:-ld}" -r --force-group-allocation -o "$work/all.o" "$work/hidden.o" "$archive"
  "${OBJCOPY:-objcopy}" --strip-debug --remove-section=.llvmbc --remove-section=.llvmcmd --remove-section=.ucxx_rs_hidden \
    "${exports[@]/#/--keep-global-symbol=}" "$work/all.o" "$work/ucxx_rs.o"
  "${AR:-ar}" rcsD "$work/libucxx_rs.a" "$work/ucxx_rs.o"
}

# The path of the prefix from a folder of the installed tree. It is relative if possible, so that
# the tree can be moved.
way_up() { # FOLDER NAME_OF_FOLDER
  case $1/ in
    "$prefix"/*) printf '%s/%s' "$2" "$(realpath -ms --relative-to="$1" "$prefix")" ;;
    *) printf '%s' "$prefix" ;;
  esac
}
below_prefix() { # FOLDER NAME_OF_PREFIX
  case $1/ in
    "$prefix"/*) printf '%s/%s' "$2" "$(realpath -ms --relative-to="$prefix" "$1")" ;;
    *) printf '%s' "$1" ;;
  esac
}

fill() { # TEMPLATE NAME_OF_ITS_FOLDER NAME_OF_PREFIX TARGET_FOLDER ESCAPE_OF_SPACES
  local text pair
  text=$(<"$1")
  for pair in "PREFIX=$(way_up "$4" "$2")" "LIBDIR=$(below_prefix "$libdir" "$3")" \
    "INCLUDEDIR=$(below_prefix "$includedir" "$3")"; do
    pair=${pair// /"$5 "}
    # In quotes, because bash replaces a bare & by the matched text.
    text=${text//"@${pair%%=*}@"/"${pair#*=}"}
  done
  text=${text//@VERSION@/$version}
  text=${text//@SOVERSION@/$soversion}
  text=${text//@DESCRIPTION@/"$(package_field description)"}
  printf '%s\n' "$text" > "$work/$(basename "$1" .in)"
}

# Copies a page, without links to files of this tree that are not installed. The text of the links
# stays.
make_page() { # NAME
  local folder target edits=() installed
  folder=$(dirname "$1")
  installed=$'\n'$(printf '%s\n' "${paths[@]}")$'\n'
  while read -r target; do
    case $installed in *$'\n'"$(realpath -ms -- "$docdir/$folder/$target")"[/$'\n']*) continue ;; esac
    if [ -e "$root/$folder/$target" ]; then edits+=(-e "s|\[([^]]*)\]\(${target//./\\.}(#[^)]*)?\)|\1|g"); fi
  done < <(grep -oE '\]\([^)#: ]+' "$root/$1" | sed 's/^](//' | sort -u)
  mkdir -p "$work/$folder"
  sed -E "${edits[@]}" -e '' "$root/$1" > "$work/$1"
}

make_tools() {
  local rpath=$libdir
  # If the loader searches the folder anyway, the tool needs no run path, and distributions refuse
  # one.
  if [[ $libdir =~ ^(/usr)?/lib(32|64|x32|/[^/]+-linux-[^/]+)?$ ]]; then
    rpath=''
  # Relative if both are below the prefix, so that the tree can be moved.
  elif [[ $bindir/ == "$prefix"/* && $libdir/ == "$prefix"/* ]]; then
    # shellcheck disable=SC2016  # the loader expands $ORIGIN
    rpath='$ORIGIN'/$(realpath -ms --relative-to="$bindir" "$libdir")
  fi
  "$root/scripts/build_tools.sh" --library "$shared" --includedir "$root/include" --rpath "$rpath" --out "$work"
}

make_archive
for name in ucxx_rs ucxx_rs-static; do
  # shellcheck disable=SC2016  # pkg-config and CMake expand these, not the shell
  fill "$root/pkgconfig/$name.pc.in" '${pcfiledir}' '${prefix}' "$pkgconfigdir" '\'
done
for name in ucxx_rs-config ucxx_rs-config-version; do
  # shellcheck disable=SC2016
  fill "$root/cmake/$name.cmake.in" '${_ucxx_rs_here}' '${_ucxx_rs_prefix}' "$cmakedir" ''
done
for page in "${pages[@]}"; do make_page "$page"; done
for page in "$root"/man/*.in; do
  sed "s/@VERSION@/$version/" "$page" > "$work/$(basename "$page" .in)"
done
if [ "$tools" = yes ]; then make_tools; fi

for path in "${paths[@]}"; do
  install -d "$destdir${path%/*}"
  # install -C keeps the time of an unchanged file, so that users' builds do not rebuild.
  case ${kinds[$path]} in
    link) ln -sfn "${sources[$path]}" "$destdir$path" ;;
    *) install -C -m "${kinds[$path]}" "${sources[$path]}" "$destdir$path" ;;
  esac
  say "$path"
done
