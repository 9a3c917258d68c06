#!/usr/bin/env bash
# Runs the C tests and examples that have threads under ThreadSanitizer, and with UCXX_TEST_WHOLE
# set the engine's tests too.
#
# The library is built together with Rust's standard library. The standard library of the toolchain
# is not instrumented, so the sanitizer would not see the ordering by its locks and reference
# counts, and would report races. Building it and the option itself are unstable, so RUSTC_BOOTSTRAP
# makes the stable compiler accept them. The system's C compiler compiles the C code, which is
# linked to the runtime of the Rust toolchain, because there can be only one runtime. The library is
# without CUDA, which no test here uses.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

build=$target_dir/tsan
stage=$build/stage
jobs=$(nproc)
host=$(rustc -vV | sed -n 's/^host: //p')
libraries=$(rustc --print sysroot)/lib/rustlib
runtime=$(compgen -G "$libraries/$host/lib/librustc*_rt.tsan.a" | head -n 1 || true)
if [ -z "$runtime" ] || [ ! -f "$libraries/src/rust/library/Cargo.lock" ]; then
  # Fail if rustup can install what is missing (scripts/setup.sh test). The toolchain of a
  # distribution may have neither.
  if [ -n "$runtime" ] && command -v rustup >/dev/null; then die "Rust's sources are missing: rustup component add rust-src"; fi
  say "tsan: LEFT OUT: this Rust toolchain has no runtime for it, or no sources of its standard library"
  exit 0
fi

# UCX patches functions of the C library, and would patch the sanitizer's functions instead.
export UCX_MEM_MMAP_HOOK_MODE=none UCX_MEM_CUDA_HOOK_MODE=none
export TSAN_OPTIONS="exitcode=66 suppressions=$root/tests/tsan/suppressions.txt"
# A long limit for waits, because programs are slow here. It costs nothing otherwise.
export UCXX_TEST_SECONDS=${UCXX_TEST_SECONDS:-600}
rust=(--target "$host" --target-dir "$build" --config profile.release.lto=false --config profile.release.codegen-units=16
  --config profile.release.opt-level=1 -Zbuild-std --no-default-features)
instrumented() { RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=thread "$@"; }

say "tsan: the library"
instrumented scripts/build.sh "${rust[@]}"
scripts/install.sh --prefix "$stage" --build "$build/$host/release" >/dev/null
compile=(-g -O1 -fsanitize=thread)
# Without -fsanitize=thread, which would add the C compiler's own runtime.
link="-Wl,--whole-archive $runtime -Wl,--no-whole-archive -Wl,--export-dynamic -lpthread -ldl -lm -lrt"

say "tsan: does it see what happens in the library?"
gcc "${compile[@]}" -c -I"$stage/include" tests/tsan/turns.c -o "$build/turns.o"
# shellcheck disable=SC2086  # a list of options
gcc "$build/turns.o" -o "$build/turns" -L"$stage/lib" -lucxx_rs -Wl,-rpath,"$stage/lib" $link
"$build/turns" ordered || die "reports a race where there is none"
status=0
report=$("$build/turns" relaxed 2>&1) || status=$?
[ "$status" -eq 66 ] || die "does not report a race that was planted (status $status)"
grep -q 'src/engine/' <<< "$report" || die "reports the planted race, but not in the library"

# Only with `test.sh --all`: what the engine's own tests run in several threads, the models run in
# every order, and the C tests below in whole programs. The model of a hub has one thread.
if [ -n "${UCXX_TEST_WHOLE:-}" ]; then
  say "tsan: the engine's tests"
  instrumented cargo test --locked --release --lib "${rust[@]}" -- --skip engine::hub::model::
fi

failed=0
threaded() { # SOURCE BUILD_FOLDER TESTS PROGRAM...
  cmake -Uucxx_rs_DIR -S "$1" -B "$2" -DCMAKE_BUILD_TYPE=None -DCMAKE_PREFIX_PATH="$stage" -DCMAKE_C_FLAGS="${compile[*]}" \
    -DCMAKE_CXX_FLAGS="${compile[*]}" -DCMAKE_EXE_LINKER_FLAGS="-fno-sanitize=thread $link" >/dev/null &&
    cmake --build "$2" --parallel "$jobs" --target "${@:4}" >/dev/null &&
    ctest --test-dir "$2" --output-on-failure --no-tests=error -j "$jobs" --label-exclude valgrind --timeout 900 -R "$3" </dev/null || failed=1
}
# The transport makes no difference to the library's own threads.
transports=shm
over_transports=(progress_thread progress_thread_queue progress_thread_calls progress_thread_pair progress_thread_waits progress_thread_sleep
  progress_thread_restart threads notifier wakeup callbacks requests send_window_end on_writable am_random fetch_random fetch_threads group_start
  hub_tag hub_wait_progress hub_stream_threads cpp_operations_20)
over_none=(hub_threads hub_ready hub_wakeup hub_chain hub_copy_ahead hub_changes hub_multi_lease hub_starvation)
examples=(progress_thread notifier pipeline cpp_pipeline)
# `group` takes a fifth of the time here, most of it in one thread.
if [ -n "${UCXX_TEST_WHOLE:-}" ]; then
  transports='(shm|tcp)'
  over_transports+=(group cpp_handlers_20 cpp_coroutines_20)
fi
one_of() { (IFS='|'; printf '(%s)' "$*"); }
say "tsan: C tests and examples with threads"
threaded tests/c "$build/c" "^$(one_of "${over_transports[@]}")\.$transports\$|^$(one_of "${over_none[@]}")\.default\$" "${over_transports[@]}" "${over_none[@]}"
threaded c_examples "$build/examples" "^$(one_of "${examples[@]}")(_|\$)" "${examples[@]}"
exit "$failed"
