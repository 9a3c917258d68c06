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

# All tests that pass with UCXX itself where there is no GPU.
PASS = 26
PASS_CONFIG = 2
KNOWN = re.compile(
    "could not import '(cudf|cupy|numba|rmm)'|No CUDA device in non-MIG mode available"
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
    skipped = collections.Counter(
        case.find("skipped").get("message") for case in cases if case.find("skipped") is not None
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


run(PASS, "-m", "pytest", FOLDER, "--runslow")
run(
    PASS_CONFIG, "-c", WITHOUT_RMM, FOLDER / "test_ucxx_config.py",
    "-k", "test_schema or (test_ucx_config and not env)",
)  # fmt: skip
