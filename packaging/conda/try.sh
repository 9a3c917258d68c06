#!/usr/bin/env bash
# Installs the packages of build.sh, with its stand-ins, into an empty environment, builds examples
# there by pkg-config and by CMake, runs two processes of C and a worker in Python, and removes all.
#
#   packaging/conda/try.sh OUT
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=$(cd "$1" && pwd)
[ -d "$out/channel" ] || { echo "build.sh has made no packages"; exit 1; }
python=$("$root/scripts/venv.sh" --name rattler py-rattler==0.28.0)
work=$out/try
rm -rf "$work"
mkdir -p "$work"
prefix=$work/env
export RATTLER_CACHE_DIR=$work/cache
sync() { "$python" "$root/packaging/conda/sync.py" "file://$out/channel" "$prefix" "$@"; }

sync libucxx-rs ucxx-rs
export UCX_TLS=posix,cma,self
[ ! -e "$prefix/lib/libucxx_rs.a" ]
"$prefix/bin/ucxx_rs_info" --versions

# shellcheck disable=SC2046
cc -o "$work/hello" "$root/c_examples/hello_tag.c" "-Wl,-rpath,$prefix/lib" \
  $(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --cflags --libs ucxx_rs)
(cd "$work" && { ./hello 0 hello.socket & ./hello 1 hello.socket && wait $!; })
cmake -S "$root/tests/install" -B "$work/consumer" -DKIND=shared -DCMAKE_PREFIX_PATH="$prefix"
cmake --build "$work/consumer"
"$work/consumer/consumer"
"$work/consumer/consumer_cpp"

"$prefix/bin/python" - <<END
import asyncio
import ucxx_rs

async def main():
    async with ucxx_rs.Worker() as worker:
        endpoint = worker.connect(worker.address)
        buffer = bytearray(5)
        receive = worker.recv(buffer, tag=1)
        await endpoint.send(b"hello", tag=1)
        await receive
        assert buffer == b"hello"
        print("Python: hello")

assert ucxx_rs.__file__.startswith("$prefix/"), ucxx_rs.__file__
asyncio.run(main())
END
"$prefix/bin/python" -m ucxx_rs --info --versions

sync
left=$(find "$prefix" -iname '*ucxx*' -print)
[ -z "$left" ] || { echo "left after the removal: $left"; exit 1; }
echo "conda: installed, used and removed"
