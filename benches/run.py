#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Measures this library against raw UCP, UCXX, Open MPI and MPICH in the same run.

Rounds are interleaved (raw, ours, peer, raw, ours, peer, ...), and each round has its own
processes. The result is the median of the ratios, because absolute times mean little on a shared
machine. If a row cannot be run, the report gives the reason and no value.
"""

import argparse
import contextlib
import fnmatch
import itertools
import json
import os
import signal
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # do not write into the source tree

from suite import Unavailable  # noqa: E402
from suite.build import Programs, fetch_python_ucxx, fetch_ucxx  # noqa: E402
from suite.count import measure_count, profile  # noqa: E402
from suite.curves import curve_lines, curves  # noqa: E402
from suite.many import ROWS as MANY_ROWS  # noqa: E402
from suite.measure import Runner, default_cpus, measure_row  # noqa: E402
from suite.report import count_row, environment_facts, table, timed_rows  # noqa: E402
from suite.rows import ROWS as OTHER_ROWS  # noqa: E402
from suite.rows import Column, Count
from suite.sizes import ROWS as SIZE_ROWS  # noqa: E402
from suite.windows import ROWS as WINDOW_ROWS  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
ROWS = [*OTHER_ROWS, *SIZE_ROWS, *MANY_ROWS, *WINDOW_ROWS]
# Of --quick: three sizes and numbers of each kind, and what is counted.
QUICK_ROWS = (
    "*_1B_*shm,*_200B_*shm,*_8KiB_*shm,many_*_1,many_*_16,many_*_256,many_*_1024,"
    "latency_8B_*,rate_8B_*,bandwidth_1MiB_*,hub_cycle_*,allocations_*,syscalls_*"
)


def arguments():
    out = ROOT / "target" / "bench"
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--prefix", type=Path, help="where ucxx_rs is installed (its include/ and lib/)"
    )
    parser.add_argument(
        "--ucx", type=Path, metavar="LIBDIR", help="run everything on the UCX in this directory"
    )
    parser.add_argument(
        "--rows",
        metavar="PATTERNS",
        help="comma-separated names or patterns, e.g. 'latency_*,syscalls_*'",
    )
    parser.add_argument(
        "--rounds", type=int, help="rounds of each timed row (default 7, with --quick 1)"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="some rows of each kind, one round each, without UCXX and the MPIs",
    )
    parser.add_argument(
        "--error-handling",
        choices=["peer", "none"],
        default="peer",
        help="of every endpoint (default peer)",
    )
    parser.add_argument(
        "--cpus",
        default=None,
        help="the CPUs of the two processes, e.g. 0,1 (default: the first two)",
    )
    parser.add_argument("--peers", type=Path, default=out / "peers", help="where UCXX is unpacked")
    parser.add_argument(
        "--fetch-peers", action="store_true", help="download UCXX with pip into --peers first"
    )
    parser.add_argument("--no-peers", action="store_true", help="leave UCXX and the MPIs out")
    parser.add_argument("--out", type=Path, default=out, help="for the programs and report.json")
    parser.add_argument(
        "--strict",
        action="store_true",
        help="exit status 1 when a target is missed or a row has no value",
    )
    parser.add_argument(
        "--profile",
        metavar="IMPL",
        choices=["raw", "ours"],
        action="append",
        help="print where the instructions of one operation go, and measure nothing else"
        " (repeatable)",
    )
    parser.add_argument("--list", action="store_true", help="print the names of the rows")
    return parser.parse_args()


def names_of(row):
    """The names of a row, and of the rows from the same runs."""
    if getattr(row, "peers", ()):
        return [f"{figure.name}_{peer.column}" for figure, peer in row.of_peers()]
    return [
        row.name,
        *(figure.name for figure in getattr(row, "also", ())),
        *filter(None, [getattr(row, "overhead", None)]),
    ]


def chosen_rows(patterns):
    if patterns is None:
        return ROWS
    wanted = patterns.split(",")

    def matches(row, pattern):
        return any(fnmatch.fnmatch(name, pattern) for name in names_of(row))

    for pattern in wanted:
        if not any(matches(row, pattern) for row in ROWS):
            sys.exit(f"run.py: no row matches '{pattern}' (see --list)")
    return [row for row in ROWS if any(matches(row, pattern) for pattern in wanted)]


def print_profiles(runner, rows, implementations):
    counts = [row for row in rows if isinstance(row, Count) and row.what == "instructions"]
    if not counts:
        sys.exit("run.py: --profile: none of these rows counts instructions")
    for count, implementation in itertools.product(counts, implementations):
        try:
            functions = profile(runner, count, Column(implementation))
        except Unavailable as reason:
            sys.exit(f"run.py: {count.name}: {implementation}: {reason}")
        total = sum(entry[0] for entry in functions)
        print(f"{implementation}: {total:.0f} instructions an operation ({count.name})")
        for instructions, name in functions:
            print(f"{instructions:10.1f}  {name}")


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    if options.list:
        print("\n".join(name for row in ROWS for name in names_of(row)))
        return 0
    if options.rounds is None:
        options.rounds = 1 if options.quick else 7
    if options.rounds < 1:
        sys.exit("run.py: --rounds: at least 1")
    patterns = options.rows or (QUICK_ROWS if options.quick else None)
    peers = None if options.no_peers or options.quick else options.peers.resolve()
    if options.fetch_peers and peers is not None:
        for fetch in (fetch_ucxx, fetch_python_ucxx):
            try:
                fetch(peers)
            except Unavailable as reason:
                print(f"run.py: {reason}", file=sys.stderr)
    prefix = options.prefix.resolve() if options.prefix else None
    programs = Programs(options.out.resolve() / "bin", prefix, peers)
    runner = Runner(
        programs,
        options.ucx.resolve() if options.ucx else None,
        options.error_handling,
        options.cpus or default_cpus(),
    )
    if options.profile:
        print_profiles(runner, chosen_rows(patterns), options.profile)
        return 0

    def progress(text):
        if sys.stderr.isatty():
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)

    load = os.getloadavg()[0]
    rows, ucx_version, facts = [], None, {}
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "report.json"
    with contextlib.closing(runner):
        for row in chosen_rows(patterns):
            if isinstance(row, Count):
                values, reports, missing = measure_count(runner, row, progress)
                rows.append(count_row(row, values, reports, missing))
            else:
                reports, missing = measure_row(runner, row, options.rounds, progress)
                rows.extend(timed_rows(row, reports, missing))
                reports = {name: those[-1] for name, those in reports.items() if those}
            ucx_version = ucx_version or reports.get("raw", reports.get("ours", {})).get("ucx")
            facts = environment_facts(runner, ucx_version, load)
            # Write after each row, so that an interrupted run keeps its results.
            found = curves(rows)
            report = {
                "environment": facts,
                "rounds": options.rounds,
                "rows": rows,
                "curves": found,
            }
            path.write_text(json.dumps(report, indent=2) + "\n")
    progress("")
    print(table(facts, rows))
    if found:
        print("\n" + "\n".join(curve_lines(found)))
    missed = [row["name"] for row in rows if row["met"] is False or row["ours"] is None]
    return 1 if options.strict and missed else 0


if __name__ == "__main__":
    sys.exit(main())
