"""The tests that the stress runs: the C tests and examples registered with ctest, and short runs of
the fault harness.
"""

import json
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Tests that stop and continue processes themselves: the stress would interfere.
STOPS = re.compile(r"SIGSTOP|kill_in_a_call|stop_in_a_call|kill_anywhere|killed_peer\.h")
# Tests that wait for what UCX detects by its keepalive alone. A process of another host, or of one
# that is taken for it, is not watched otherwise, and neither is a program of plain UCX.
NEEDS_KEEPALIVE = re.compile(r"^(connect_abandoned\.|foreign_peer\.|stencil_hosts_)")
# What dump.c, which is loaded before the library, cannot watch: a constructor of a loaded library
# holds the loader's lock, and copies that are loaded locally are not among the symbols after it.
NO_DUMP = re.compile(r"^(load_in_constructor|library_copies_local)\.")
# Seconds when run alone, if ctest has not run it yet.
UNKNOWN = 2.0


class Case:
    def __init__(self, name, command, environment, folder, cost, stops, patience=None):
        self.name = name
        self.command = command
        self.environment = environment
        self.folder = folder
        self.cost = cost  # approximate seconds when run alone
        self.may_be_stopped = stops
        self.is_dumped = not NO_DUMP.match(name)
        # Seconds within which it must end once nothing disturbs it any more: many times its time
        # alone.
        self.patience = patience or 45 + 8 * cost


def costs(logs):
    """The time of each test in ctest's last run, which left its logs in that folder."""
    found = {}
    try:
        for line in (
            (logs / "Testing/Temporary/CTestCostData.txt").read_text(encoding="utf-8").splitlines()
        ):
            words = line.split()
            if len(words) == 3 and words[1] != "0":
                found[words[0]] = float(words[2])
    except OSError:
        pass
    return found


def of_ctest(folder, sources, logs):
    """The tests of a build folder, except those under valgrind, and those not built here."""
    listed = subprocess.run(
        ["ctest", "--test-dir", folder, "--show-only=json-v1"],
        capture_output=True,
        text=True,
        check=True,
    )
    known = costs(logs)
    texts = {path.stem: path for path in sources.rglob("*.c")}
    cases = []
    for test in json.loads(listed.stdout)["tests"]:
        properties = {entry["name"]: entry["value"] for entry in test.get("properties", [])}
        if "valgrind" in properties.get("LABELS", []) or properties.get("DISABLED"):
            continue
        environment = dict(pair.split("=", 1) for pair in properties.get("ENVIRONMENT", []))
        cost = known.get(test["name"], UNKNOWN)
        is_known = test["name"] in known and not properties.get("RUN_SERIAL")
        cases.append(
            Case(
                test["name"],
                test["command"],
                environment,
                properties.get("WORKING_DIRECTORY", str(folder)),
                cost,
                not stops_itself(test["command"], texts),
                None if is_known else 300,
            )
        )
    return cases


def stops_itself(command, texts):
    """Does the test stop processes? A script does if it kills any."""
    for word in command:
        path = Path(word)
        source = path if path.suffix in (".sh", ".py") else texts.get(path.name)
        if source and source.is_file() and STOPS.search(source.read_text(encoding="utf-8")):
            return True
    return False


def of_faults(prefix, build):
    """One round each of the fault harness; the stress gives the seed."""
    command = [
        "python3",
        str(ROOT / "tests/faults/run.py"),
        "--prefix",
        str(prefix),
        "--build",
        str(build),
        "--built",
        "--rounds",
        "1",
        "--watchdog",
        "300",
    ]
    return Case("faults", command, {}, str(ROOT), 5.0, False, 600)
