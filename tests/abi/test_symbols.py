#!/usr/bin/env python3
"""The installed library has exactly the header's functions as symbols, with this release's version;
and two releases can be loaded into one process.

tests/abi/test_symbols.py PREFIX [unittest's arguments]
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import header

PREFIX = None
COMPILER = os.environ.get("CC", "gcc").split()
# A library of another release, with another SONAME, as a second component of the process may have
# loaded it.
OTHER = """
const char *ucxx_status_name(int status) { (void)status; return "of the other release"; }
"""
PROGRAM = """
#include <stdio.h>
#include <ucxx_rs.h>
int main(void) { puts(ucxx_status_name(UCXX_OK)); return 0; }
"""


def output(*command, **options):
    return subprocess.run(
        [str(each) for each in command], stdout=subprocess.PIPE, text=True, check=True, **options
    ).stdout


class Symbols(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.library = Path(PREFIX) / "lib" / "libucxx_rs.so"
        taken = header.read(Path(PREFIX) / "include" / "ucxx_rs.h")
        cls.functions = sorted(function.name for function in taken.functions)
        cls.version = (
            f"{taken.version['UCXX_RS_VERSION_MAJOR']}.{taken.version['UCXX_RS_VERSION_MINOR']}"
        )
        cls.release = f"{cls.version}.{taken.version['UCXX_RS_VERSION_PATCH']}"
        cls.node = f"UCXX_RS_{cls.version}"

    def test_each_function_has_the_version(self):
        lines = [
            line.split() for line in output("nm", "-D", "--defined-only", self.library).splitlines()
        ]
        # GNU's linker also creates an absolute symbol for the version itself.
        self.assertLessEqual(
            {name.split("@")[0] for _, kind, name in lines if kind == "A"}, {self.node}
        )
        self.assertEqual(
            sorted(name for _, kind, name in lines if kind != "A"),
            [f"{name}@@{self.node}" for name in self.functions],
        )

    def test_the_library_defines_one_version_beside_its_soname(self):
        defined = output("readelf", "--version-info", "--wide", self.library).split(
            "Version needs section"
        )[0]
        names = re.findall(r"Name: (\S+)", defined)
        self.assertEqual(names, [f"libucxx_rs.so.{self.version}", self.node])

    def test_the_loader_leaves_nothing_to_write_but_data(self):
        dynamic = output("readelf", "--dynamic", "--wide", self.library)
        segments = output("readelf", "--segments", "--wide", self.library)
        self.assertRegex(dynamic, r"FLAGS.*BIND_NOW")
        self.assertNotIn("TEXTREL", dynamic)
        self.assertIn("GNU_RELRO", segments)
        self.assertRegex(segments, r"GNU_STACK.* RW ")
        self.assertNotIn("RWE", segments)

    def test_the_archive_exports_nothing_from_a_library_that_contains_it(self):
        archive = self.library.with_name("libucxx_rs.a")
        lines = output("readelf", "--symbols", "--wide", archive).splitlines()
        defined = [line.split() for line in lines if re.search(r" GLOBAL \S+ +\d+ ucxx_", line)]
        self.assertEqual(sorted(fields[7] for fields in defined), self.functions)
        self.assertEqual({fields[5] for fields in defined}, {"HIDDEN"})

    def test_two_releases_in_one_process_are_not_mixed(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            (folder / "other.map").write_text(
                "UCXX_RS_9.9 { global: ucxx_*; local: *; };\n", encoding="utf-8"
            )
            (folder / "other.c").write_text(OTHER, encoding="utf-8")
            (folder / "program.c").write_text(PROGRAM, encoding="utf-8")
            output(
                *COMPILER,
                "-shared",
                "-fPIC",
                folder / "other.c",
                "-Wl,-soname,libucxx_rs.so.9.9",
                f"-Wl,--version-script={folder / 'other.map'}",
                "-o",
                folder / "libother.so",
            )
            output(
                *COMPILER,
                "-I",
                Path(PREFIX) / "include",
                folder / "program.c",
                self.library,
                f"-Wl,-rpath,{self.library.parent.resolve()}",
                "-o",
                folder / "program",
            )
            environment = {**os.environ, "LD_PRELOAD": str(folder / "libother.so")}
            self.assertEqual(output(folder / "program", env=environment), "UCXX_OK\n")

    @unittest.skipUnless(shutil.which("dpkg-gensymbols"), "no dpkg-dev")
    def test_a_symbols_file_of_debian_falls_out(self):
        package = f"libucxx-rs{self.version}"
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "debian").mkdir()
            (Path(folder) / "debian" / "control").write_text(
                f"Source: ucxx-rs\n\nPackage: {package}\nArchitecture: any\n", encoding="utf-8"
            )
            said = output(
                "dpkg-gensymbols",
                f"-p{package}",
                f"-v{self.release}",
                f"-e{self.library.resolve()}",
                "-O",
                "-q",
                cwd=folder,
            )
        self.assertTrue(said.startswith(f"libucxx_rs.so.{self.version} {package} #MINVER#\n"), said)
        symbols = {line.strip() for line in said.splitlines()[1:]} - {
            f"{self.node}@{self.node} {self.release}"
        }
        self.assertEqual(symbols, {f"{name}@{self.node} {self.release}" for name in self.functions})


if __name__ == "__main__":
    PREFIX = sys.argv.pop(1)
    unittest.main()
