# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""The tests in distributed-ucxx's wheel. What is skipped is printed with its reason, and a reason
that is not known here is an error."""

import collections
import importlib.util
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

# All tests that pass with UCXX itself where there is no GPU. Three more are slow: two of these need
# a GPU, and the other one has a time limit that two cores exceed, with UCXX itself too.
PASS = 25
PASS_CONFIG = 2
KNOWN = re.compile(
    "could not import '(cudf|cupy|numba|rmm)'|No CUDA device in non-MIG mode available"
    "|need --runslow option to run"
)
FOLDER = pathlib.Path(importlib.util.find_spec("distributed_ucxx").origin).parent / "tests"
# Their test of the configuration is skipped as a whole without RMM, which only another test of the
# same file uses.
WITHOUT_RMM = (
    "import pytest, sys, types; sys.modules['rmm'] = types.ModuleType('rmm'); "
    "sys.exit(pytest.main(sys.argv[1:]))"
)


def run(expected, *command):
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.xml"
        done = subprocess.run(
            [sys.executable, *command, "-q", "-p", "no:cacheprovider", f"--junitxml={report}"],
            cwd=folder, capture_output=True, text=True, timeout=900,
        )  # fmt: skip
        cases = list(xml.etree.ElementTree.parse(report).iter("testcase"))
    marks = [case.find("skipped") for case in cases]
    skipped = collections.Counter(
        mark.text.splitlines()[-1].partition("Skipped: ")[2].strip('")') or mark.get("message")
        for mark in marks
        if mark is not None
    )
    failed = [
        f"{case.get('classname')}.{case.get('name')}"
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    ]
    passed = len(cases) - sum(skipped.values()) - len(failed)
    print(f"distributed-ucxx: {passed} passed, {len(failed)} failed", flush=True)
    for reason, count in skipped.items():
        print(f"distributed-ucxx: {count} skipped: {reason}", flush=True)
    unknown = [reason for reason in skipped if not KNOWN.search(reason)]
    if failed or unknown or passed != expected:
        sys.exit(f"{done.stdout}{done.stderr}\nfailed: {failed}, unknown reasons: {unknown}")


run(PASS, "-m", "pytest", FOLDER)
FILE = FOLDER / "test_ucxx_config.py"
run(PASS_CONFIG, "-c", WITHOUT_RMM, f"{FILE}::test_ucx_config", f"{FILE}::test_schema")
