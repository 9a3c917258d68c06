#!/usr/bin/env bash
# Installs the RPM packages into an empty root, uses them from there, and removes them.
#
#   packaging/rpm/try.sh OUT
#
# The root has only these packages, so rpm's dependencies are not asked for (--nodeps), and programs
# take UCX and the C library from this machine. The installed tree can be moved, so the root needs
# no chroot.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"
[ $# -eq 1 ] || die "usage: try.sh OUT"
out=$(cd "$1" && pwd)
mapfile -t packages < <(compgen -G "$out/*.$(uname -m).rpm")
[ "${#packages[@]}" -gt 0 ] || die "$out has no package: build.sh has not run"
[ "$(id -u)" -eq 0 ] || { say "rpm --root needs root"; exit 77; }

empty=$out/root work=$out/try
rm -rf "$empty" "$work"
mkdir -p "$empty" "$work"
in_root() { rpm --root "$empty" "$@"; }
# Other folders belong to the distribution.
left() { find "$empty" \( ! -type d -o -name '*ucxx_rs*' \) ! -path "$empty$(rpm --eval '%{_dbpath}')/*"; }

say "--- install"
in_root --initdb
in_root --install --nodeps "${packages[@]}"
in_root --query --all | sort
in_root --verify --all --nodeps
usr=$empty/usr
doc=$usr/share/doc/ucxx_rs

# rpm writes no cache of the loader into the root.
export LD_LIBRARY_PATH=$usr/lib64 UCX_TLS=posix,cma,self
export PKG_CONFIG_PATH=$usr/lib64/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}

say "--- CMake: the examples of the documentation"
# CMAKE_PREFIX_PATH would do where CMake searches lib64, which Debian's does not.
cmake -S "$doc/c_examples" -B "$work/cmake" -Ducxx_rs_DIR="$usr/lib64/cmake/ucxx_rs"
cmake --build "$work/cmake" --target hello_tag cpp_ping_pong
bash "$doc/c_examples/run_pair.sh" "$work/cmake" hello_tag
bash "$doc/c_examples/run_pair.sh" "$work/cmake/cpp" ping_pong
ldd "$work/cmake/hello_tag" | grep -F "$usr/lib64/libucxx_rs.so.$(package_field version | cut -d. -f1,2)"

say "--- pkg-config: shared and static"
for module in ucxx_rs ucxx_rs-static; do
  read -ra flags <<< "$(pkg-config --cflags --libs "$module")"
  cc -o "$work/$module" "$doc/c_examples/hello_tag.c" "${flags[@]}"
  bash "$doc/c_examples/run_pair.sh" "$work" "$module"
done

say "--- tools"
"$usr/bin/ucxx_rs_info" --versions
"$usr/bin/ucxx_rs_perftest" --self -s 8 -n 1000 -t tag_lat
"$usr/bin/ucxx_rs_group" 2 "$usr/bin/ucxx_rs_info" --versions > /dev/null

say "--- Python"
site=$(compgen -G "$usr/lib64/python3*/site-packages")
python=$("$root/scripts/venv.sh" --name rpm cffi==2.1.1)
cat > "$work/hello.py" <<'END'
import asyncio
import ucxx_rs

async def main():
    async with ucxx_rs.Worker() as one, ucxx_rs.Worker() as other:
        buffer = bytearray(5)
        receive = other.recv(buffer, tag=1)
        await one.connect(other.address).send(b"hello", tag=1)
        await receive
        print(buffer.decode(), "through", ucxx_rs.__file__)

asyncio.run(main())
END
# -B: it writes nothing into the root.
py() { PYTHONPATH=$site UCXX_RS_UCX=system "$python" -B "$@"; }
py "$work/hello.py"
py -m ucxx_rs --version
py -m ucxx_rs --info --versions
for folder in include-dir lib-dir pkgconfig-dir cmake-dir; do ls "$(py -m ucxx_rs "--$folder")" > /dev/null; done

say "--- remove"
mapfile -t names < <(in_root --query --all)
in_root --erase --nodeps "${names[@]}"
[ -z "$(left)" ] || { left; die "these are left after rpm --erase"; }

say "--- compared with the Debian packages"
debs=${UCXX_RS_DEBS:-$target_dir/packages/deb}
if compgen -G "$debs/*.deb" > /dev/null; then
  "$python" "$root/packaging/compare.py" "$out" "$debs"
else
  say "there are none in $debs"
fi
