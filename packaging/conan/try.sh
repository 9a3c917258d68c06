#!/usr/bin/env bash
# Uses the packages of build.sh from an empty Conan cache: installs each, builds an example against
# it by CMake, runs its two processes, and removes it.
#
#   packaging/conan/try.sh OUT
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=$(cd "$1" && pwd)
saved=$(compgen -G "$out/ucxx_rs-*-conan.tgz") || { echo "build.sh has made no package"; exit 1; }
reference=ucxx_rs/$(basename "${saved%-conan.tgz}" | cut -d - -f 2)

python=$("$root/scripts/venv.sh" --name conan conan==2.34.0)
conan=$(dirname "$python")/conan
work=$out/try
rm -rf "$work"
mkdir -p "$work/app"
export CONAN_HOME=$work/home
"$conan" profile detect
"$conan" remote disable '*'
"$conan" cache restore "$saved"

cat > "$work/app/conanfile.txt" <<END
[requires]
$reference
[generators]
CMakeDeps
CMakeToolchain
PkgConfigDeps
VirtualRunEnv
END
cat > "$work/app/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.16)
project(app LANGUAGES C CXX)
find_package(ucxx_rs REQUIRED CONFIG)
add_executable(hello "$root/c_examples/hello_tag.c")
target_link_libraries(hello PRIVATE ucxx_rs::\${KIND})
add_executable(consumer "$root/tests/install/consumer.cpp")
target_link_libraries(consumer PRIVATE ucxx_rs::ucxx_rs)
END

for kind in shared static; do
  echo "--- $kind"
  build=$work/$kind
  shared=$([ "$kind" = shared ] && echo True || echo False)
  tools=()
  if [ "$kind" = shared ]; then tools=(-o "ucxx_rs/*:tools=True"); fi
  "$conan" install "$work/app" --build=never --output-folder="$build" -o "ucxx_rs/*:shared=$shared" "${tools[@]}"
  cmake -S "$work/app" -B "$build" -DKIND=$kind -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_TOOLCHAIN_FILE="$build/conan_toolchain.cmake"
  cmake --build "$build"
  ( # The environment of the user's programs is in that file. It reads variables that may be unset.
    set +u
    source "$build/conanrun.sh"
    set -u
    export UCX_TLS=posix,cma,self
    cd "$build"
    ./consumer
    ./hello 0 hello.socket &
    ./hello 1 hello.socket
    wait $!
    if [ "$kind" = shared ]; then ucxx_rs_info --versions; fi
  )
  # Conan's file for pkg-config works as well.
  # shellcheck disable=SC2046
  cc -o "$build/by_pkg_config" "$root/tests/install/consumer.c" \
    $(PKG_CONFIG_PATH=$build pkg-config --cflags --libs "$([ "$kind" = shared ] && echo ucxx_rs || echo ucxx_rs-static)")
  (set +u && source "$build/conanrun.sh" && "$build/by_pkg_config")
done

"$conan" remove --confirm "$reference"
# Conan itself leaves empty folders.
left=$(find "$CONAN_HOME/p" -path '*ucxx*' ! -type d -print)
[ -z "$left" ] || { echo "left after conan remove: $left"; exit 1; }
echo "conan: $reference, shared and static, installed, used and removed"
