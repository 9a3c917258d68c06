# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Runs the programs: timed rows in interleaved rounds, counted rows under a counting tool."""

import os
import re
import shutil
import signal
import statistics
import subprocess
import tempfile
from pathlib import Path

from . import NotWanted, Unavailable
from .rows import COMMON, TRANSPORTS

TIMEOUT_S = 120


class Runner:
    """How programs are started: their environment, error handling and CPUs."""

    def __init__(self, programs, ucx, error_handling, cpus):
        self.programs = programs
        self.ucx = ucx
        self.error_handling = error_handling
        self.cpus = cpus

    def environment(self, transport, extra=None):
        # UCX settings of the caller would reach only what does not override them, so none are passed on.
        environment = {key: value for key, value in os.environ.items() if not key.startswith("UCX")}
        environment.update(COMMON)
        environment.update(TRANSPORTS[transport])
        if self.ucx is not None:
            environment["LD_LIBRARY_PATH"] = str(self.ucx)
        environment.update(extra or {})
        return environment

    def command(self, program, arguments, cpus):
        command = [str(program), "--error-handling", self.error_handling, "--cpus", cpus]
        for key, value in arguments.items():
            command += [f"--{key}", str(value)]
        return command

    def run(self, command, environment):
        """Runs one program to its end and returns its report as a dictionary."""
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   start_new_session=True)
        try:
            out, err = process.communicate(timeout=TIMEOUT_S)
        except BaseException as reason:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            if isinstance(reason, subprocess.TimeoutExpired):
                raise Unavailable(f"{Path(command[0]).name} did not end within {TIMEOUT_S} s") from None
            raise
        if process.returncode != 0:
            # When one side fails the other says so too; the cause is what the first one says.
            lines = [line for line in err.strip().splitlines() if "the other side" not in line]
            raise Unavailable(f"exit status {process.returncode}: {lines[-1] if lines else 'no message'}")
        return dict(line.split("=", 1) for line in out.splitlines() if "=" in line), err

    def timed(self, row, implementation):
        if self.cpus == "none" or len(set(self.cpus.split(","))) < 2:
            raise Unavailable("two CPUs are needed, one for each process")
        program = self.programs.get(implementation, row.program)
        report, _ = self.run(self.command(program, row.arguments, self.cpus), self.environment(row.transport))
        return float(report[row.key]) * row.scale, report


def _same_transports(reports):
    """Why the implementations cannot be compared, or None."""
    seen = {}
    for implementation, report in reports.items():
        transports = report.get("transports", "")
        if transports:
            seen[implementation] = frozenset(transports.split(","))
    if len(set(seen.values())) > 1:
        return "transports differ: " + "; ".join(f"{name} {','.join(sorted(value))}" for name, value in seen.items())
    return None


def measure_row(runner, row, rounds, progress):
    """Interleaves raw, ours and the peer for `rounds` rounds. Returns the samples of each and what kept one out."""
    samples = {"raw": [], "ours": [], "ucxx": []}
    reports, missing = {}, {}
    for number in range(rounds):
        for implementation in samples:
            if implementation in missing:
                continue
            progress(f"{row.name}: round {number + 1} of {rounds}, {implementation}")
            try:
                value, report = runner.timed(row, implementation)
            except NotWanted:
                missing[implementation] = None
                continue
            except Unavailable as reason:
                missing[implementation] = str(reason)
                samples[implementation] = []
                continue
            samples[implementation].append(value)
            reports[implementation] = report
        if "raw" in missing or len(missing) == 2:
            break
    missing = {implementation: reason for implementation, reason in missing.items() if reason is not None}
    problem = _same_transports(reports)
    if problem is not None:
        missing = {implementation: problem for implementation in samples}
        samples = {implementation: [] for implementation in samples}
    return samples, reports, missing


def ratios(numerators, denominators):
    return [a / b for a, b in zip(numerators, denominators)]


def median(values):
    return statistics.median(values) if values else None


def _tool(name):
    path = shutil.which(name)
    if path is None:
        raise Unavailable(f"{name} is not installed")
    return path


def _pairloop(runner, count, implementation, iterations, extra_arguments=()):
    program = runner.programs.get(implementation, "pairloop")
    arguments = dict(count.arguments, iterations=iterations)
    return runner.command(program, arguments, "none") + list(extra_arguments)


def _callgrind(runner, count, implementation, iterations, directory, options=()):
    out = Path(directory) / f"callgrind.{implementation}.{iterations}"
    command = [_tool("valgrind"), "--tool=callgrind", f"--callgrind-out-file={out}", *options,
               *_pairloop(runner, count, implementation, iterations)]
    report, err = runner.run(command, runner.environment(count.transport))
    return out, report, err


def count_instructions(runner, count, implementation):
    """Instructions of one operation: the difference between a long and a short run, over the difference in length."""
    collected = []
    lengths = (count.iterations // 4, count.iterations)
    with tempfile.TemporaryDirectory() as directory:
        for iterations in lengths:
            _, report, err = _callgrind(runner, count, implementation, iterations, directory,
                                        ["--toggle-collect=measured_loop*"])
            match = re.search(r"Collected\s*:\s*(\d+)", err)
            if match is None:
                raise Unavailable("callgrind reported no count")
            collected.append(int(match.group(1)))
    return (collected[1] - collected[0]) / (lengths[1] - lengths[0]), report


def profile(runner, count, implementation):
    """Instructions of one operation by function, most first: [(instructions, function)]."""
    with tempfile.TemporaryDirectory() as directory:
        out, _, _ = _callgrind(runner, count, implementation, count.iterations, directory,
                               ["--toggle-collect=measured_loop*"])
        done = subprocess.run([_tool("callgrind_annotate"), "--threshold=100", "--auto=no", "--show-percs=no", str(out)],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    functions = {}
    for line in done.stdout.splitlines():
        match = re.match(r"\s*([\d,]+)\s+\S*?:(\S.*?)(?:\s+\[(.*)\])?$", line)
        if match is not None:
            # One function has a line for every file that was inlined into it, the library only on some of them.
            entry = functions.setdefault(match.group(2), [0.0, ""])
            entry[0] += int(match.group(1).replace(",", "")) / count.iterations
            entry[1] = entry[1] or Path(match.group(3) or "").name
    named = [(instructions, f"{name} [{library}]") for name, (instructions, library) in functions.items()]
    return sorted((entry for entry in named if entry[0] >= 0.5), reverse=True)


def count_allocations(runner, count, implementation):
    """Calls of the allocator that are not UCX's own."""
    environment = runner.environment(count.transport, {"LD_PRELOAD": str(runner.programs.counter())})
    command = _pairloop(runner, count, implementation, count.iterations, ["--markers"])
    report, _ = runner.run(command, environment)
    if int(report.get("allocations", 0)) < 1:
        raise Unavailable("the allocation counter did not see its control allocation")
    report["note"] = f"UCX itself: {report['ucx_allocations']}"
    return int(report["allocations"]) - 1, report


def count_syscalls(runner, count, implementation):
    """System calls of the measuring thread between the two marks."""
    with tempfile.TemporaryDirectory() as directory:
        trace = Path(directory) / "trace"
        command = [_tool("strace"), "-f", "-o", str(trace),
                   *_pairloop(runner, count, implementation, count.iterations, ["--markers"])]
        report, _ = runner.run(command, runner.environment(count.transport))
        thread, names = None, []
        for line in trace.read_text(errors="replace").splitlines():
            number, _, call = line.partition(" ")
            call = call.strip()
            if "measured part begins" in call:
                thread = number
            elif "measured part ends" in call:
                break
            elif number == thread and not call.startswith("<..."):
                names.append(call.split("(")[0])
        else:
            raise Unavailable("the trace does not hold the marks")
    if names:
        report["note"] = ", ".join(f"{name} {names.count(name)}" for name in sorted(set(names)))
    return len(names), report


COUNTERS = {"instructions": count_instructions, "allocations": count_allocations, "syscalls": count_syscalls}


def measure_count(runner, count, progress):
    """Counts for raw and ours; these need no rounds, since they repeat exactly or nearly so."""
    values, reports, missing = {}, {}, {}
    for implementation in ("raw", "ours", "ucxx") if count.what == "instructions" else ("raw", "ours"):
        progress(f"{count.name}: {implementation}")
        try:
            values[implementation], reports[implementation] = COUNTERS[count.what](runner, count, implementation)
        except NotWanted:
            pass
        except Unavailable as reason:
            missing[implementation] = str(reason)
    problem = _same_transports(reports)
    if problem is not None:
        values, missing = {}, {implementation: problem for implementation in reports}
    return values, reports, missing
