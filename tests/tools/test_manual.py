#!/usr/bin/env python3
"""Man pages and bash completion of the installed tools have exactly the options that --help prints.

tests/tools/test_manual.py PREFIX [unittest's arguments]
"""

import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from running import environment

PREFIX = Path()
SOURCES = Path(__file__).resolve().parents[2] / "tools"
TOOLS = ("ucxx_rs_info", "ucxx_rs_perftest", "ucxx_rs_perfplot", "ucxx_rs_group")
OPTION = re.compile(r"(?<![\w-])(?:--[a-z][a-z-]*[a-z]|-[A-Za-z0-9])(?![\w-])")
# Used by the tool itself: tools/info_lanes.c.
INTERNAL = {"--answer-on"}
# A value of --delayed that equals leaving it out.
UNDOCUMENTED = {"default"}


def run_tool(name, *arguments):
    done = subprocess.run(
        [PREFIX / "bin" / name, *arguments],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stdout + done.stderr


def options_of_help(name):
    return set(OPTION.findall(run_tool(name, "--help")))


def page(name, section=1):
    path = PREFIX / "share" / "man" / f"man{section}" / f"{name}.{section}"
    return path.read_text().replace("\\-", "-")


def completed(name, *words):
    """What bash offers to complete the last word."""
    script = (
        'source "$1"; name=$2; shift 2; COMP_WORDS=("$name" "$@"); COMP_CWORD=$#; '
        'COMPREPLY=(); "_$name"; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    path = PREFIX / "share" / "bash-completion" / "completions" / name
    done = subprocess.run(
        ["bash", "-uc", script, "bash", path, name, *words],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not done.stderr, done.stderr
    return set(done.stdout.split())


class Manual(unittest.TestCase):
    def test_help_names_the_options_that_getopt_takes(self):
        for name, source in (
            ("ucxx_rs_info", "info.c"),
            ("ucxx_rs_perftest", "perf_options.c"),
        ):
            text = (SOURCES / source).read_text()
            taken = {"--" + long for long in re.findall(r'\{"([a-z-]+)", \w+_argument', text)}
            short = re.search(r'getopt_long\(argc, argv, "([^"]+)"', text).group(1)
            taken |= {"-" + letter for letter in short if letter != ":"}
            with self.subTest(name):
                self.assertEqual(taken - INTERNAL, options_of_help(name))

    def test_the_page_has_the_options_of_help(self):
        for name in TOOLS:
            text = page(name)
            heads = set(OPTION.findall("\n".join(re.findall(r"^\.TP\n(.*)$", text, re.M))))
            with self.subTest(name):
                self.assertEqual(heads, options_of_help(name))
                own = text[: text.index(".SH SEE ALSO")]
                self.assertLessEqual(set(OPTION.findall(own)), options_of_help(name))

    def test_completion_has_the_options_of_help(self):
        for name in TOOLS:
            with self.subTest(name):
                if name == "ucxx_rs_group":
                    self.assertEqual(options_of_help(name), set())
                    self.assertIn("bash", completed(name, "2", "bas"))
                    continue
                self.assertEqual(completed(name, "-"), options_of_help(name))
                long = {option for option in options_of_help(name) if option.startswith("--ver")}
                self.assertEqual(completed(name, "--ver"), long)

    def test_completion_has_the_words_that_an_option_takes(self):
        name = "ucxx_rs_perftest"
        for option in (
            "--progress",
            "--wait",
            "--thread-mode",
            "--delayed",
            "--error-handling",
            "--memory",
        ):
            known = run_tool(name, "--self", option, "?").split("none of ")[1]
            with self.subTest(option):
                words = set(re.findall(r"[a-z]+", known)) - UNDOCUMENTED
                self.assertEqual(completed(name, option, ""), words)
                # bash splits --option= in this way.
                self.assertEqual(completed(name, option, "="), words)
                self.assertEqual(completed(name, option, "=", ""), words)
        tests = set(re.findall(r"^\w+", run_tool(name, "--list"), re.M))
        self.assertEqual(completed(name, "-t", ""), tests)
        self.assertEqual(completed(name, "--size", "-"), set())

    def test_the_overview_has_the_variables_of_the_library(self):
        known = re.findall(r"UCXX_RS_[A-Z_]+", run_tool("ucxx_rs_info", "--environment"))
        heads = re.findall(r"^\.TP\n\.B (UCXX_RS_\w+)$", page("ucxx_rs", 7), re.M)
        self.assertEqual(set(heads), set(known))

    def test_the_pages_are_well_formed(self):
        checkers = [
            command
            for command in (["mandoc", "-Tlint"], ["groff", "-man", "-ww", "-z"])
            if shutil.which(command[0])
        ]
        if not checkers:
            self.skipTest("neither mandoc nor groff is here")
        version = run_tool("ucxx_rs_info", "--version").split()[1]
        for name, section in [(name, 1) for name in TOOLS] + [("ucxx_rs", 7)]:
            path = PREFIX / "share" / "man" / f"man{section}" / f"{name}.{section}"
            self.assertIn(f'"ucxx_rs {version}"', path.read_text())
            for command in checkers:
                with self.subTest(f"{command[0]} {name}"):
                    done = subprocess.run([*command, path], capture_output=True, text=True)
                    self.assertEqual(done.stdout + done.stderr, "")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    PREFIX = Path(sys.argv.pop(1))
    unittest.main(verbosity=2)
