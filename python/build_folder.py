# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Makes a folder that Python can import the package from, without installing it.

    python build_folder.py FOLDER PREFIX [RUNPATH]

- FOLDER: gets a folder ucxx_rs with the package and its compiled module. `PYTHONPATH=FOLDER`.
- PREFIX: where the library is installed. The module finds it there, or in RUNPATH.

For the tests, the benchmarks and the bundle for GPUs. Users install the package with pip.
"""

import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import sysconfig

import build_native

PACKAGE = pathlib.Path(__file__).resolve().parent / "ucxx_rs"
# The module uses no more of Python's interface than this version has, as in the wheel.
LIMITED_API = "0x03090000"


def pkg_config(prefix, *arguments):
    folders = sorted(prefix.glob("lib*/pkgconfig")) + sorted(prefix.glob("lib/*/pkgconfig"))
    environment = {**os.environ, "PKG_CONFIG_PATH": ":".join(map(str, folders))}
    command = ["pkg-config", *arguments, "ucxx_rs"]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return shlex.split(done.stdout)


def build(folder, prefix, *runpath):
    made = pathlib.Path(folder) / PACKAGE.name
    shutil.rmtree(made, ignore_errors=True)
    made.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(PACKAGE, made, ignore=shutil.ignore_patterns("__pycache__"))
    source = made / "_native.c"
    prefix = pathlib.Path(prefix).resolve()
    build_native.generate(source, *pkg_config(prefix, "--variable=includedir"))
    command = [
        *shlex.split(os.environ.get("CC", "cc")),
        "-O2",
        "-fPIC",
        "-shared",
        f"-DPy_LIMITED_API={LIMITED_API}",
        f"-I{sysconfig.get_paths()['include']}",
        *pkg_config(prefix, "--cflags"),
        str(source),
        "-o",
        str(made / "_native.abi3.so"),
        *pkg_config(prefix, "--libs"),
        *[f"-Wl,-rpath,{each}" for each in runpath or pkg_config(prefix, "--variable=libdir")],
    ]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    build(*sys.argv[1:])
