#!/usr/bin/env bash
# Tests the Python package, built against an installed library, on the UCX that the loader finds.
#
#   python/tests/run.sh PREFIX [TEST ...]     PREFIX: an installed package; TEST as for unittest
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/../../scripts/lib.sh"
prefix=$(cd "$1" && pwd)
shift

python=$("$root/scripts/venv.sh" --name python cffi==2.1.1 mypy==2.4.1 numpy==2.4.6 uvloop==0.22.1)
module=$target_dir/python
export PYTHONDONTWRITEBYTECODE=1
"$python" "$root/python/build_folder.py" "$module" "$prefix"
# distributed.py needs the types of Dask.
(cd "$module" && find ucxx_rs -name '*.py' ! -name distributed.py -print0 |
  xargs -0 "$python" -m mypy --strict --no-error-summary --cache-dir "$target_dir/mypy")

# Warnings are errors: an endpoint or a worker that a test did not close causes one.
run() (
  cd "$here" &&
    UCXX_RS_UCX=system PYTHONPATH=$module:$root/tests "$python" -W error -m unittest "$@"
)
if [ $# -gt 0 ]; then
  run --verbose "$@"
  exit
fi
# In three processes, because most tests wait most of the time.
result=0 at=0 shares=("" "" "") running=()
for test in "$here"/test_*.py; do
  shares[at % 3]+=" $(basename "$test" .py)"
  at=$((at + 1))
done
for at in 0 1 2; do
  # shellcheck disable=SC2086
  run ${shares[at]} >"$target_dir/python-tests-$at.log" 2>&1 &
  running+=($!)
done
for at in 0 1 2; do
  wait "${running[at]}" || result=1
  cat "$target_dir/python-tests-$at.log"
done
exit "$result"
