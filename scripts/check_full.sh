#!/usr/bin/env bash
# Runs all tests, and those that take too long for every change: each C test under valgrind, tests
# side by side and disturbed, and hundreds of faults.
#
#   scripts/check_full.sh [PATTERN]   with a pattern (a regular expression), only the parts whose
#                                     names match. "all tests" builds what the others use.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

stage=$target_dir/stage
suites=$target_dir/suites
jobs=$(nproc)
wanted=${1:-}
ran=0
failed=()
export UCXX_TEST_WHOLE=1

part() { # what, command...
  [[ $1 =~ $wanted ]] || return 0
  ran=$((ran + 1))
  local started=$SECONDS verdict=PASS
  say "=== $1"
  if ! "${@:2}"; then
    verdict=FAIL
    failed+=("$1")
  fi
  say "--- $verdict  $1  $((SECONDS - started)) s"
}

under_valgrind() (
  local options=(--quiet --trace-children=yes --child-silent-after-fork=yes --error-exitcode=99
    "--suppressions=$root/c_examples/valgrind.supp"
    # By itself it keeps 20 MB of freed memory: more than tests allow a process to grow. This much
    # holds what was freed in some ten thousand operations.
    --freelist-vol=2000000
    # It uses only UCX, and `cmake -E env` starts it.
    '--trace-children-skip=*/cmake,*/foreign_raw')
  local leaks=(--leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite)
  # These leave a worker to the end of the process: the first because that is what it tests, the
  # others because UCX cannot close its endpoints.
  local leave_a_worker='exit_while_ending|half_connected|connect|close_unread|forced_close_unheard'
  # These tests do not run under valgrind:
  #
  # - endpoint_cycles, window_cycles, library_load_often: count the mappings of the process
  # - fetch_many: counts its memory
  # - exit_order: ends without freeing what it has
  # - fork_child, window_fork, library_copies: leave what they inherited
  # - version_log, log_lines: need an empty stderr
  # - resources_exhausted: mounts and limits what valgrind needs
  # - foreign_port: UCX reads more than a port has sent that is not its own
  # - limits: has hundreds of thousands of requests
  # - wakeup, group_start, flush_before_close: have time limits that valgrind exceeds
  # - window_data: has long doubles, with which valgrind computes in 64 bits
  # - peer_death and others of that name, window_delegation: valgrind does not know pidfd_open, and
  #   without it a killed process that nobody has waited for is not noticed
  # - hub_alloc and others of that name: replace the allocation functions, as valgrind does
  local not_here='endpoint_cycles|window_cycles|library_load_often|fetch_many|exit_order|fork_child|window_fork|library_copies_[a-z]*|version_log|log_lines'
  not_here+='|resources_exhausted|foreign_port|limits|wakeup|group_start|flush_before_close|window_delegation|window_data_[a-z]*|(hub|hub_stream|window|iov)_alloc'
  not_here+='|[a-z_]*_death(_[a-z]*)?'
  cmake -Uucxx_rs_DIR -S tests/c -B "$target_dir/valgrind" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_PREFIX_PATH="$stage" \
    -DUCXX_RS_TESTS_WRAPPER="valgrind;$(IFS=';'; printf '%s' "${options[*]}")" >/dev/null &&
    cmake --build "$target_dir/valgrind" --parallel "$jobs" || return 1
  # Everything takes up to 50 times as long: one transport, fewer rounds, more time for each step.
  unset UCXX_TEST_WHOLE
  export UCXX_TEST_SECONDS=1200
  local run=(ctest --test-dir "$target_dir/valgrind" --output-on-failure --no-tests=error -j "$jobs" --label-regex '^once$') result=0
  VALGRIND_OPTS="${leaks[*]}" "${run[@]}" --exclude-regex "^($not_here|$leave_a_worker)\\." </dev/null || result=1
  "${run[@]}" --tests-regex "^($leave_a_worker)\\." </dev/null || result=1
  return "$result"
)

examples_under_valgrind() { # RELEASE
  local libraries
  libraries=$(scripts/ucx_wheel.sh "$1") &&
    LD_LIBRARY_PATH=$libraries ctest --test-dir "$suites/c_examples" --output-on-failure --no-tests=error -j "$jobs" \
      --label-regex valgrind </dev/null
}

# A million operations submitted to threads that fall asleep, and thousands of starts and stops,
# over each transport.
at_random() { # PROGRAM COUNT
  local transports
  for transports in posix,cma,self tcp,self; do
    UCX_TLS=$transports "$suites/tests/c/$1" "$2" || return 1
  done
}

# Makes and closes connections: nothing may stay allocated.
cycles() { # [RELEASE]: without one, the system's UCX
  local transports libraries='' count
  if [ $# -gt 0 ]; then libraries=$(scripts/ucx_wheel.sh "$1") || return 1; fi
  for transports in posix,cma,self tcp,self all; do
    count=10000
    # In each of four ways. A connection keeps its port for a minute, and there are 28,000.
    [ $transports != tcp,self ] || count=5000
    LD_LIBRARY_PATH=${libraries:-${LD_LIBRARY_PATH-}} UCX_TLS=$transports "$suites/tests/c/endpoint_cycles" "$count" || return 1
  done
}

faults() { # OPTION...
  scripts/faults.sh "$stage" 150 "$@"
}

# Status 77 means that this machine cannot do all of it; the test prints why.
or_not_here() {
  local status=0
  "$@" || status=$?
  [ "$status" -eq 0 ] || [ "$status" -eq 77 ]
}

rust_repeated() {
  local round
  for ((round = 1; round <= 20; round++)); do
    cargo test --locked --quiet || return 1
  done
}

part "all tests" scripts/test.sh --all
part "site" scripts/docs.sh
part "Python package from its source distribution" tests/wheel/sdist.sh
part "bindings for other languages" make bindings
part "packages are built" make packages
part "packages are installed, and used" scripts/packages.sh try
part "ten minutes of stress" env STAGED=yes scripts/stress.sh 10
# With so many preemptions some models take far longer than with three: each has half a minute.
part "models with more preemptions" env LOOM_MAX_PREEMPTIONS=4 LOOM_MAX_DURATION=30 scripts/test.sh loom
part "C tests under valgrind" under_valgrind
part "hostile calls under valgrind" hostile_under_valgrind "$suites/tests/c/hostile" 400000
part "C examples under valgrind, UCX $newest" examples_under_valgrind "$newest"
part "Rust tests, 20 times" rust_repeated
part "dissector for Wireshark" or_not_here tests/wireshark/test_dissector.py "$stage"
part "groups under Slurm" or_not_here tests/launchers/slurm.sh "$suites/c_examples"
part "groups under torchrun" or_not_here tests/launchers/torchrun.sh "$stage" "$suites/c_examples"
part "UCXX as a peer" tests/bindings/ucxx/run.sh "$suites/tests/c"
part "UCXX's Python code on this library" python/tests/compat/run.sh "$stage"
part "decoders, fed by libFuzzer" scripts/fuzz.sh
part "a million operations for threads that fall asleep" at_random progress_thread_sleep 1000000
part "threads that start and stop under traffic" at_random progress_thread_restart 2000
part "10,000 connections, again and again" cycles
for wheel in "${ucx_wheels[@]}"; do part "10,000 connections, again and again, UCX $wheel" cycles "$wheel"; done
part "150 rounds of faults" faults
for wheel in "${ucx_wheels[@]}"; do part "150 rounds of faults, UCX $wheel" faults --ucx "$(scripts/ucx_wheel.sh "$wheel")"; done
part "benchmarks, the short form" scripts/bench.sh --quick

if [ "${#failed[@]}" -gt 0 ]; then
  printf 'check-full: failed: %s\n' "${failed[@]}" >&2
  exit 1
fi
[ "$ran" -gt 0 ] || die "no part's name matches $wanted"
say "check-full: $ran parts passed"
