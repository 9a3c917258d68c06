# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Generates the extension module `_ucxx_rs` from the installed header, and compiles it.

    python ucxx_rs_build.py DIRECTORY        pkg-config has to find ucxx_rs

Nothing of the interface is written down a second time: cffi reads the header's own declarations, and the C compiler, which sees the
header itself, refuses whatever cffi understood differently.

cffi's API mode, not its ABI mode: a call then costs less than half (no libffi between), a struct whose layout was read wrongly is an
error when the module is built and not a corrupted field when it runs, and an enumerator with a wrong value is one when it is imported.
The price is a compiler on the machine that builds; the one that runs needs none.
"""

import os
import pathlib
import shlex
import subprocess
import sys
import sysconfig
import tempfile

COMPILER = shlex.split(os.environ.get("CC", "gcc"))


def declarations(include):
    """The header after the preprocessor, without the text of the system's headers."""
    with tempfile.TemporaryDirectory() as empty:
        for name in ("stdbool.h", "stddef.h", "stdint.h"):
            (pathlib.Path(empty) / name).touch()
        command = [*COMPILER, "-E", "-P", "-std=c99", "-nostdinc", "-I", empty, str(pathlib.Path(include) / "ucxx_rs.h")]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def pkg_config(*arguments):
    done = subprocess.run(["pkg-config", *arguments, "ucxx_rs"], check=True, stdout=subprocess.PIPE, text=True)
    return shlex.split(done.stdout)


def build(directory):
    """The path of the compiled module."""
    import cffi

    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    source = directory / "_ucxx_rs.c"
    module = directory / f"_ucxx_rs{sysconfig.get_config_var('EXT_SUFFIX')}"
    ffi = cffi.FFI()
    ffi.cdef(declarations(*pkg_config("--variable=includedir")))
    ffi.set_source("_ucxx_rs", "#include <ucxx_rs.h>")
    ffi.emit_c_code(str(source))
    python = sysconfig.get_paths()["include"]
    rpaths = [f"-Wl,-rpath,{folder}" for folder in pkg_config("--variable=libdir")]
    flags = ["-O2", "-fPIC", "-shared", f"-I{python}", *pkg_config("--cflags")]
    subprocess.run([*COMPILER, *flags, str(source), "-o", str(module), *pkg_config("--libs"), *rpaths], check=True)
    return module


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(build(sys.argv[1]))
