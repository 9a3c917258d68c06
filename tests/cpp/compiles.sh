#!/usr/bin/env bash
# ucxx_rs.hpp compiles without a warning: with g++, and with clang++ where there is one, as C++17,
# C++20 and C++23, included twice, without exceptions and RTTI, and beside UCXX's headers. Each file
# of it compiles alone. What must not compile does not.
#
#   tests/cpp/compiles.sh HEADER_DIR [UCXX_HEADER_DIR]
set -euo pipefail

include=$1
ucxx=${2:-}
here=$(dirname "${BASH_SOURCE[0]}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
warnings=(-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror)
cores=$(nproc)
started=0

check() { # what, compiler and its options..., source on stdin. It compiles beside the others
  local what=$1 source=$work/source$started.cpp
  shift
  cat > "$source"
  # `wait -n` returns when one has ended.
  [ "$started" -lt "$cores" ] || wait -n
  started=$((started + 1))
  { "$@" "${warnings[@]}" -I "$include" -fsyntax-only "$source" 2>&1 || printf 'compiles: %s: %s\n' "$what" "$*"; } > "$source.said" &
}

compilers=(g++)
if command -v clang++ >/dev/null; then compilers+=(clang++); else echo "compiles: no clang++ here"; fi
for compiler in "${compilers[@]}"; do
  # Templates are checked only where they are used.
  for standard in c++17 c++20 c++2b; do
    check "used, as $standard" "$compiler" "-std=$standard" < <(printf '#include <ucxx_rs.hpp>\n'; cat "$here/uses.cpp")
  done
  check "names" "$compiler" -std=c++20 < "$here/names.cpp"
  for standard in c++17 c++20; do
    check "without exceptions, as $standard" "$compiler" "-std=$standard" -fno-exceptions -fno-rtti < "$here/uses.cpp"
  done
done
for part in "$include"/ucxx_rs/*.hpp; do
  name=$(basename "$part")
  # It needs Asio, which its users have.
  [ "$name" != asio.hpp ] || continue
  standard=c++17
  [ "$name" != coroutine.hpp ] || standard=c++20
  check "$name alone" g++ "-std=$standard" <<< "#include <ucxx_rs/$name>"
done
if [ -n "$ucxx" ]; then
  check "before UCXX's" g++ -std=c++17 -isystem "$ucxx" < <(printf '#include <ucxx_rs.hpp>\n#include <ucxx/api.h>\n')
  check "after UCXX's" g++ -std=c++17 -isystem "$ucxx" < <(printf '#include <ucxx/api.h>\n#include <ucxx_rs.hpp>\n')
fi
wait
cat "$work"/*.said >&2
[ "$(cat "$work"/*.said | wc -c)" -eq 0 ] || exit 1
printf 'compiles: %d compilations without a warning\n' "$started"
"$here/test_must_not_compile.py" "$include" g++
