#!/usr/bin/env bash
# Installs what is missing on this machine.
#
#   scripts/setup.sh [demo|wheel|test|full|docs|packages|bindings]
#
#   demo  what the library and the C examples need (the default)
#   wheel also what the wheel of the Python package needs
#   test  also what the fast tests need
#   full  also what `make check-full` and `make bench` need
#   docs  only what `make docs` needs
#   packages  what `make packages` needs: wheel, and the tools of the distributions
#   bindings  what `make bindings` needs: wheel, and the languages that the system has
#
# As root on Debian, Ubuntu or Fedora it uses the package manager. Otherwise it prints the command
# to run, and stops. It also does that inside the build of a package (dh, rpmbuild, fakeroot).
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

level=${1:-demo}
levels="demo wheel test full docs packages bindings"
[[ " $levels " == *" $level "* ]] || die "unknown level '$level': one of $levels"

missing_deb=()
missing_rpm=()
need() { # DEBIAN_PACKAGES FEDORA_PACKAGES TEST...: the test succeeds if they are installed
  local deb=$1 rpm=$2
  shift 2
  if ! "$@" >/dev/null 2>&1; then
    # An entry may name several packages, so split it into words.
    # shellcheck disable=SC2206
    missing_deb+=($deb) missing_rpm+=($rpm)
  fi
}

have() { command -v "$1"; }
have_ucx() { pkg-config --exists 'ucx >= 1.13'; }
have_compiler() { # COMPILER LANGUAGE: also checks that it has its C library
  printf '#include <stdlib.h>\nint main(void) { return 0; }\n' | "$1" -x "$2" - -o /dev/null
}
have_sanitizer() { printf 'int main(void) { return 0; }\n' | gcc -x c -fsanitize=address - -o /dev/null; }
have_venv() { python3 -c 'import venv, ensurepip'; }
have_python_headers() { test -f "$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["include"])')/Python.h"; }
have_launcher() { # WORD_IN_VERSION PROGRAM...
  local program
  for program in "${@:2}"; do
    if command -v "$program" && grep -q "$1" <<< "$("$program" --version 2>&1)"; then return 0; fi
  done
  return 1
}
have_mpi_compiler() { # COMPILER...: checks that one of them has its headers
  local program
  for program in "$@"; do
    if printf '#include <mpi.h>\n' | "$program" -x c -fsyntax-only -; then return 0; fi
  done
  return 1
}
have_jna() { test -f /usr/share/java/jna.jar || test -f /usr/lib/java/jna.jar; }
have_mono() { command -v mcs && command -v mono; }
have_header() { printf '#include <%s>\n' "$1" | g++ -std=c++17 -fsyntax-only -x c++ -; }
have_libclang() {
  local found
  # Not libclang-cpp.so, which is another library.
  found=$( { PATH=$PATH:/usr/sbin:/sbin ldconfig -p 2>/dev/null; compgen -G '/usr/lib*/llvm*/lib*/libclang*.so*'; } |
    grep -E 'libclang(-[0-9][^/ ]*)?[.]so' || true)
  [ -n "$found" ] || [ -n "${LIBCLANG_PATH:-}" ]
}

have_boost() { have_header boost/version.hpp; }
# The newest Boost whose Asio is new enough, where there is no Boost yet: two of them exclude each
# other. Where there is none, or an old one, tests of Boost.Asio are left out.
boost_deb=libboost-dev
if command -v apt-cache >/dev/null; then
  boost_deb=$(apt-cache pkgnames libboost1. 2>/dev/null | grep -E '^libboost1[.](7[89]|[89][0-9])-dev$' | sort -V | tail -n 1 || true)
fi

# What the packages of other systems are made and checked with. Fedora has no Debian tools; there
# only the RPM is built.
find_missing_of_packages() {
  need xz-utils xz have xz
  need gdb gdb have gdb
  need git git have git
  need rpm rpm-build have rpmbuild
  # rpmbuild calls these: for debug information, and for the dependencies of Python packages.
  need elfutils elfutils have eu-strip
  need python3-packaging python3-packaging /usr/bin/python3 -c 'import packaging'
  need rpmlint rpmlint have rpmlint
  need abigail-tools libabigail have abidiff
  need qemu-user qemu-user have qemu-aarch64
  need 'gcc-aarch64-linux-gnu g++-aarch64-linux-gnu' gcc-aarch64-linux-gnu have aarch64-linux-gnu-gcc
  if command -v dpkg >/dev/null; then
    need dpkg-dev '' have dpkg-buildpackage
    need debhelper '' have dh
    need dh-python '' have dh_python3
    need lintian '' have lintian
    need devscripts '' have hardening-check
    need debootstrap '' have debootstrap
    need nix-bin '' have nix-build
    need ruby '' have ruby
    need rubocop '' have rubocop
    # Debian's own Python, which may be another one than the first in PATH.
    need 'python3-cffi python3-dev libpython3-dev' '' dpkg-checkbuilddeps "$root/debian/control"
  fi
}

# The languages of bindings/ that are packages. Zig is a package of Python, and JavaScript's koffi
# one of npm: their runs get them. A version that is too old is not replaced: the run names it.
find_missing_of_bindings() {
  need gfortran gcc-gfortran have gfortran
  need golang-go golang have go
  need default-jdk-headless java-latest-openjdk-devel have javac
  need libjna-java jna have_jna
  need 'nodejs npm' 'nodejs nodejs-npm' have npm
  need luajit luajit have luajit
  need 'mono-mcs mono-runtime' 'mono-core mono-devel' have_mono
  # For Rust, by bindgen.
  need libclang-dev clang-devel have_libclang
}

find_missing() {
  missing_deb=() missing_rpm=()
  if [ "$level" = docs ]; then
    need python3 python3 have python3
    need python3-venv python3 have_venv
    need doxygen doxygen have doxygen
    return
  fi
  need 'gcc libc6-dev' 'gcc glibc-devel' have_compiler gcc c
  need g++ gcc-c++ have_compiler g++ c++
  need binutils binutils have objcopy
  need make make have make
  need cmake cmake have cmake
  need pkg-config pkgconf-pkg-config have pkg-config
  need libucx-dev ucx-devel have_ucx
  [ "$level" != demo ] || return 0
  need python3 python3 have python3
  need python3-venv python3 have_venv
  need python3-dev python3-devel have_python_headers
  [ "$level" != wheel ] || return 0
  if [ "$level" = packages ]; then
    find_missing_of_packages
    return
  fi
  if [ "$level" = bindings ]; then
    find_missing_of_bindings
    return
  fi
  need libc6-dev libasan have_sanitizer
  need valgrind valgrind have valgrind
  need libclang-dev clang-devel have_libclang
  need clang clang have_compiler clang++ c++
  need strace strace have strace
  need gdb gdb have gdb
  need clang clang have clang++
  need libasio-dev asio-devel have_header asio.hpp
  need "$boost_deb" boost-devel have_boost
  need libuv1-dev libuv-devel have_header uv.h
  need libevent-dev libevent-devel have_header event2/event.h
  need ucx-utils ucx have ucx_perftest
  [ "$level" = full ] || return 0
  need doxygen doxygen have doxygen
  # For the dissector.
  need tshark wireshark-cli have tshark
  # Launchers for groups. PMIx comes with Open MPI's. On Fedora they are in folders that only
  # `module load` adds to the path.
  need openmpi-bin openmpi have_launcher 'Open MPI' mpirun.openmpi /usr/lib64/openmpi/bin/mpirun mpirun
  need mpich mpich have_launcher HYDRA mpiexec.mpich /usr/lib64/mpich/bin/mpiexec mpiexec
  need 'slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge' 'slurm-slurmctld slurm-slurmd slurm munge' have srun
  # The MPIs that windows are compared with.
  need libopenmpi-dev openmpi-devel have_mpi_compiler mpicc.openmpi /usr/lib64/openmpi/bin/mpicc
  need libmpich-dev mpich-devel have_mpi_compiler mpicc.mpich /usr/lib64/mpich/bin/mpicc
}

# debhelper's variables have various names. Which of them are set depends on what debian/rules
# overrides.
in_package_build() { [ -n "${!DH_INTERNAL_*}${RPM_BUILD_ROOT:-}${FAKEROOTKEY:-}" ]; }
add_component() { # NAME
  command -v rustup >/dev/null || die "$1 is missing: install it beside your Rust toolchain"
  ! in_package_build || die "$1 is missing, and inside a package build nothing is installed"
  rustup component add "$1"
}

# The toolchain is not installed as a package: distributions have one that is too old, or none.
check_rust() {
  local oldest have_version
  oldest=$rust_with_cuda
  command -v cargo >/dev/null && command -v rustc >/dev/null ||
    die "cargo and rustc are missing: install a Rust toolchain of $oldest or newer, for example from https://rustup.rs"
  have_version=$(rustc --version | awk '{ print $2 }')
  at_least "${have_version%%-*}" "$oldest" ||
    die "rustc $have_version is too old: $oldest or newer is needed (rustup update stable)"
  case $level in demo | wheel | packages | bindings) return 0 ;; esac
  cargo fmt --version >/dev/null 2>&1 || add_component rustfmt
  cargo clippy --version >/dev/null 2>&1 || add_component clippy
  # For ThreadSanitizer, which needs the standard library built with it. Without rustup that test is
  # left out.
  if command -v rustup >/dev/null && ! in_package_build && [ ! -f "$(rustc --print sysroot)/lib/rustlib/src/rust/library/Cargo.lock" ]; then
    add_component rust-src
  fi
}

install_missing() {
  if command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    # If the image has no package lists, or old ones, update them once.
    apt-get install -y --no-install-recommends "${missing_deb[@]}" </dev/null 2>/dev/null && return 0
    apt-get update </dev/null
    apt-get install -y --no-install-recommends "${missing_deb[@]}" </dev/null
  else
    dnf install -y "${missing_rpm[@]}" </dev/null
  fi
}

[ "$level" = docs ] || check_rust
find_missing
if [ "${#missing_deb[@]}" -eq 0 ]; then
  say "setup: everything for '$level' is there"
  exit 0
fi

if command -v apt-get >/dev/null; then
  command="apt-get update && apt-get install -y --no-install-recommends ${missing_deb[*]}"
elif command -v dnf >/dev/null; then
  command="dnf install -y ${missing_rpm[*]}"
else
  say "Missing on this machine (Debian's names): ${missing_deb[*]}" >&2
  say "With conda: conda install -c conda-forge ucx pkg-config cmake compilers" >&2
  exit 1
fi
if in_package_build; then
  say "Something is missing, and inside a package build nothing is installed. These belong to the build's dependencies:" >&2
  say "" >&2
  if command -v apt-get >/dev/null; then say "    ${missing_deb[*]}" >&2; else say "    ${missing_rpm[*]}" >&2; fi
  exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
  say "Something is missing. Run this, and then the same make command again:" >&2
  say "" >&2
  say "    sudo sh -c '$command'" >&2
  exit 1
fi
say "setup: installing ${missing_deb[*]}"
install_missing

find_missing
if [ "${#missing_deb[@]}" -ne 0 ]; then
  if ! have_ucx; then
    die "UCX 1.13 or newer was not found after the installation; this system's own is $(pkg-config --modversion ucx 2>/dev/null || echo absent)"
  fi
  die "still missing after the installation: ${missing_deb[*]}"
fi
