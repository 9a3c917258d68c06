#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) the ucxx_rs developers
"""Draws and compares results that `ucxx_rs_perftest --json` wrote.

ucxx_rs_perftest calls it for --plot and --compare. It needs nothing but Python's own library.
"""

import argparse
import json
import math
import signal
import sys
from pathlib import Path
from xml.sax.saxutils import escape

# What is drawn and compared, by the end of the test's name. The first one is drawn.
VALUES = {
    "lat": ["p50_us", "p99_us", "cpu_us", "server_cpu_us"],
    "bw": ["megabytes_per_second", "cpu_us", "server_cpu_us"],
    "rate": ["messages_per_second", "cpu_us", "server_cpu_us"],
}
LABELS = {
    "megabytes_per_second": "MB/s",
    "messages_per_second": "messages/s",
    "average_us": "average, microseconds",
    "p50_us": "median, microseconds",
    "p90_us": "p90, microseconds",
    "p99_us": "p99, microseconds",
    "p99_9_us": "p99.9, microseconds",
    "max_us": "longest, microseconds",
    "cpu_us": "CPU time of the client for a message, microseconds",
    "server_cpu_us": "CPU time of the server for a message, microseconds",
}
# Circumstances that a reader has to know where they differ.
FACTS = [
    "test",
    "transports",
    "threads",
    "endpoints",
    "frames",
    "memory",
    "server_memory",
    "progress",
    "wait",
    "thread_mode",
    "submission",
    "error_handling",
    "verify",
    "own_buffers",
    "version",
    "ucx",
]
# Distinct also for readers who do not see red and green (Okabe and Ito).
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"]
WIDTH, LEFT, RIGHT, TOP, HEIGHT = 860, 84, 24, 48, 380
LINE = 20  # of the legend


class Bad(Exception):
    """What the user can mend."""


def read(path):
    try:
        run = json.loads(Path(path).read_text())
    except OSError as error:
        raise Bad(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise Bad(f"{path}: no JSON ({error}); `ucxx_rs_perftest --json` writes it") from None
    if not isinstance(run, dict) or run.get("program") != "ucxx_rs_perftest":
        raise Bad(f"{path}: not the results of `ucxx_rs_perftest --json`")
    if not run["results"]:
        raise Bad(f"{path}: there are no results in it: {run.get('error')}")
    run["rows"] = {row["bytes"]: row for row in run["results"]}
    return run


def values_of(runs, wanted):
    kinds = sorted({run["test"].rpartition("_")[2] for run in runs})
    if wanted:
        known = [key for key in runs[0]["results"][0] if key not in ("bytes", "iterations")]
        if wanted not in known:
            raise Bad(f"--value: '{wanted}' is none of {', '.join(known)}")
        return [wanted]
    if len(kinds) > 1:
        raise Bad(f"tests of several kinds ({', '.join(kinds)}): choose one --value for all")
    return VALUES[kinds[0]]


def differences(runs):
    return [key for key in FACTS if len({str(run.get(key)) for run in runs}) > 1]


def size_text(size):
    for unit, power in (("g", 30), ("m", 20), ("k", 10)):
        if size and size % (1 << power) == 0:
            return f"{size >> power}{unit}"
    return str(size)


def number_text(value):
    return f"{value:.4g}" if value < 10000 else f"{value:.0f}"


# ---------------------------------------------------------------- comparison


def compare(runs, names, values):
    for name, run in zip(names, runs, strict=True):
        others = [f"{key} {run.get(key)}" for key in differences(runs) if key != "test"]
        print(f"# {name}: {', '.join([run['test'], *others])}")
    sizes = sorted(set().union(*(run["rows"] for run in runs)))
    for value in values:
        print(f"\n{LABELS.get(value, value)}")
        head = [f"{'bytes':>10}", f"{'1':>12}"]
        head += [f"{number:>12} {f'{number}:1':>8}" for number in range(2, len(runs) + 1)]
        print(" ".join(head))
        for size in sizes:
            found = [run["rows"].get(size, {}).get(value) for run in runs]
            cells = [f"{size:>10}", f"{'-' if found[0] is None else number_text(found[0]):>12}"]
            for here in found[1:]:
                ratio = f"{here / found[0]:.3f}" if here is not None and found[0] else "-"
                cells.append(f"{'-' if here is None else number_text(here):>12} {ratio:>8}")
            print(" ".join(cells))


# ---------------------------------------------------------------- picture


class Axis:
    """A logarithmic axis from `low` to `high`, drawn between two places."""

    def __init__(self, values, start, end):
        self.start, self.end = start, end
        self.low, self.high = min(values), max(values)
        if self.low == self.high:
            self.low, self.high = self.low / 2, self.high * 2

    def place(self, value):
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + share * (self.end - self.start)


def decades(low, high):
    """Round numbers between the two: 1, 2 and 5, or 1 alone where they are many."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    digits = (1, 2, 5) if last - first <= 4 else (1,)
    return [digit * 10.0**power for power in range(first, last + 1) for digit in digits]


def marker(shape, x, y, colour):
    shapes = [
        "M-4 0A4 4 0 1 0 4 0A4 4 0 1 0-4 0Z",
        "M-4-4H4V4H-4Z",
        "M0-5L5 4H-5Z",
        "M0-5.5L5.5 0L0 5.5L-5.5 0Z",
        "M0 5L5-4H-5Z",
    ]
    return (
        f'<path d="{shapes[shape % len(shapes)]}" transform="translate({x:.1f} {y:.1f})"'
        f' fill="{colour}"/>'
    )


def names_of(runs, names):
    """What sets each run apart; the file, if nothing does."""
    keys = differences(runs)
    if not keys and len(runs) > 1:
        return names
    keys = keys or ["test", "transports"]
    return [
        ", ".join(
            str(run.get(key)) if key in ("test", "transports") else f"{key} {run.get(key)}"
            for key in keys
        )
        for run in runs
    ]


def x_place(axis, size):
    return axis.place(size or axis.low)


def picture(runs, names, value):
    positive = [size for run in runs for size in run["rows"] if size]
    has_zero = any(0 in run["rows"] for run in runs)
    smallest = min(positive, default=1)
    sizes = (positive or [1]) + ([smallest / 2] if has_zero else [])
    points = [run["rows"][size][value] for run in runs for size in run["rows"]]
    if any(not point > 0 for point in points):
        raise Bad(f"{value} is 0 somewhere, which a logarithmic axis does not have")
    bottom = TOP + HEIGHT
    x = Axis(sizes, LEFT + 12, WIDTH - RIGHT - 12)
    y = Axis(points, bottom - 12, TOP + 12)
    labels = names_of(runs, names)
    height = bottom + 62 + LINE * len(runs)
    title = ", ".join(sorted({run["test"] for run in runs}))
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}"'
        f' height="{height}" font-family="sans-serif" font-size="13" fill="#222">',
        f"<title>{escape(title)}: {escape(LABELS.get(value, value))}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="{LEFT}" y="20" font-size="16" font-weight="bold">{escape(title)}</text>',
        f'<text x="{LEFT}" y="39">{escape(LABELS.get(value, value))}</text>',
    ]
    for tick in decades(y.low, y.high):
        at = y.place(tick)
        if not TOP <= at <= bottom:
            continue
        out.append(f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        out.append(
            f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{escape(f"{tick:g}")}</text>'
        )
    shown = sorted(set(positive)) + ([0] if has_zero else [])
    step = max(1, math.ceil(len(shown) / 14))
    for number, size in enumerate(sorted(shown)):
        if number % step:
            continue
        at = x_place(x, size)
        out.append(f'<path d="M{at:.1f} {TOP}V{bottom}" stroke="#eee"/>')
        out.append(
            f'<text x="{at:.1f}" y="{bottom + 18}" text-anchor="middle">{size_text(size)}</text>'
        )
    out.append(
        f'<rect x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" height="{HEIGHT}" fill="none"'
        ' stroke="#888"/>'
    )
    out.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{bottom + 38}" text-anchor="middle">'
        "message size, bytes</text>"
    )
    for number, (run, label) in enumerate(zip(runs, labels, strict=True)):
        colour = COLOURS[number % len(COLOURS)]
        places = [
            (x_place(x, size), y.place(run["rows"][size][value])) for size in sorted(run["rows"])
        ]
        line = " ".join(f"{px:.1f},{py:.1f}" for px, py in places)
        out.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [marker(number, px, py, colour) for px, py in places]
        at = bottom + 62 + LINE * number
        out.append(f'<path d="M{LEFT} {at}h30" stroke="{colour}" stroke-width="2"/>')
        out.append(marker(number, LEFT + 15, at, colour))
        out.append(f'<text x="{LEFT + 40}" y="{at + 4}">{escape(label)}</text>')
    out.append("</svg>\n")
    return "\n".join(out)


def main():
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    parser = argparse.ArgumentParser(
        prog="ucxx_rs_perfplot",
        description="Draws and compares the JSON documents of ucxx_rs_perftest.",
    )
    parser.add_argument("--plot", metavar="FILE", help="draw all runs into this SVG")
    parser.add_argument("--compare", action="store_true", help="print ratios to the first run")
    parser.add_argument("--value", metavar="KEY", help="what to draw or compare, such as p99_us")
    parser.add_argument("runs", metavar="RUN.json", nargs="+", help="the results of a run")
    arguments = parser.parse_args()
    if not arguments.plot and not arguments.compare:
        parser.error("say --plot FILE.svg, or --compare, or both")
    try:
        if arguments.compare and len(arguments.runs) < 2:
            raise Bad("--compare needs two runs or more")
        runs = [read(path) for path in arguments.runs]
        values = values_of(runs, arguments.value)
        # First, because the reader of the table may leave early.
        if arguments.plot:
            text = picture(runs, arguments.runs, values[0])
            try:
                Path(arguments.plot).write_text(text)
            except OSError as error:
                raise Bad(f"--plot: {arguments.plot}: {error.strerror}") from None
        if arguments.compare:
            compare(runs, arguments.runs, values)
    except Bad as error:
        sys.exit(f"ucxx_rs_perfplot: {error}")


if __name__ == "__main__":
    main()
