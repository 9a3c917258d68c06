# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Generates the C source of the extension module ucxx_rs._native with cffi, in its API mode.

    python build_native.py SOURCE INCLUDE

- SOURCE: the file to write. CMakeLists.txt compiles it.
- INCLUDE: the folder of ucxx_rs.h.

cffi reads the declarations of the installed header. The C compiler reads the header itself, and
refuses what cffi has understood differently.
"""

import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

MODULE = "ucxx_rs._native"


def declarations(include, header):
    """A header after the preprocessor, without the text of system headers."""
    with tempfile.TemporaryDirectory() as empty:
        for name in ("stddef.h", "stdint.h"):
            (pathlib.Path(empty) / name).touch()
        command = [
            *shlex.split(os.environ.get("CC", "cc")),
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
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def generate(source, include):
    import cffi

    ffi = cffi.FFI()
    ffi.cdef(declarations(include, pathlib.Path(include) / "ucxx_rs.h"))
    ffi.set_source(MODULE, "#include <ucxx_rs.h>")
    ffi.emit_c_code(str(source))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    generate(*sys.argv[1:])
