# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""`python -m ucxx_rs`: prints where the package is, for builds in C and C++, and runs its tools."""

from __future__ import annotations

import argparse
import os
from importlib.util import find_spec

from . import _ucx

FOLDERS = {
    "prefix": "",
    "include-dir": "include",
    "lib-dir": "lib",
    "pkgconfig-dir": "lib/pkgconfig",
    "cmake-dir": "lib/cmake/ucxx_rs",
}
TOOLS = {"info": "ucxx_rs_info", "perftest": "ucxx_rs_perftest"}
EXAMPLES = """\
a program in C, with pkg-config:
  export PKG_CONFIG_PATH=$(python -m ucxx_rs --pkgconfig-dir)
  gcc prog.c $(pkg-config --cflags --libs ucxx_rs)
  LD_LIBRARY_PATH=$(python -m ucxx_rs --library-path) ./a.out

with CMake:
  cmake -S . -B build -Ducxx_rs_DIR=$(python -m ucxx_rs --cmake-dir)

UCXX_RS_UCX=system, UCXX_RS_UCX=wheel or UCXX_RS_UCX=/path/to/lib chooses the UCX. Without it, the
newer one of the system's UCX and that of an installed wheel (libucx-cu12, libucx-cu13) is used.
"""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m ucxx_rs",
        description="Prints where this package is, for builds in C and C++, and runs its tools.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    one = made.add_mutually_exclusive_group(required=True)

    def prints(name: str, what: str) -> None:
        one.add_argument(f"--{name}", dest="what", action="store_const", const=name, help=what)

    prints("version", "print the version of this package")
    prints("ucx", "print which UCX is used, from where, and why")
    prints("prefix", "print the folder that contains the following ones")
    prints("include-dir", "print the folder of ucxx_rs.h and ucxx_rs.hpp")
    prints("lib-dir", "print the folder of libucxx_rs.so")
    prints("pkgconfig-dir", "print the folder of ucxx_rs.pc, for PKG_CONFIG_PATH")
    prints("cmake-dir", "print the folder of ucxx_rs-config.cmake, for -Ducxx_rs_DIR")
    prints("library-path", "print the folders of the library and of the UCX, for LD_LIBRARY_PATH")
    for name, tool in TOOLS.items():
        one.add_argument(
            f"--{name}",
            nargs=argparse.REMAINDER,
            metavar="ARGUMENT",
            help=f"run {tool} with these arguments, on that UCX",
        )
    return made


def prefix() -> str:
    """The folder of the compiled module: an editable installation has this file elsewhere."""
    spec = find_spec("ucxx_rs._native")
    assert spec is not None and spec.origin is not None
    return os.path.dirname(spec.origin)


def library_path() -> str:
    # The own folder is first: the folder of the UCX may contain another release of the library.
    return os.pathsep.join([os.path.join(prefix(), "lib"), _ucx.load().folder])


def run(tool: str, arguments: list[str]) -> None:
    program = os.path.join(prefix(), "bin", tool)
    before = os.environ.get("LD_LIBRARY_PATH")
    path = library_path() + (os.pathsep + before if before else "")
    os.execve(program, [program, *arguments], {**os.environ, "LD_LIBRARY_PATH": path})


def main() -> None:
    options = parser().parse_args()
    for name, tool in TOOLS.items():
        arguments: list[str] | None = getattr(options, name)
        if arguments is not None:
            run(tool, arguments)
    if options.what == "version":
        from importlib.metadata import version

        print(version("ucxx-rs"))
    elif options.what == "ucx":
        ucx = _ucx.load()
        print(f"UCX {ucx.version}, {ucx.path}: {ucx.why}")
    elif options.what == "library-path":
        print(library_path())
    else:
        print(os.path.join(prefix(), FOLDERS[options.what]).rstrip(os.sep))


if __name__ == "__main__":
    main()
