#!/usr/bin/env bash
# The fast tests, as named steps; all of them run even after one has failed, and a summary closes the run.
#
#   scripts/test.sh [STEP ...]     all steps without arguments; --list prints their names
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

stage=$target_dir/stage
suites=$target_dir/suites
jobs=$(nproc)
# Under `make test`, the nested makes would take the outer one's flags for their own.
unset MAKEFLAGS MAKELEVEL
oldest_rust=$(package_field rust-version)

steps=(fmt clippy msrv cargo-test loom stage header abi readme install tools suites system-ucx)
for wheel in "${ucx_wheels[@]}"; do steps+=("ucx-$wheel"); done
steps+=(faults asan tsan bindings)
# These use the library as installed by the stage step.
staged=" abi readme tools suites system-ucx faults asan bindings "
for wheel in "${ucx_wheels[@]}"; do staged+="ucx-$wheel "; done

step_fmt() {
  cargo fmt --check
  cargo fmt --check --manifest-path tests/bindings/rust/Cargo.toml
  cargo fmt --check --manifest-path fuzz/Cargo.toml
  rustfmt --edition 2021 --check tests/install/other.rs
}

step_clippy() {
  # Holds the code to the promised Rust as well: incompatible_msrv is on wherever rust-version is stated.
  cargo clippy --locked --all-targets -- -D warnings
  # They call the engine, whose modules move.
  cargo check --locked --manifest-path benches/rust/Cargo.toml --target-dir "$target_dir/benches"
  cargo check --locked --manifest-path fuzz/Cargo.toml --target-dir "$target_dir/fuzz"
}

step_msrv() {
  local toolchain=() installed
  case $(rustc --version) in
    "rustc $oldest_rust."*) toolchain=(cargo) ;;
    *)
      # By the name it is listed under: "1.85" does not find what was installed as "1.85.0".
      if command -v rustup >/dev/null; then
        installed=$(rustup toolchain list | sed -nE "s/^($oldest_rust[.-][^ ]*).*/\1/p" | head -n 1)
        [ -z "$installed" ] || toolchain=(cargo "+$installed")
      fi
      ;;
  esac
  if [ "${#toolchain[@]}" -gt 0 ]; then
    say "msrv: compiling with Rust $oldest_rust"
    "${toolchain[@]}" check --locked --target-dir "$target_dir/msrv"
    return
  fi
  say "msrv: no Rust $oldest_rust here; checking the lint and what the dependencies declare"
  cargo clippy --locked --lib -- -D clippy::incompatible_msrv
  cargo metadata --locked --format-version 1 --filter-platform "$(rustc -vV | sed -n 's/^host: //p')" |
    python3 scripts/msrv.py "$oldest_rust"
}

step_cargo-test() {
  cargo test --locked
}

# Every order in which a few threads can take a few steps, with up to three or four preemptions: without a bound they do not end.
step_loom() {
  local options=(--locked --release --target-dir "$target_dir/loom" --config profile.release.lto=false --config profile.release.codegen-units=16)
  RUSTFLAGS='--cfg loom' cargo clippy "${options[@]}" --test models -- -D warnings
  RUSTFLAGS='--cfg loom' cargo test "${options[@]}" --test models
}

step_stage() {
  scripts/build.sh
  rm -rf "$stage"
  scripts/install.sh --prefix "$stage" >/dev/null
  readelf -d "$stage/lib/libucxx_rs.so" | grep -E 'SONAME|NEEDED'
}

step_header() {
  tests/header/run.sh include "$(scripts/ucx_wheel.sh --headers)"
}

step_abi() {
  PYTHONDONTWRITEBYTECODE=1 tests/abi/test_snapshot.py "$stage"
}

step_readme() {
  PYTHONDONTWRITEBYTECODE=1 scripts/hub_pictures.py --check
  tests/readme.sh "$stage"
}

step_install() {
  tests/install/run.sh
}

step_tools() {
  tests/tools/test_tools.py "$stage"
  tests/tools/test_group.py
}

configure_and_build() { # source, build folder, options
  cmake -Uucxx_rs_DIR -S "$1" -B "$2" -DCMAKE_PREFIX_PATH="$stage" "${@:3}" >"$target_dir/configure.log" ||
    { cat "$target_dir/configure.log" >&2; return 1; }
  cmake --build "$2" --parallel "$jobs"
}

step_suites() {
  local suite
  configure_and_build tests/install "$suites/consumer" -DKIND=shared
  for suite in c_examples tests/c; do
    configure_and_build "$suite" "$suites/$suite" -DCMAKE_BUILD_TYPE=RelWithDebInfo
  done
}

# Of some thousand runs of tests in real processes, on a machine that others use as well, one may fail by its own doing. Up to so many that fail are run once more, alone, and
# named in the summary if they pass then: each of them is a defect of the test's or the library's that somebody has to look at, but no reason to hold up everything else.
most_again=2
failed_once=$target_dir/failed-once
# The summary repeats the end of what they said: who has nothing but the last lines of a log still learns why.
failed_words=$target_dir/failed-words

keep_words() { # build folder
  awk -F: '
    NR == FNR { failed[$2] = 1; next }
    / Testing: / { name = $2; sub(/^ /, "", name); count = 0 }
    /^<end of output>/ {
      said = 0
      if (name in failed) {
        print "--- " name
        for (at = count > 12 ? count - 12 : 0; at < count; at++) print lines[at % 12]
      }
    }
    said { lines[count++ % 12] = $0 }
    /^Output:$/ { said = 1; getline }
  ' "$1/Testing/Temporary/LastTestsFailed.log" "$1/Testing/Temporary/LastTest.log" >> "$failed_words"
}

run_ctest() { # build folder, options
  local failures
  ctest --test-dir "$1" --output-on-failure --no-tests=error -j "$jobs" "${@:2}" </dev/null && return
  keep_words "$1"
  # Lines of number:name.
  failures=$(cut -d: -f2- "$1/Testing/Temporary/LastTestsFailed.log" 2>/dev/null | tr '\n' ' ')
  [ "$(wc -w <<< "$failures")" -ge 1 ] && [ "$(wc -w <<< "$failures")" -le "$most_again" ] || return 1
  say "--- once more, alone: $failures"
  ctest --test-dir "$1" --output-on-failure --rerun-failed </dev/null || { keep_words "$1"; return 1; }
  say "$failures" >> "$failed_once"
}

# Both, whatever the first one says.
run_suites() {
  local result=0
  run_ctest "$suites/c_examples" "$@" || result=1
  run_ctest "$suites/tests/c" "$@" || result=1
  return "$result"
}

step_system-ucx() {
  "$suites/consumer/consumer_c"
  run_suites
}

# The binaries of the suites step, unchanged, on another UCX.
on_wheel() { # version
  local said
  LD_LIBRARY_PATH=$(scripts/ucx_wheel.sh "$1")
  export LD_LIBRARY_PATH
  said=$("$suites/consumer/consumer_c")
  say "$said"
  grep -q "on UCX $1$" <<< "$said" || { say "not UCX $1" >&2; return 1; }
  # Under valgrind on the system's UCX only; check_full.sh runs it on these as well.
  run_suites --label-exclude valgrind
  tests/tools/test_tools.py "$stage" Perftest.test_every_way_of_driving_and_waiting Info
  [ "$1" != "${ucx_wheels[-1]}" ] || hostile_under_valgrind "$suites/tests/c/hostile" 40000
}
for wheel in "${ucx_wheels[@]}"; do eval "step_ucx-$wheel() { on_wheel $wheel; }"; done

# As with the other tests: after a violation as many rounds again, of another seed.
fault_rounds() { # number, options
  scripts/faults.sh "$stage" "$@" && return
  say "--- once more: faults $*"
  scripts/faults.sh "$stage" "$@" || return 1
  say "faults" >> "$failed_once"
}

# Some rounds on each UCX, and one with hundreds of endpoints; check_full.sh has many.
step_faults() {
  local wheel result=0
  fault_rounds 14 || result=1
  fault_rounds 1 --only kill_half || result=1
  for wheel in "${ucx_wheels[@]}"; do
    fault_rounds 14 --ucx "$(scripts/ucx_wheel.sh "$wheel")" || result=1
  done
  return "$result"
}

step_asan() {
  local flags='-fsanitize=address -fno-omit-frame-pointer' program found=0
  configure_and_build c_examples "$target_dir/asan" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_C_FLAGS="$flags" -DCMAKE_CXX_FLAGS="$flags"
  # A flag that got lost would make the run below worthless.
  while read -r program; do
    grep -q 'NEEDED.*libasan' <<< "$(readelf -d "$program")" || { say "asan: $program does not load the sanitizer" >&2; return 1; }
    grep -q ' U __asan_' <<< "$(nm "$program")" || { say "asan: $program is not instrumented" >&2; return 1; }
    found=$((found + 1))
  done < <(find "$target_dir/asan" -maxdepth 1 -type f -executable -exec sh -c 'readelf -h "$1" >/dev/null 2>&1' _ {} \; -print)
  [ "$found" -gt 0 ] || { say "asan: no program was built" >&2; return 1; }
  say "asan: $found programs are instrumented"
  # The two instruments do not work together.
  run_ctest "$target_dir/asan" --label-exclude valgrind
  hostile_under_sanitizers
}

# What the callers promise is theirs to keep, so they are looked at, too: a round of random calls.
hostile_under_sanitizers() {
  local flags='-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer' build=$target_dir/hostile-asan
  cmake -Uucxx_rs_DIR -S tests/c -B "$build" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_PREFIX_PATH="$stage" -DCMAKE_C_FLAGS="$flags" >/dev/null
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

if [ "${1:-}" = --list ]; then
  printf '%s\n' "${steps[@]}"
  exit 0
fi
selected=("$@")
[ $# -gt 0 ] || selected=("${steps[@]}")
for step in "${selected[@]}"; do
  declare -F "step_$step" >/dev/null || die "no step '$step'; there are: ${steps[*]}"
done
# What a chosen step builds on comes with it.
needed=()
if [ $# -gt 0 ]; then
  for step in "${selected[@]}"; do
    case $staged in *" $step "*) needed+=(stage); break ;; esac
  done
  for step in "${selected[@]}"; do
    case $step in system-ucx | ucx-*) needed+=(suites); break ;; esac
  done
  for step in "${selected[@]}"; do
    case " ${needed[*]} " in *" $step "*) ;; *) needed+=("$step") ;; esac
  done
  selected=("${needed[@]}")
fi

mkdir -p "$target_dir"
rm -f "$failed_once" "$failed_words"
summary=()
failed=0
for step in "${selected[@]}"; do
  say "=== $step"
  started=$SECONDS
  # Not in a condition: a shell function called there runs on after an error.
  set +e
  (set -euo pipefail; "step_$step")
  status=$?
  set -e
  verdict=PASS
  [ "$status" -eq 0 ] || verdict=FAIL failed=$((failed + 1))
  summary+=("$(printf '%-4s  %-12s %4d s' "$verdict" "$step" $((SECONDS - started)))")
  say "--- ${summary[-1]}"
done

say "=== summary"
printf '%s\n' "${summary[@]}"
say "$((${#summary[@]} - failed)) passed, $failed failed"
[ ! -s "$failed_words" ] || { say "what tests said that failed:"; tail -n 150 "$failed_words"; }
[ ! -s "$failed_once" ] || say "failed once, and passed alone: $(tr '\n' ' ' < "$failed_once")"
[ "$failed" -eq 0 ]
