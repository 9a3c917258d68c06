# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Runs the programs of timed rows, in interleaved rounds."""

import os
import signal
import statistics
import subprocess

from . import NotWanted, Unavailable, mpi, perftest
from .hosts import Hosts
from .row import COMMON, PERFTEST, TRANSPORTS

TIMEOUT_S = 120


def default_cpus():
    allowed = sorted(os.sched_getaffinity(0))
    return f"{allowed[0]},{allowed[1]}" if len(allowed) > 1 else "none"


class Runner:
    """Starts programs: with their environment, error handling and CPUs."""

    def __init__(self, programs, ucx, error_handling, cpus):
        self.programs = programs
        self.ucx = ucx
        self.error_handling = error_handling
        self.cpus = cpus
        self._hosts = None

    def hosts(self):
        """The two hosts, for rows that need them. Made on first use."""
        if self._hosts is None:
            self._hosts = Hosts()
        return self._hosts

    def close(self):
        if self._hosts is not None:
            self._hosts.close()

    def environment(self, transport, extra=None):
        # UCX settings of the caller would apply only where nothing overrides them, so none are
        # passed on.
        environment = {key: value for key, value in os.environ.items() if not key.startswith("UCX")}
        environment.update(COMMON)
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        environment.update(TRANSPORTS[transport])
        if self.ucx is not None:
            environment["LD_LIBRARY_PATH"] = str(self.ucx)
        environment.update(extra or {})
        return environment

    def command(self, program, arguments, cpus, error_handling=None):
        """`program` is a path, or a list that begins a command."""
        begin = program if isinstance(program, list) else [program]
        arguments = {"error-handling": error_handling or self.error_handling, **arguments}
        command = [*map(str, begin), "--cpus", cpus]
        for key, value in arguments.items():
            command += [f"--{key}", str(value)]
        return command

    def run(self, command, environment, timeout_s=TIMEOUT_S, beside=()):
        """Runs a program, and those beside it, to the end. Returns its report as a dictionary."""
        started = [
            subprocess.Popen(
                one,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            for one in (command, *beside)
        ]
        process, others = started[0], started[1:]
        try:
            out, err = process.communicate(timeout=timeout_s)
            for other in others:
                _, said = other.communicate(timeout=timeout_s)
                if other.returncode != 0:
                    err += said
        except BaseException as reason:
            for one in started:
                os.killpg(one.pid, signal.SIGKILL)
                one.communicate()
            if isinstance(reason, subprocess.TimeoutExpired):
                raise Unavailable(f"no end within {timeout_s} s") from None
            raise
        if process.returncode != 0:
            # If one side fails, the other fails too. The first message is the cause.
            lines = [line for line in err.strip().splitlines() if "the other side" not in line]
            raise Unavailable(
                f"exit status {process.returncode}: {lines[-1] if lines else 'no message'}"
            )
        return dict(line.split("=", 1) for line in out.splitlines() if "=" in line), err

    def timed(self, row, column):
        """Runs one column of a timed row once, and returns its report."""
        if row.pinned and len(set(self.cpus.split(","))) < 2:
            raise Unavailable("two CPUs are needed, one for each process")
        arguments = {**row.arguments, **column.arguments}
        environment = self.environment(row.transport)
        if column.implementation == PERFTEST:
            return perftest.run(self, arguments, environment)
        cpus = self.cpus if row.pinned else "none"
        if row.program == "delayed" and row.pinned:
            # The submitting threads are on one CPU, the progress thread on the other.
            arguments["thread-cpu"] = self.cpus.split(",")[1]
        program = self.programs.get(column.implementation, row.program)
        hosts = self.hosts() if row.transport == "hosts" else None
        if column.implementation in mpi.COMPONENTS:
            program = [*mpi.launch(column.implementation, arguments["processes"], hosts), program]
        environment.update(self.programs.environment(column.implementation))
        if column.implementation.startswith("python") and self.ucx is None:
            environment["LD_LIBRARY_PATH"] = str(self.programs.python_ucx() or "")
        command, beside = self.command(program, arguments, cpus, row.error_handling), ()
        if hosts is not None and column.implementation not in mpi.COMPONENTS:
            command, beside = hosts.commands(command)
        report, _ = self.run(command, environment, row.timeout_s, beside)
        return report


def same_transports(reports):
    """Returns the reason why the columns cannot be compared, or None."""
    seen = {}
    for column, report in reports.items():
        transports = report.get("transports", "")
        if transports:
            seen[column] = frozenset(transports.split(","))
    if len(set(seen.values())) > 1:
        return "transports differ: " + "; ".join(
            f"{name} {','.join(sorted(value))}" for name, value in seen.items()
        )
    return None


def _one_round(runner, row, missing, say):
    """Returns the report of each column that can still be run. Two columns with the same program
    and arguments share a run."""
    done, reports = {}, {}
    for name, column in row.columns.items():
        if name in missing:
            continue
        same = (column.implementation, tuple(sorted(column.arguments.items())))
        if same not in done:
            say(column.implementation)
            try:
                done[same] = runner.timed(row, column)
            except Unavailable as reason:
                done[same] = reason
            except OSError as reason:
                done[same] = Unavailable(str(reason))
        if isinstance(done[same], Unavailable):
            missing[name] = None if isinstance(done[same], NotWanted) else str(done[same])
        else:
            reports[name] = done[same]
    return reports


def measure_row(runner, row, rounds, progress):
    """Interleaves the columns for `rounds` rounds. Returns the reports of each column, and the
    reason for each missing column."""
    reports, missing = {name: [] for name in row.columns}, {}
    rounds = min(rounds, row.most_rounds or rounds)
    for number in range(rounds):
        one = _one_round(
            runner,
            row,
            missing,
            lambda who: progress(f"{row.name}: round {number + 1} of {rounds}, {who}"),
        )
        for name, report in one.items():
            reports[name].append(report)
        for name in missing:
            reports[name] = []
        if "raw" in missing or len(missing) >= max(1, len(row.columns) - 1):
            break
    missing = {name: reason for name, reason in missing.items() if reason is not None}
    problem = same_transports({name: those[-1] for name, those in reports.items() if those})
    if problem is not None:
        missing = {name: problem for name in row.columns}
        reports = {name: [] for name in row.columns}
    return reports, missing


def values_of(key, scale, reports):
    """For each column the value of `key` in its reports. `key` may be a dictionary by column."""
    return {
        name: [
            float(report[key[name] if isinstance(key, dict) else key]) * scale for report in those
        ]
        for name, those in reports.items()
    }


def ratios(numerators, denominators):
    return [a / b for a, b in zip(numerators, denominators)]


def median(values):
    return statistics.median(values) if values else None
