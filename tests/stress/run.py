#!/usr/bin/env python3
"""Runs the tests under adverse conditions: in random order, several at a time, with random
disturbances. See README.md.

scripts/stress.sh MINUTES [--seed S] [--scene N ...] [--only REGEX] [--release R ...]
"""

import argparse
import re
import secrets
import signal
import sys
import time
from pathlib import Path

import cases
from scene import Scene, Stage, Verdicts, play


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("minutes", type=float)
    parser.add_argument("--prefix", required=True, type=Path, help="where the library is installed")
    parser.add_argument(
        "--target",
        required=True,
        type=Path,
        help="build folder with suites and faults; logs are written to stress",
    )
    parser.add_argument(
        "--wheel",
        action="append",
        default=[],
        metavar="VERSION=LIBDIR",
        help="another UCX than the system's",
    )
    parser.add_argument("--system", required=True, metavar="VERSION", help="the system's UCX")
    parser.add_argument("--seed", default=None)
    parser.add_argument(
        "--scene", action="append", type=int, help="only this scene of the seed, again and again"
    )
    parser.add_argument("--only", default="", metavar="REGEX", help="only tests whose names match")
    parser.add_argument("--release", action="append", help="only on these releases of UCX")
    return parser.parse_args()


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    seed = options.seed or secrets.token_hex(4)
    releases = {options.system: "", **dict(wheel.split("=", 1) for wheel in options.wheel)}
    if options.release:
        releases = {name: folder for name, folder in releases.items() if name in options.release}
    stage = Stage(options.prefix, options.target / "stress", releases)
    deck = []
    for suite in "c_examples", "tests/c":
        # The step of scripts/test.sh has left its logs here.
        logs = options.target / "ctest/system-ucx/suites" / suite
        deck += cases.of_ctest(options.target / "suites" / suite, cases.ROOT / suite, logs)
    # Often enough among so many.
    deck += [cases.of_faults(options.prefix, options.target / "faults")] * 20
    deck = [case for case in deck if re.search(options.only, case.name)]
    if not deck or not releases:
        sys.exit("no test matches the name, or no such release")
    print(f"seed {seed}, {len(deck)} tests, UCX {', '.join(sorted(releases))}", flush=True)
    verdicts = Verdicts()
    until = time.monotonic() + 60 * options.minutes
    number = 0
    while time.monotonic() < until:
        scene = Scene(
            seed,
            options.scene[number % len(options.scene)] if options.scene else number,
            deck,
            releases,
        )
        print(f"scene {scene.number}: {scene.told()}", flush=True)
        play(scene, deck, stage, verdicts, until)
        number += 1
    print(f"ended by UCX: {len(verdicts.by_ucx)}")
    for name in sorted(set(verdicts.failed)):
        print(f"failed {verdicts.failed.count(name)} times: {name}")
    too_many = len(verdicts.by_ucx) > 2 + verdicts.passed // 100
    if too_many:
        print("UCX ended more than two tests plus one in a hundred: something has changed")
    print(
        f"stress: {verdicts.passed} passed, {len(verdicts.failed)} failed, {verdicts.skipped} skipped"
    )
    return 1 if verdicts.failed or too_many or not verdicts.passed else 0


if __name__ == "__main__":
    sys.exit(main())
