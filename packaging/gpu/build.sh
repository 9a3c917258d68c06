#!/usr/bin/env bash
# Makes what a machine with a GPU runs that has a driver, glibc and bash, but no compiler, no UCX
# and no network: the library, its tests of GPU memory, its measurements, and UCX with its CUDA
# transports.
#
#   packaging/gpu/build.sh OUT
#
#   OUT/gpu-bundle           the folder, with run.sh
#   OUT/gpu-bundle.tar.xz    the same, packed
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/../../scripts/lib.sh"

[ $# -eq 1 ] || die "usage: build.sh OUT"
mkdir -p "$1"
out=$(realpath "$1")
bundle=$out/gpu-bundle
cc=$here/../binary/cc.sh
most=$((60 << 20))
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf "$bundle" "$bundle.tar.xz"
mkdir -p "$bundle"/{bin,lib,stand-in} "$bundle/ucx/lib/ucx"

# The library is that of the binary archive.
mkdir "$work/archive"
"$here/../binary/build.sh" "$work/archive" >&2
tar -xJf "$(find "$work/archive" -name '*.tar.xz' ! -name '*-debug*')" -C "$work"
prefix=$(find "$work" -mindepth 1 -maxdepth 1 -name 'ucxx_rs-*')
cp -P "$prefix"/lib/libucxx_rs.so* "$bundle/lib"
cp "$prefix"/bin/ucxx_rs_{info,perftest} "$bundle/bin"

# Of UCX what a program loads, and what that needs and no system has. The folders are those of the
# wheel, because its libraries look for each other there.
wheel=$("$root/scripts/ucx_wheel.sh" 1.22.0)
for name in libucp libucs libuct libucm ucx/libuct_cuda ucx/libucm_cuda ucx/libuct_cma; do
  strip --strip-unneeded -o "$bundle/ucx/lib/$name.so.0" "$wheel/$name.so.0"
  ln -s "$(basename "$name").so.0" "$bundle/ucx/lib/$name.so"
done
mkdir "$bundle/libucx_cu12.libs"
while read -r needed; do
  private=$wheel/../../libucx_cu12.libs/$needed
  if [ -e "$private" ]; then cp "$private" "$bundle/libucx_cu12.libs"; fi
done < <(readelf -d "$bundle"/ucx/lib/ucx/*.so.0 | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort -u)

raw=(-DLINK_RAW -I"$wheel/../include" -L"$bundle/ucx/lib" -lucp -lucs)
ours=(-DLINK_UCXX_RS -I"$prefix/include" -L"$bundle/lib" -lucxx_rs)
program() { # NAME FLAG-OR-SOURCE...
  "$cc" -O2 -g0 -std=gnu11 -pthread -D_GNU_SOURCE -Wall -Wextra "${@:2}" -ldl -s \
    -Wl,--allow-shlib-undefined -o "$bundle/bin/$1"
}
cd "$root"
program find_gpu tests/cuda/find_gpu.c
for name in cuda_hub cuda_faults cuda_frames cuda_stream cuda_memory cuda_killed; do
  program "$name" "tests/cuda/$name.c" tests/c/common/test_util.c "${ours[@]}"
done
program cuda_pipeline c_examples/cuda_pipeline.c "${ours[@]}"
for name in hub_cuda cuda_transfer; do
  program "$name" "benches/c/$name.c" benches/c/harness.c "${ours[@]}"
done
for name in pingpong stream am_pingpong am_stream fetch_window rma_window multi_pingpong byte_stream; do
  poll=()
  # The faster way to wait of plain UCP, as in benches/suite/build.py.
  case $name in *stream) poll=(-DLINK_RAW_POLL) ;; esac
  program "${name}_raw" "benches/c/$name.c" benches/c/harness.c -DLINK_DETECT "${poll[@]}" "${raw[@]}"
  program "${name}_ours" "benches/c/$name.c" benches/c/harness.c -DLINK_DETECT "${ours[@]}"
done
for name in delayed window_contention hub_overlap; do
  program "$name" "benches/c/$name.c" benches/c/harness.c "${ours[@]}"
done

# The Python package, and of cffi what its module needs, for the versions of Python that there are.
python=$("$root/scripts/venv.sh" --name gpu cffi==2.1.1)
CC=$cc "$python" python/build_folder.py "$bundle/python" "$prefix" "\$ORIGIN/../../lib"
rm "$bundle/python/ucxx_rs/_native.c"
strip --strip-unneeded "$bundle/python/ucxx_rs/_native.abi3.so"
mkdir "$bundle/python/cffi"
for version in 3.10 3.11 3.12 3.13 3.14; do
  "$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
    --implementation cp --python-version "$version" --platform manylinux_2_17_x86_64 \
    --platform manylinux2014_x86_64 --dest "$work/cffi-$version" cffi==2.1.1 >&2
  "$python" -m zipfile -e "$work/cffi-$version"/*.whl "$work/cffi-$version"
  cp "$work/cffi-$version"/_cffi_backend.*.so "$bundle/python/cffi"
done
cp -r "$work"/cffi-3.10/cffi-*.dist-info/licenses "$bundle/python/cffi"
cp "$here/python_gpu.py" "$bundle/python"
cp "$here/python.sh" "$bundle/bin"

program ../stand-in/libcuda.so.1 -shared -fPIC -fvisibility=hidden tests/cuda/double.c

cp "$here/run.sh" "$bundle"
cp LICENSE "$bundle"
cp -r "$wheel"/../../libucx_cu12-*.dist-info/licenses "$bundle/libucx_cu12.libs"
cat > "$bundle/README" <<END
ucxx_rs $(package_field version), for a machine with an NVIDIA GPU

./run.sh tests GPU memory and measures, in at most eight minutes. It needs the driver, bash and
coreutils. Send back the folder results. ./run.sh --help says more.
END

tar --sort=name --format=gnu --owner=0 --group=0 --numeric-owner -C "$out" -cf - gpu-bundle |
  xz --threads=0 -6 > "$bundle.tar.xz"
size=$(stat -c %s "$bundle.tar.xz")
[ "$size" -le "$most" ] || die "$bundle.tar.xz has $((size >> 20)) MiB, and at most $((most >> 20)) are allowed"
say "$bundle.tar.xz ($((size >> 20)) MiB)"
