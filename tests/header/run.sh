#!/usr/bin/env bash
# The header compiles without a warning as C99 and as C++11: alone, included twice, beside UCP's own
# header, and beside UCXX's headers (those need C++17).
#
#   tests/header/run.sh HEADER_DIR [UCXX_HEADER_DIR]
set -euo pipefail

include=$1
ucxx=${2:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
warnings=(-Wall -Wextra -pedantic -Werror)
passed=0

check() { # what, compiler and its options..., source on stdin
  local what=$1
  shift
  cat > "$work/source"
  # Optimised, because some warnings need that.
  if ! "$@" -O1 -c "$work/source" -o "$work/object.o"; then
    printf 'header: %s: %s\n' "$what" "$*" >&2
    exit 1
  fi
  passed=$((passed + 1))
}

# One include provides everything, and each initialiser macro expands.
cat > "$work/use.h" <<'END'
static ucxx_status_t use_header(void) {
  ucxx_version_t version = UCXX_VERSION_INIT;
  ucxx_context_params_t context = UCXX_CONTEXT_PARAMS_INIT;
  ucxx_worker_params_t worker = UCXX_WORKER_PARAMS_INIT;
  ucxx_op_params_t op = UCXX_OP_PARAMS_INIT;
  if (version.struct_size != sizeof version || context.struct_size != sizeof context) return UCXX_ERR_INVALID_PARAM;
  if (worker.struct_size != sizeof worker || op.struct_size != sizeof op) return UCXX_ERR_INVALID_PARAM;
  return UCXX_RS_VERSION_MAJOR == 0 ? UCXX_OK : UCXX_INPROGRESS;
}
int main(void) { return (int)use_header(); }
END

compilers=("gcc -x c -std=c99" "gcc -x c -std=c11" "g++ -x c++ -std=c++11" "g++ -x c++ -std=c++20")
if command -v clang >/dev/null && command -v clang++ >/dev/null; then
  compilers+=("clang -x c -std=c99" "clang++ -x c++ -std=c++11")
fi
for compiler in "${compilers[@]}"; do
  read -ra command <<< "$compiler"
  command+=("${warnings[@]}" -I "$include")
  check alone "${command[@]}" <<< '#include <ucxx_rs.h>
typedef int not_empty;'
  check twice "${command[@]}" <<< '#include <ucxx_rs.h>
#include <ucxx_rs.h>
typedef int not_empty;'
  check used "${command[@]}" < <(echo '#include <ucxx_rs.h>'; cat "$work/use.h")
  check "before UCP's" "${command[@]}" < <(printf '#include <ucxx_rs.h>\n#include <ucp/api/ucp.h>\n'; cat "$work/use.h")
  check "after UCP's" "${command[@]}" < <(printf '#include <ucp/api/ucp.h>\n#include <ucxx_rs.h>\n'; cat "$work/use.h")
done
# A status must be used: the compiler warns about a call that drops one, unless the header is told
# otherwise.
for compiler in "${compilers[@]}"; do
  read -ra command <<< "$compiler"
  command+=("${warnings[@]}" -I "$include")
  printf '#include <ucxx_rs.h>\nvoid drop(ucxx_worker_t *worker);\nvoid drop(ucxx_worker_t *worker) { ucxx_worker_arm(worker); }\n' > "$work/drop"
  if "${command[@]}" -O1 -c "$work/drop" -o "$work/object.o" 2>/dev/null; then
    printf 'header: %s does not warn about a dropped status\n' "$compiler" >&2
    exit 1
  fi
  check "without warnings of what is dropped" "${command[@]}" -DUCXX_NODISCARD= < "$work/drop"
done
if [ -n "$ucxx" ]; then
  command=(g++ -x c++ -std=c++17 "${warnings[@]}" -I "$include" -isystem "$ucxx")
  check "before UCXX's" "${command[@]}" < <(printf '#include <ucxx_rs.h>\n#include <ucxx/api.h>\n'; cat "$work/use.h")
  check "after UCXX's" "${command[@]}" < <(printf '#include <ucxx/api.h>\n#include <ucxx_rs.h>\n'; cat "$work/use.h")
fi
printf 'header: %d compilations without a warning\n' "$passed"
