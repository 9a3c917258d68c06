#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Holds what does not vary from run to run: how many instructions of this library an operation
takes, at three sizes, and that it needs no allocation and no system call.

UCX's own instructions are not counted: they depend on its release, and on the processor. Those of
the warm-up are, so the counts are larger than those of run.py.

  benches/hold.py PREFIX             compares with benches/instructions.json
  benches/hold.py PREFIX --update    writes it, after a change that is meant
"""

import argparse
import json
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # do not write into the source tree

from suite.build import Programs  # noqa: E402
from suite.count import measure_count, profile  # noqa: E402
from suite.measure import Runner, default_cpus  # noqa: E402
from suite.rows import ROWS, Column, Count, Target  # noqa: E402

HERE = Path(__file__).resolve().parent
FILE = HERE / "instructions.json"
# Compilers differ by this much, and by this many instructions where there are few.
PERCENT, FEW = 4, 4
# What is inlined into programs, and what waits for seconds or for other threads.
LEFT_OUT = ("idle_", "c_call_", "cpp_", "allocations_delayed_")


def of_this_library(runner, row):
    """Instructions of one operation within libucxx_rs."""
    functions = profile(runner, row, Column("ours"))
    return round(sum(number for number, name in functions if "[libucxx_rs.so" in name))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("prefix", type=Path, help="where ucxx_rs is installed")
    parser.add_argument("--update", action="store_true", help="write benches/instructions.json")
    parser.add_argument("--out", type=Path, default=HERE.parent / "target/hold")
    options = parser.parse_args()
    programs = Programs(options.out.resolve() / "bin", options.prefix.resolve(), None)
    runner = Runner(programs, None, "peer", default_cpus())
    rows = [row for row in ROWS if isinstance(row, Count) and not row.name.startswith(LEFT_OUT)]

    counted = {row.name: of_this_library(runner, row) for row in rows if row.what == "instructions"}
    if options.update:
        FILE.write_text(json.dumps(counted, indent=2) + "\n")
        return 0
    known = json.loads(FILE.read_text())
    wrong = [f"{name}: not in {FILE.name}" for name in counted.keys() - known.keys()]
    wrong += [f"{name}: in {FILE.name}, and not a row" for name in known.keys() - counted.keys()]
    for name in [name for name in counted if name in known]:
        now, before = counted[name], known[name]
        print(f"{name:40} {now:6} instructions, {before} before")
        if abs(now - before) > before * PERCENT / 100 + FEW:
            wrong.append(f"{name}: {now} instructions, {before} before")
    for row in rows:
        if Target("ours", 0) in row.targets:
            values, _, missing = measure_count(runner, row, lambda text: None)
            found = values.get("ours", missing.get("ours"))
            print(f"{row.name:40} {found} {row.what}")
            if found != 0:
                wrong.append(f"{row.name}: {found} {row.what}, none before")
    if wrong:
        print("\n".join(["", *sorted(wrong)]), file=sys.stderr)
        print("If the change is meant: benches/hold.py PREFIX --update", file=sys.stderr)
    return 1 if wrong else 0


sys.exit(main())
