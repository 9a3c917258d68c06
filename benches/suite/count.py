# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Runs the programs of counted rows, each under a counting tool."""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from . import NotWanted, Unavailable
from .measure import same_transports


def _tool(name):
    path = shutil.which(name)
    if path is None:
        raise Unavailable(f"{name} is not installed")
    return path


def _command(runner, count, column, iterations=0, extra_arguments=()):
    program = runner.programs.get(column.implementation, count.program)
    arguments = {**count.arguments, **column.arguments}
    if iterations:
        arguments["iterations"] = iterations
    return runner.command(program, arguments, "none", count.error_handling) + list(extra_arguments)


def _callgrind(runner, count, column, iterations, directory, options=()):
    out = Path(directory) / f"callgrind.{column.implementation}.{iterations}"
    command = [
        _tool("valgrind"),
        "--tool=callgrind",
        f"--callgrind-out-file={out}",
        *options,
        *_command(runner, count, column, iterations),
    ]
    report, err = runner.run(command, runner.environment(count.transport))
    return out, report, err


def count_instructions(runner, count, column):
    """Instructions of one operation: the difference between a long and a short run, divided by the
    difference in length."""
    collected = []
    lengths = (count.iterations // 4, count.iterations)
    with tempfile.TemporaryDirectory() as directory:
        for iterations in lengths:
            _, report, err = _callgrind(
                runner, count, column, iterations, directory, [f"--toggle-collect={count.function}"]
            )
            match = re.search(r"Collected\s*:\s*(\d+)", err)
            if match is None:
                raise Unavailable("callgrind reported no count")
            collected.append(int(match.group(1)))
    return (collected[1] - collected[0]) / (lengths[1] - lengths[0]), report


def profile(runner, count, column):
    """Instructions of one operation by function, the largest first: [(instructions, function)]."""
    with tempfile.TemporaryDirectory() as directory:
        out, _, _ = _callgrind(
            runner,
            count,
            column,
            count.iterations,
            directory,
            [f"--toggle-collect={count.function}"],
        )
        done = subprocess.run(
            [
                _tool("callgrind_annotate"),
                "--threshold=100",
                "--auto=no",
                "--show-percs=no",
                str(out),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=True,
        )
    functions = {}
    for line in done.stdout.splitlines():
        match = re.match(r"\s*([\d,]+)\s+\S*?:(\S.*?)(?:\s+\[(.*)\])?$", line)
        if match is not None:
            # A function has a line for each file that was inlined into it. Only some of these lines
            # name the library.
            entry = functions.setdefault(match.group(2), [0.0, ""])
            entry[0] += int(match.group(1).replace(",", "")) / count.iterations
            entry[1] = entry[1] or Path(match.group(3) or "").name
    named = [
        (instructions, f"{name} [{library}]") for name, (instructions, library) in functions.items()
    ]
    return sorted((entry for entry in named if entry[0] >= 0.5), reverse=True)


def count_allocations(runner, count, column):
    """Calls of the allocator, except UCX's own."""
    environment = runner.environment(
        count.transport, {"LD_PRELOAD": str(runner.programs.counter())}
    )
    command = _command(runner, count, column, count.iterations, ["--markers"])
    report, _ = runner.run(command, environment)
    if int(report.get("allocations", 0)) < 1:
        raise Unavailable("the allocation counter did not see its control allocation")
    report["note"] = f"UCX itself: {report['ucx_allocations']}"
    return int(report["allocations"]) - 1, report


def _calls_between_marks(trace):
    """The calls between the two marks in a trace of strace: the thread that set the marks, and
    [(thread, system call)]."""
    marker, calls = None, []
    for line in trace.read_text(errors="replace").splitlines():
        thread, _, call = line.partition(" ")
        call = call.strip()
        if "measured part begins" in call:
            marker, calls = thread, []
        elif "measured part ends" in call:
            if marker is not None:
                return marker, calls
            break
        elif not call.startswith("<..."):
            calls.append((thread, call.split("(")[0]))
    raise Unavailable("the trace does not hold the marks")


def _trace(runner, count, column, iterations, **environment):
    with tempfile.TemporaryDirectory() as directory:
        trace = Path(directory) / "trace"
        command = [
            _tool("strace"),
            "-f",
            "-o",
            str(trace),
            *_command(runner, count, column, iterations, ["--markers"]),
        ]
        report, _ = runner.run(command, runner.environment(count.transport, environment))
        return report, *_calls_between_marks(trace)


def _listed(names):
    return ", ".join(f"{name} {names.count(name)}" for name in sorted(set(names)))


def count_syscalls(runner, count, column):
    """System calls of the measuring thread between the two marks, without UCX's keepalive: once a
    second it looks at each peer, however many operations there are.
    """
    report, marker, calls = _trace(
        runner, count, column, count.iterations, UCX_KEEPALIVE_INTERVAL="inf"
    )
    names = [name for thread, name in calls if thread == marker]
    if names:
        report["note"] = _listed(names)
    return len(names), report


def count_idle_syscalls(runner, count, column):
    """System calls between the two marks of every thread except the measuring one, which sleeps."""
    report, _, calls = _trace(runner, count, column, 0)
    threads = set(filter(None, report["threads"].split(",")))
    if not threads:
        raise Unavailable("the program has no thread but the one that measures")
    names = [name for thread, name in calls if thread in threads]
    report["note"] = _listed(names) or None
    return len(names), report


COUNTERS = {
    "instructions": count_instructions,
    "allocations": count_allocations,
    "syscalls": count_syscalls,
    "idle_syscalls": count_idle_syscalls,
}


def measure_count(runner, count, progress):
    """Counts for each column. One run is enough, because counts repeat exactly or nearly so."""
    values, reports, missing = {}, {}, {}
    for name, column in count.columns.items():
        progress(f"{count.name}: {column.implementation}")
        try:
            values[name], reports[name] = COUNTERS[count.what](runner, count, column)
        except NotWanted:
            pass
        except Unavailable as reason:
            missing[name] = str(reason)
    problem = same_transports(reports)
    if problem is not None:
        values, missing = {}, {name: problem for name in reports}
    return values, reports, missing
