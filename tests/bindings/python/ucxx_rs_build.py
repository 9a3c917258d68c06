# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Generates the extension module `_ucxx_rs` from the installed header and questions.h, and compiles
it with questions.c.

    python ucxx_rs_build.py DIRECTORY        pkg-config must find ucxx_rs

Nothing of the interface is written down again: cffi reads the header's own declarations, and the
C compiler, which reads the header itself, refuses anything that cffi understood differently.

Uses cffi's API mode, not its ABI mode: a call costs less than half (no libffi). A wrong struct
layout is an error when the module is built, not a corrupted field at run time, and a wrong
enumerator is an error at import. In return the building machine needs a compiler; the running
one does not.
"""

import os
import pathlib
import shlex
import subprocess
import sys
import sysconfig
import tempfile

COMPILER = shlex.split(os.environ.get("CC", "gcc"))
# The part that no tool generates from the library's header: a handler that does not need the
# interpreter.
QUESTIONS = pathlib.Path(__file__).resolve().parent / "questions.c"


def declarations(include, header=None):
    """A header (the library's by default) after the preprocessor, without the text of system
    headers.
    """
    header = header or pathlib.Path(include) / "ucxx_rs.h"
    with tempfile.TemporaryDirectory() as empty:
        for name in ("stddef.h", "stdint.h"):
            (pathlib.Path(empty) / name).touch()
        command = [
            *COMPILER,
            "-E",
            "-P",
            "-std=c99",
            "-nostdinc",
            "-DUCXX_NODISCARD=",
            "-I",
            empty,
            "-I",
            str(include),
            str(header),
        ]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def pkg_config(*arguments):
    done = subprocess.run(
        ["pkg-config", *arguments, "ucxx_rs"], check=True, stdout=subprocess.PIPE, text=True
    )
    return shlex.split(done.stdout)


def build(directory):
    """The path of the compiled module."""
    import cffi

    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    source = directory / "_ucxx_rs.c"
    module = directory / f"_ucxx_rs{sysconfig.get_config_var('EXT_SUFFIX')}"
    ffi = cffi.FFI()
    ffi.cdef(declarations(*pkg_config("--variable=includedir"), QUESTIONS.with_suffix(".h")))
    ffi.set_source("_ucxx_rs", f'#include "{QUESTIONS.with_suffix(".h").name}"')
    ffi.emit_c_code(str(source))
    python = sysconfig.get_paths()["include"]
    rpaths = [f"-Wl,-rpath,{folder}" for folder in pkg_config("--variable=libdir")]
    flags = [
        "-O2",
        "-fPIC",
        "-pthread",
        "-shared",
        f"-I{python}",
        f"-I{QUESTIONS.parent}",
        *pkg_config("--cflags"),
    ]
    subprocess.run(
        [
            *COMPILER,
            *flags,
            str(source),
            str(QUESTIONS),
            "-o",
            str(module),
            *pkg_config("--libs"),
            *rpaths,
        ],
        check=True,
    )
    return module


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(build(sys.argv[1]))
