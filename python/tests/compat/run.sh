#!/usr/bin/env bash
# UCXX's own Python code on this library: makes an environment with UCXX's and Dask's packages at
# fixed versions and this package's wheel, puts ucxx_rs.compat in the place of UCXX's extension
# modules, and runs what is in this folder.
#
# Before that, the tests of this library's own backend of Dask, in the same environment.
#
#   python/tests/compat/run.sh PREFIX      an installed library: target/stage
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/../../../scripts/lib.sh"
prefix=$(cd "$1" && pwd)

packages=(cffi==2.1.1 cloudpickle==3.1.3 dask==2026.8.0 distributed==2026.8.0 jsonschema==4.26.0
  "libucx-cu12==${ucx_wheels[-1]}" numpy==2.4.6 nvidia-ml-py==13.615.71 pandas==3.1.1 psutil==7.2.2
  pyarrow==26.0.1 pytest==9.2.0)
# They need CUDA's packages, which their Python code does without.
theirs=(ucxx-cu12==0.52.0 distributed-ucxx-cu12==0.52.0)
python=$("$root/scripts/venv.sh" --name compat "${packages[@]}")
wheel=$("$root/scripts/wheel.sh" --prefix "$prefix" | tail -n 1)
environment=$(dirname "$(dirname "$python")")
"$python" -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall \
  "${theirs[@]}" "$wheel" >&2 || die "pip could not install: ${theirs[*]} $wheel"

# The wheel of UCX, which UCXX's Python code needs in place of an older one of the system.
unset LD_LIBRARY_PATH
export UCXX_RS_UCX=wheel PYTHONDONTWRITEBYTECODE=1
cd "$here"
# Dask on this library without UCXX's packages.
"$python" ../dask/test_distributed.py
"$python" -m ucxx_rs.compat install "$environment"
"$python" -m pytest -q -p no:cacheprovider test_compat.py
"$python" benchmarks.py
"$python" shuffle.py
"$python" plugin_tests.py
# The environment is as before afterwards.
"$python" -m ucxx_rs.compat uninstall "$environment"
folder=$("$python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')/ucxx/_lib
for module in libucxx arr; do
  [ -e "$folder/$module.abi3.so" ] || die "uninstall has not brought back $module"
done
say "compat: passed"
