#!/usr/bin/env bash
# Runs each decoder of external input with inputs from libFuzzer, which begins with those in
# fuzz/corpus.
#
#   SECONDS_EACH=20 scripts/fuzz.sh [TARGET ...]
#
# Without arguments it runs all targets: one for each file in fuzz/src with a corpus.
#
# Inputs that fail are left under target/fuzz, with the command that repeats them. It needs g++, for
# libFuzzer. Coverage and the sanitizer are unstable options, so RUSTC_BOOTSTRAP makes the stable
# compiler accept them.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

build=$target_dir/fuzz
host=$(rustc -vV | sed -n 's/^host: //p')
limit=${SECONDS_EACH:-20}
targets=("$@")
if [ $# -eq 0 ]; then
  for folder in fuzz/corpus/*/; do targets+=("$(basename "$folder")"); done
fi
if ! compgen -G "$(rustc --print sysroot)/lib/rustlib/$host/lib/librustc*_rt.asan.a" >/dev/null; then
  say "fuzz: LEFT OUT: this Rust toolchain has no runtime for the address sanitizer"
  exit 0
fi
command -v g++ >/dev/null || scripts/setup.sh full

guided=(-Cpasses=sancov-module)
for option in level=4 trace-compares inline-8bit-counters pc-table; do guided+=("-Cllvm-args=-sanitizer-coverage-$option"); done
# RUSTFLAGS is a list of options. With --target they do not apply to build scripts.
RUSTC_BOOTSTRAP=1 RUSTFLAGS="--cfg fuzzing -Zsanitizer=address -Ccodegen-units=1 ${guided[*]}" \
  cargo build --locked --release --quiet --manifest-path fuzz/Cargo.toml --target "$host" --target-dir "$build"

failed=0
for target in "${targets[@]}"; do
  [ -d "fuzz/corpus/$target" ] || die "no target '$target'; there are: $(cd fuzz/corpus && echo *)"
  # New inputs are stored there, not in the committed corpus.
  found=$build/corpus/$target
  mkdir -p "$found"
  say "fuzz: $target, $limit seconds"
  # No leak check: it stops the process with ptrace, which a container may forbid.
  if ! ASAN_OPTIONS=detect_leaks=0 "$build/$host/release/$target" "$found" "fuzz/corpus/$target" -max_total_time="$limit" -max_len=4096 -timeout=10 \
    -artifact_prefix="$build/$target-" -print_final_stats=1 -verbosity=1 2>"$build/$target.log"; then
    failed=1
    tail -n 60 "$build/$target.log" >&2
    say "fuzz: $target FAILED; to repeat: $build/$host/release/$target, with the file that is named above" >&2
  fi
  grep -E '^stat::number_of_executed_units|DONE|^#[0-9]+.*DONE' "$build/$target.log" || true
done
exit "$failed"
