#!/usr/bin/env bash
# Uses the installed packages as a user would. try.sh runs it in the new Debian, in which it and
# CMakeLists.txt are in one folder.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
examples=/usr/share/doc/libucxx-rs-dev/c_examples
export UCX_TLS=posix,self

echo "--- CMake"
cmake -S . -B build -DEXAMPLES=$examples >/dev/null
cmake --build build

echo "--- pkg-config"
for kind in shared static; do
  module=ucxx_rs
  [ $kind = shared ] || module=ucxx_rs-static
  # shellcheck disable=SC2046
  cc $examples/hello_tag.c -o build/hello_pkgconfig_$kind $(pkg-config --cflags --libs $module)
done

for way in cmake pkgconfig; do
  for kind in shared static; do
    program=hello_${way}_$kind
    echo "--- $program: two processes"
    uses=no
    # Not grep -q: it would end before ldd, which then fails.
    if ldd build/$program | grep 'libucxx_rs[.]so' >/dev/null; then uses=yes; fi
    case $kind-$uses in
      shared-yes | static-no) ;;
      *)
        echo "$program: is it linked $kind?"
        exit 1
        ;;
    esac
    bash $examples/run_pair.sh build $program
  done
done

echo "--- tools"
ucxx_rs_info --versions
ucxx_rs_perftest --self -n 1000 -t tag_lat
ucxx_rs_group 2 ucxx_rs_info --versions >/dev/null

echo "--- Python"
/usr/bin/python3 -m ucxx_rs --ucx
/usr/bin/python3 -m ucxx_rs --version
/usr/bin/python3 -m ucxx_rs --info --versions >/dev/null
if [ ! -d /sys/class/net ]; then
  echo "left out: the server and the client of docs/python.md, as there is no /sys"
  exit 0
fi
echo "--- Python: the server and the client of docs/python.md, over TCP"
port=$(/usr/bin/python3 -c 'import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])')
for number in 1 2; do
  awk -v number=$number '/^```python/ { at++; next }
    /^```/ { if (at == number) exit; next }
    at == number' /usr/share/doc/libucxx-rs-dev/docs/python.md | sed "s/7000/$port/" > $number.py
done
export UCX_TLS=tcp,self
timeout 60 /usr/bin/python3 1.py &
server=$!
# It takes a moment until the server listens.
until last=$(timeout 60 /usr/bin/python3 2.py 2>client.log); do
  kill -0 $server || { cat client.log; exit 1; }
  sleep 0.2
done
test "$last" = 999999.0
wait $server
