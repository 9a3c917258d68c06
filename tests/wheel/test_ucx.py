#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Which UCX python/ucxx_rs/_ucx.py takes, with made-up candidates: nothing is loaded."""

import importlib.util
import os
import pathlib
import tempfile
import unittest
from unittest import mock

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "python/ucxx_rs/_ucx.py"
WHEEL = "/packages/libucx/lib"
ELSEWHERE = "/elsewhere"


class Choice(unittest.TestCase):
    def choose(self, wanted="", system=None, wheel=None, loaded=None, elsewhere=None):
        """The used UCX, where there are these versions: the version, and the reason."""
        spec = importlib.util.spec_from_file_location("_ucx", SOURCE)
        ucx = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(ucx)
        versions = {None: system, WHEEL: wheel, ELSEWHERE: elsewhere}

        def open_all(folder):
            if versions[folder] is None:
                raise ImportError(ucx.REMEDY)
            return folder or "/usr/lib", versions[folder]

        def described(found, why):
            return found and ucx.Ucx(os.path.join(found[0], "libucp.so.0"), found[1], why)

        replaced = {
            "_loaded": lambda: loaded,
            "_open_all": open_all,
            "_described": described,
            "_wheel": lambda: wheel and WHEEL,
            "_wheel_version": lambda folder: None if wheel == "unknown" else wheel,
            "_probe": lambda library: system if library == "libucp.so.0" else None,
            "_folder": lambda folder: folder,
        }
        with mock.patch.multiple(ucx, **replaced):
            with mock.patch.dict(os.environ, {"UCXX_RS_UCX": wanted}):
                found = ucx.load()
                self.assertIs(ucx.load(), found)
        return found.version, found.why

    def refused(self, words, **candidates):
        with self.assertRaisesRegex(ImportError, words):
            self.choose(**candidates)

    def test_the_newer_one(self):
        self.assertEqual(
            self.choose(system="1.13.1", wheel="1.22.0"),
            ("1.22.0", "the installed wheel; the system has 1.13.1"),
        )
        self.assertEqual(
            self.choose(system="1.22.0", wheel="1.9.0"),
            ("1.22.0", "the system's UCX; the installed wheel has 1.9.0"),
        )
        # As numbers, not as text.
        self.assertEqual(self.choose(system="1.100.0", wheel="1.22.0")[0], "1.100.0")
        self.assertEqual(self.choose(system="1.22.0", wheel="1.22.1rc1")[0], "1.22.1rc1")
        self.assertEqual(self.choose(system="1.22.0", wheel="1.22.0.post1")[0], "1.22.0.post1")

    def test_one_alone(self):
        self.assertEqual(self.choose(system="1.14.0")[0], "1.14.0")
        self.assertEqual(self.choose(wheel="1.20.0")[0], "1.20.0")

    def test_a_wheel_that_cannot_be_asked(self):
        self.assertEqual(self.choose(system="1.14.0", wheel="unknown")[0], "1.14.0")

    def test_the_variable_decides(self):
        both = {"system": "1.13.1", "wheel": "1.22.0", "elsewhere": "1.15.0"}
        self.assertEqual(self.choose("system", **both), ("1.13.1", "UCXX_RS_UCX=system"))
        self.assertEqual(self.choose("wheel", **both), ("1.22.0", "UCXX_RS_UCX=wheel"))
        self.assertEqual(self.choose(ELSEWHERE, **both)[0], "1.15.0")

    def test_a_loaded_one_stays(self):
        for wanted in "", "system":
            found = self.choose(wanted, system="1.22.0", loaded=("/usr/lib", "1.18.0"))
            self.assertEqual(found, ("1.18.0", "the process had loaded it before"))

    def test_a_loaded_one_against_the_variable(self):
        loaded = ("/usr/lib", "1.18.0")
        for wanted in "wheel", ELSEWHERE:
            with self.assertWarnsRegex(RuntimeWarning, f"UCXX_RS_UCX={wanted} has no effect"):
                self.choose(wanted, wheel="1.22.0", loaded=loaded)
        with self.assertWarns(RuntimeWarning):
            self.choose("system", wheel="1.22.0", loaded=(WHEEL, "1.22.0"))

    def test_none(self):
        self.refused("pip install 'ucxx-rs.ucx.'.*libucx0")
        self.refused("pip install 'ucxx-rs.ucx.'", wanted="wheel", system="1.20.0")
        self.refused("libucx0", wanted="system", wheel="1.20.0")

    def test_too_old(self):
        for old in {"system": "1.12.1"}, {"wheel": "1.9.0"}, {"loaded": ("/usr/lib", "1.12.0")}:
            self.refused("1.13 or newer; /.*/libucp.so.0 is 1[.].*pip install", **old)

    def test_a_folder_without_ucx(self):
        with tempfile.TemporaryDirectory() as empty:
            with mock.patch.dict(os.environ, {"UCXX_RS_UCX": empty}):
                spec = importlib.util.spec_from_file_location("_ucx", SOURCE)
                ucx = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(ucx)
                with self.assertRaisesRegex(ImportError, "neither 'system' nor 'wheel', nor a f"):
                    ucx.load()


if __name__ == "__main__":
    unittest.main()
