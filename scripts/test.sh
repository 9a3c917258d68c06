#!/usr/bin/env bash
# The fast tests, in named steps. All steps run even if one fails. A summary is at the end.
#
#   scripts/test.sh [STEP ...]     without arguments the fast steps, in about half an hour; --list
#                                  prints their names
#   scripts/test.sh --all          also the steps that rarely find something new: CONTRIBUTING.md
#                                  lists them, with reasons
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

stage=$target_dir/stage
suites=$target_dir/suites
jobs=$(nproc)
# Many steps wait, or use one core: linking, models, tools.
steps_at_a_time=2
# Most tests wait most of the time. A step beside them may run tests, too.
tests_at_a_time=$((jobs * 3 / steps_at_a_time))
# Nested makes must not use the flags of the outer `make test`.
unset MAKEFLAGS MAKELEVEL
# Steps set for UCX what they test. What the caller has set would change the others.
for name in "${!UCX_@}"; do unset "$name"; done
export PYTHONDONTWRITEBYTECODE=1
oldest_rust=$(package_field rust-version)
# What is compiled for the first time is compiled faster without a record of its parts.
[ -d "$target_dir/debug" ] || export CARGO_INCREMENTAL=0

# The steps that fail fastest are first. The two steps that run the suites are far apart: each takes
# a third of the whole time beside steps that compile, and slows the other down.
steps=(fmt stage clippy header abi suites system-ucx readme tools metrics counts cargo-test loom install bindings "ucx-$newest" python
  wheel tsan asan faults)
rare_steps=(msrv no-cuda loom-clippy valgrind)
for wheel in "${ucx_wheels[@]}"; do [ "$wheel" = "$newest" ] || rare_steps+=("ucx-$wheel"); done
# These steps use the library that the stage step installs, and those the programs of the suites.
staged=" abi readme tools counts suites faults bindings python wheel "
built=" no-cuda metrics system-ucx asan valgrind "
for wheel in "${ucx_wheels[@]}"; do built+="ucx-$wheel "; done

step_fmt() {
  cargo fmt --check
  cargo fmt --check --manifest-path tests/bindings/rust/Cargo.toml
  cargo fmt --check --manifest-path fuzz/Cargo.toml
  cargo fmt --check --manifest-path tests/models/Cargo.toml
  rustfmt --edition 2021 --check tests/install/other.rs
  # Comments too: clang-format wraps them, and ruff refuses long ones.
  local python folder
  python=$(scripts/venv.sh clang-format==18.1.8 ruff==0.17.6)
  folder=$(dirname "$python")
  git ls-files '*.c' '*.h' '*.cpp' '*.hpp' ':!include/ucxx_rs.h' | xargs "$folder/clang-format" --dry-run --Werror
  git ls-files '*.py' | xargs "$folder/ruff" check --quiet
  git ls-files '*.py' | xargs "$folder/ruff" format --quiet --check
  tests/test_prose.py
  scripts/prose.py
}

step_clippy() {
  # This also checks the oldest supported Rust: the lint incompatible_msrv is on where rust-version
  # is given.
  cargo clippy --locked --all-targets -- -D warnings
  cargo clippy --locked --no-default-features --lib -- -D warnings
  # These call the engine, whose modules may move. With a path of its own libFuzzer is not compiled.
  cargo check --locked --manifest-path benches/rust/Cargo.toml --target-dir "$target_dir"
  CUSTOM_LIBFUZZER_PATH=./not-linked cargo check --locked --manifest-path fuzz/Cargo.toml --target-dir "$target_dir"
}

# Clippy's lint incompatible_msrv knows the standard library's age, not the language's.
step_msrv() {
  local toolchain=(cargo "+$oldest_rust.0")
  case $(rustc --version) in
    "rustc $oldest_rust."*) toolchain=(cargo) ;;
    *) rustup toolchain install "$oldest_rust.0" --profile minimal ;;
  esac
  "${toolchain[@]}" check --locked --no-default-features --target-dir "$target_dir/msrv"
}

step_cargo-test() {
  cargo test --locked
}

# loom tries every order of the steps of a few threads, with at most two to four preemptions.
# Without a bound that does not end. One thread, because loom creates and destroys many stacks, and
# threads of one process would wait for each other there.
models=(--locked --release --manifest-path tests/models/Cargo.toml --target-dir "$target_dir/loom")
step_loom() {
  RUSTFLAGS='--cfg loom' cargo test "${models[@]}" -- --test-threads=1
}

# Without CUDA: the unit tests, and the C tests of hubs and active messages, which check where
# memory is.
step_no-cuda() {
  local build=$target_dir/no-cuda
  cargo test --locked --no-default-features --lib --target-dir "$build"
  scripts/build.sh --no-default-features --target-dir "$build"
  scripts/install.sh --prefix "$build/stage" --build "$build/release" --tools no >/dev/null
  LD_LIBRARY_PATH=$build/stage/lib ctest --test-dir "$suites/tests/c" -R '^(hub|am)_.*\.default$' \
    --parallel "$tests_at_a_time" --output-on-failure
}

step_loom-clippy() {
  RUSTFLAGS='--cfg loom' cargo clippy "${models[@]}" --all-targets -- -D warnings
}

step_stage() {
  scripts/build.sh
  rm -rf "$stage"
  scripts/install.sh --prefix "$stage" >/dev/null
  readelf -d "$stage/lib/libucxx_rs.so" | grep -E 'SONAME|NEEDED'
}

step_header() {
  local ucxx
  ucxx=$(scripts/ucx_wheel.sh --headers)
  tests/header/run.sh include "$ucxx"
  tests/cpp/compiles.sh include "$ucxx"
  tests/cpp/test_reach.py
}

step_abi() {
  tests/abi/test_snapshot.py "$stage"
  tests/abi/test_symbols.py "$stage"
  tests/abi/test_names.py "$stage"
  tests/abi/abidiff.py "$stage"
  scripts/api_json.py
  tests/abi/test_api_json.py
}

step_readme() {
  scripts/hub_pictures.py --check
  tests/readme.sh "$stage"
  tests/tutorial.sh "$stage"
  local page
  for page in how-do-i cpp from-ucxx-cpp; do tests/fragments.py "$stage" "docs/$page.md"; done
  tests/messages.py
}

step_install() {
  tests/install/run.sh
}

step_tools() {
  tests/tools/test_tools.py "$stage"
  tests/riddles/test_riddles.py "$stage"
  tests/riddles/test_monitor.py "$stage"
  tests/tools/test_perftest.py "$stage"
  tests/tools/test_group.py
  tests/tools/test_manual.py "$stage"
  tests/tools/test_trace.py "$stage"
  tests/wireshark/test_constants.py
}

step_metrics() {
  local python
  python=$(scripts/venv.sh --name metrics prometheus-client==0.26.0)
  "$python" tests/metrics/test_metrics.py "$suites/tests/c/metrics"
}

# Instructions, allocations and system calls of operations do not vary from run to run.
step_counts() {
  python3 benches/hold.py "$stage" --out "$target_dir/counts"
}

configure_and_build() { # SOURCE BUILD_FOLDER OPTION...
  cmake -Uucxx_rs_DIR -S "$1" -B "$2" -DCMAKE_PREFIX_PATH="$stage" "${@:3}" >"$target_dir/configure.log" ||
    { cat "$target_dir/configure.log" >&2; return 1; }
  cmake --build "$2" --parallel "$jobs"
}

# Most programs compile longer than they run.
quickly_compiled=(-DCMAKE_BUILD_TYPE=RelWithDebInfo "-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O2 -g1 -DNDEBUG" "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -g1")
# The programs for Asio and for Boost's are the same, and take long to compile: those for the one
# run here, those for the other with AddressSanitizer.
step_suites() {
  configure_and_build tests/install "$suites/consumer" -DKIND=shared
  configure_and_build c_examples "$suites/c_examples" "${quickly_compiled[@]}" -DCMAKE_COMPILE_WARNING_AS_ERROR=ON \
    -U'*asio_include' -Dboost_asio_include=NO
  configure_and_build tests/c "$suites/tests/c" "${quickly_compiled[@]}" -DCMAKE_COMPILE_WARNING_AS_ERROR=ON
}

# A failed test is not run again: it has found something until its cause is known. If UCX itself
# ends a test at a known line, it is counted, and a few are allowed: see tests/ucx_ends.py. The
# summary repeats the end of the output of failed tests, for readers who see only the last lines of
# a log.
ended_by_ucx=$target_dir/ended-by-ucx
failed_words=$target_dir/failed-words
most_ended=2
export ended_by_ucx

run_ctest() { # UCX_VERSION BUILD_FOLDER OPTION...
  # Here ctest writes its logs. Another step may run the same programs.
  local status=0 folder=$target_dir/ctest/$step/${2#"$target_dir/"}
  mkdir -p "$folder"
  rm -f "$folder"/Testing/Temporary/LastTest{,sFailed}.log
  printf 'subdirs("%s")\n' "$2" >"$folder/CTestTestfile.cmake"
  ctest --test-dir "$folder" --output-on-failure --no-tests=error -j "$tests_at_a_time" "${@:3}" || status=$?
  # 8 means that tests failed. Any other status is an error of ctest.
  [ "$status" -eq 8 ] || return "$status"
  tests/ctest_report.py "$folder" "$1" "$failed_words" "$ended_by_ucx"
}

# Runs both suites, also if the first one fails.
run_suites() { # UCX_VERSION LABELS_OF_TESTS LABELS_OF_EXAMPLES: these labels run only with --all
  local result=0 left_out=$2 examples_left_out="valgrind|$3"
  [ -z "${UCXX_TEST_WHOLE:-}" ] || left_out=- examples_left_out=valgrind
  run_ctest "$1" "$suites/c_examples" --label-exclude "$examples_left_out" || result=1
  run_ctest "$1" "$suites/tests/c" --label-exclude "$left_out" || result=1
  return "$result"
}

ucx_in_use() { "$suites/consumer/consumer_c" | sed -n 's/.* on UCX //p'; }

step_system-ucx() {
  "$suites/consumer/consumer_c"
  run_suites "$(ucx_in_use)" not_on_system not_on_system
}

# valgrind runs the same programs as AddressSanitizer in step_asan.
step_valgrind() {
  run_ctest "$(ucx_in_use)" "$suites/c_examples" --label-regex valgrind
}

# Runs the programs of the suites step, unchanged, on another UCX.
on_wheel() { # RELEASE
  LD_LIBRARY_PATH=$(scripts/ucx_wheel.sh "$1")
  export LD_LIBRARY_PATH
  [ "$(ucx_in_use)" = "$1" ] || { say "not UCX $1" >&2; return 1; }
  if [ "$1" = "$newest" ]; then
    # To patch functions of the C library takes it 0.4 s of each process. The wheel's tests run with
    # that. UCX 1.21.0 crashes without it.
    [ -n "${UCXX_TEST_WHOLE:-}" ] || export UCX_MEM_MMAP_HOOK_MODE=none
    run_suites "$1" not_on_newest '^(shm|tcp)$'
  else
    run_suites "$1" - -
  fi
  tests/tools/test_tools.py "$stage" Perftest.test_every_way_of_driving_and_waiting Info
}
for wheel in "${ucx_wheels[@]}"; do eval "step_ucx-$wheel() { on_wheel $wheel; }"; done

# Some rounds on two UCX releases, and one with hundreds of endpoints. check_full.sh has many rounds
# on all.
step_faults() {
  local result=0
  scripts/faults.sh "$stage" 14 || result=1
  scripts/faults.sh "$stage" 1 --only kill_half || result=1
  scripts/faults.sh "$stage" 14 --ucx "$(scripts/ucx_wheel.sh "$newest")" || result=1
  return "$result"
}

step_asan() {
  local flags='-fsanitize=address -fno-omit-frame-pointer' program found=0
  configure_and_build c_examples "$target_dir/asan" "${quickly_compiled[@]}" -DCMAKE_C_FLAGS="$flags" -DCMAKE_CXX_FLAGS="$flags" \
    -U'*asio_include' -Dasio_include=NO
  # If the flag were lost, the run below would test nothing.
  while read -r program; do
    grep -q 'NEEDED.*libasan' <<< "$(readelf -d "$program")" || { say "asan: $program does not load the sanitizer" >&2; return 1; }
    grep -q ' U __asan_' <<< "$(nm "$program")" || { say "asan: $program is not instrumented" >&2; return 1; }
    found=$((found + 1))
  done < <(find "$target_dir/asan" -maxdepth 1 -type f -executable -exec sh -c 'readelf -h "$1" >/dev/null 2>&1' _ {} \; -print)
  [ "$found" -gt 0 ] || { say "asan: no program was built" >&2; return 1; }
  say "asan: $found programs are instrumented"
  # valgrind and the sanitizer do not work together. The sanitizer checks the code of the examples,
  # which is the same over every transport, so one is enough.
  LSAN_OPTIONS=print_suppressions=0:suppressions="$root/c_examples/leaks.supp" \
    run_ctest "$(ucx_in_use)" "$target_dir/asan" --label-exclude 'valgrind|^tcp$|not_on_system'
  hostile_under_sanitizers
  cpp_under_sanitizers
}

# ucxx_rs.hpp is compiled into its users, so the sanitizers see it. TCP is what listeners need.
cpp_under_sanitizers() {
  local build=$target_dir/hostile-asan
  cmake --build "$build" --parallel "$jobs" --target cpp_operations_20 --target cpp_handlers_20 --target cpp_coroutines_20
  LSAN_OPTIONS=suppressions="$root/tests/hostile/leaks.supp" run_ctest "$(ucx_in_use)" "$build" -R '^cpp_(operations|handlers|coroutines)_20\.tcp$'
}

# Random calls, with sanitizers on the caller as well: the caller must keep its part of the
# contract.
hostile_under_sanitizers() {
  local flags='-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer' build=$target_dir/hostile-asan
  cmake -Uucxx_rs_DIR -S tests/c -B "$build" "${quickly_compiled[@]}" -DCMAKE_PREFIX_PATH="$stage" -DCMAKE_C_FLAGS="$flags" \
    -DCMAKE_CXX_FLAGS="$flags" >/dev/null
  cmake --build "$build" --parallel "$jobs" --target hostile
  hostile_under asan env ASAN_OPTIONS=handle_segv=0:handle_abort=0 LSAN_OPTIONS=suppressions="$root/tests/hostile/leaks.supp" \
    "$build/hostile" 40000
}

step_tsan() {
  scripts/tsan.sh
}

step_bindings() {
  tests/bindings/run.sh "$stage"
}

step_python() {
  python/tests/run.sh "$stage"
}

step_wheel() {
  tests/wheel/run.sh "$stage"
}

case ${1:-} in
  --list)
    printf '%s\n' "${steps[@]}"
    printf '%s    with --all\n' "${rare_steps[@]}"
    exit 0
    ;;
  '') set -- "${steps[@]}" ;;
  --all)
    [ $# -eq 1 ] || die "--all stands alone"
    # The C tests over every transport on every UCX, and all rounds of the random tests.
    export UCXX_TEST_WHOLE=1
    set -- "${steps[@]}" "${rare_steps[@]}"
    ;;
esac
for step in "$@"; do
  declare -F "step_$step" >/dev/null || die "no step '$step'; there are: ${steps[*]} ${rare_steps[*]}"
done
# Prints the steps whose results a step uses.
needs() { # STEP
  case $staged in *" $1 "*) echo stage ;; esac
  case $built in *" $1 "*) echo suites ;; esac
}
selected=()
add() { # STEP
  local other
  for other in $(needs "$1"); do add "$other"; done
  case " ${selected[*]} " in *" $1 "*) ;; *) selected+=("$1") ;; esac
}
for step in "$@"; do add "$step"; done

# What a step says is shown with its name before each line. It is also in target/steps/STEP; beside
# it, STEP.ended has its status and its seconds.
said=$target_dir/steps
run_step() { # STEP
  local step=$1 started=$SECONDS status
  # Not in a condition: there a shell function would continue after an error.
  set +e
  (set -euo pipefail; "step_$step") 2>&1 </dev/null | tee "$said/$step" | sed -u "s/^/$step: /"
  status=${PIPESTATUS[0]}
  printf '%s %s\n' "$status" $((SECONDS - started)) >"$said/$step.new"
  mv "$said/$step.new" "$said/$step.ended"
}

# True if what the step uses has been made, or has failed to be.
can_start() { # STEP
  local other
  for other in $(needs "$1"); do [ -e "$said/$other.ended" ] || return 1; done
}

rm -rf "$said" "$failed_words"
mkdir -p "$said"
: > "$ended_by_ucx"
summary=() reasons=()
failed=0
# How tools, compilers and our own programs begin an error message.
reason='^ *([Ee]rror|ERROR|VIOLATION|FAIL|FATAL|AssertionError)|panicked at|\*\*\*(Failed|Timeout|Exception)|^test .* FAILED|: error:|WARNING: ThreadSanitizer'
report() { # STEP
  local status seconds verdict=PASS
  read -r status seconds <"$said/$1.ended"
  if [ "$status" -ne 0 ]; then
    verdict=FAIL failed=$((failed + 1))
    reasons+=("$(grep -aE "$reason" "$said/$1" | head -n 6 | cut -c 1-160 || true)")
  fi
  summary+=("$(printf '%-4s  %-12s %4d s' "$verdict" "$1" "$seconds")")
  say "--- ${summary[-1]}"
}

# The shell lets steps ignore Ctrl-C.
trap 'trap - TERM; kill 0' INT TERM
waiting=("${selected[@]}") running=()
while [ $((${#waiting[@]} + ${#running[@]})) -gt 0 ]; do
  later=()
  for step in "${waiting[@]}"; do
    if [ "${#running[@]}" -lt "$steps_at_a_time" ] && can_start "$step"; then
      say "=== $step"
      run_step "$step" &
      running+=("$step")
    else
      later+=("$step")
    fi
  done
  waiting=("${later[@]}")
  wait -n || true
  still=()
  for step in "${running[@]}"; do
    if [ -e "$said/$step.ended" ]; then report "$step"; else still+=("$step"); fi
  done
  running=("${still[@]}")
done

say "=== summary"
printf '%s\n' "${summary[@]}"
say "$((${#summary[@]} - failed)) passed, $failed failed"
[ ! -s "$failed_words" ] || { say "what tests said that failed:"; tail -n 150 "$failed_words"; }
cat "$ended_by_ucx"
# The reasons once more at the very end, for readers who see only that.
[ "$failed" -eq 0 ] || printf '%s\n' "${reasons[@]}"
[ "$(wc -l < "$ended_by_ucx")" -le "$most_ended" ] || { say "UCX may end $most_ended of them"; failed=1; }
[ "$failed" -eq 0 ]
