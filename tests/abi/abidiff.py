#!/usr/bin/env python3
"""Compares the ABI of an installed library with the recorded one, by libabigail: a second opinion
beside snapshot.py.

    tests/abi/abidiff.py PREFIX             fails where the two differ
    tests/abi/abidiff.py PREFIX --update    writes libucxx_rs.abi anew, as snapshot.py --update does
                                            for snapshot.txt

libabigail reads types from debug information, and the library's own describes Rust's types. So it
compares a library of empty C functions: their types are the header's, and their names, versions
and SONAME are the installed library's. A function that the header has without the library, or the
library without the header, is an error of the linker or a difference.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import header as header_file
import snapshot

RECORDED = Path(__file__).resolve().with_name("libucxx_rs.abi")


def stand_in(prefix, include, folder):
    """Links the empty functions, and returns the library's path."""
    soname, *symbols = snapshot.binary(Path(prefix) / "lib" / "libucxx_rs.so")
    soname = soname.removeprefix("library: ")
    source, versions = ["#include <ucxx_rs.h>"], {}
    for function in header_file.read(include / "ucxx_rs.h").functions:
        parameters = [
            f"__typeof__({each.type}) p{place}" for place, each in enumerate(function.parameters)
        ]
        source.append(
            f"{function.result} {function.name}({', '.join(parameters) or 'void'}) {{ __builtin_trap(); }}"
        )
    for symbol in symbols:
        name, version = re.fullmatch(r"symbol (\w+)@@(\S+)", symbol).groups()
        versions.setdefault(version, []).append(name)
    script, library = folder / "versions", folder / soname
    script.write_text(
        "".join(
            f"{version} {{ global: {' '.join(f'{name};' for name in names)} local: *; }};\n"
            for version, names in versions.items()
        )
    )
    options = ["-std=c11", "-w", "-g", "-gdwarf-4", "-shared", "-fPIC", "-I", include]
    linking = [f"-Wl,-soname,{soname}", f"-Wl,--version-script={script}"]
    subprocess.run(
        ["gcc", *options, "-x", "c", "-", *linking, "-Wl,--no-undefined-version", "-o", library],
        input="\n".join(source),
        text=True,
        check=True,
    )
    return library


def record(library):
    """Without what differs between machines: folders, and line numbers."""
    command = ["abidw", "--no-show-locs", "--no-corpus-path", "--no-comp-dir-path"]
    command += ["--type-id-style", "hash"]
    return subprocess.run([*command, library], stdout=subprocess.PIPE, text=True, check=True).stdout


def differences(recorded, library):
    """What abidiff prints. It is empty if there is no difference, additions included."""
    done = subprocess.run(
        ["abidiff", "--no-show-locs", recorded, library], stdout=subprocess.PIPE, text=True
    )
    if done.returncode & 3:
        raise SystemExit(f"abidiff failed: {done.stdout}")
    return done.stdout if done.returncode else ""


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("prefix")
    arguments.add_argument("--update", action="store_true")
    options = arguments.parse_args()
    if not shutil.which("abidiff"):
        print("abidiff: not installed, so nothing is compared")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        include = Path(options.prefix) / "include"
        library = stand_in(options.prefix, include, Path(folder))
        if options.update:
            RECORDED.write_text(record(library), encoding="utf-8")
            print(f"abidiff: {RECORDED.stat().st_size} bytes written")
            return 0
        found = differences(RECORDED, library)
        if found:
            print(found, file=sys.stderr)
            print(
                f"abidiff: the library differs from {RECORDED.name}; after snapshot.py --update: tests/abi/abidiff.py PREFIX --update",
                file=sys.stderr,
            )
            return 1
        # It must be able to fail: with a member more in a struct.
        text = (include / "ucxx_rs.h").read_text(encoding="utf-8")
        old = "  int32_t memory_type;\n"
        changed = Path(folder) / "ucxx_rs.h"
        changed.write_text(text.replace(old, old + "  uint64_t more;\n", 1), encoding="utf-8")
        found = differences(RECORDED, stand_in(options.prefix, Path(folder), Path(folder)))
        if "uint64_t more" not in found:
            print(f"abidiff: a new member is not found: {found}", file=sys.stderr)
            return 1
    print("abidiff: no difference")
    return 0


if __name__ == "__main__":
    sys.exit(main())
