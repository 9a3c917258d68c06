#!/usr/bin/env python3
"""Reports the tests that failed in ctest's last run: ended by UCX at a known line, or failed.

    tests/ctest_report.py BUILD UCX WORDS ENDED

BUILD is ctest's folder, UCX the release that the tests ran on. The last output of each failed test
is written to the file WORDS, and a line for each test ended by UCX to the file ENDED. The exit
status is 0 if UCX ended all that failed.
"""

import re
import sys
from pathlib import Path

import ucx_ends

KEPT = 12  # lines of output kept for each test


def sections(log):
    """The output of each test in the log, by name."""
    found = {}
    for part in re.split(r"^\d+/\d+ Testing: ", log, flags=re.MULTILINE)[1:]:
        name, _, rest = part.partition("\n")
        said = re.search(r"^Output:\n-+\n(.*?)^<end of output>", rest, re.MULTILINE | re.DOTALL)
        found[name.strip()] = said.group(1) if said else ""
    return found


def main():
    build, ucx, words, ended = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4])
    logs = build / "Testing/Temporary"
    failed_list = logs / "LastTestsFailed.log"
    # Without it ctest itself has failed.
    failed = (
        [line.split(":", 1)[1] for line in failed_list.read_text(encoding="utf-8").splitlines()]
        if failed_list.exists()
        else []
    )
    said = sections((logs / "LastTest.log").read_text(encoding="utf-8", errors="replace"))
    lines = {name: ucx_ends.in_test(name, said.get(name, ""), ucx) for name in failed}
    with open(words, "a", encoding="utf-8") as output:
        for name in (name for name in failed if not lines[name]):
            print(f"--- {name}", *said.get(name, "").splitlines()[-KEPT:], sep="\n", file=output)
    with open(ended, "a", encoding="utf-8") as output:
        for name in (name for name in failed if lines[name]):
            print(f"ended by UCX: {lines[name]}: {name} on {ucx}", file=output)
    return 0 if failed and all(lines.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
