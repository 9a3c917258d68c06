"""Evidence of a hanging test: stacks of all its processes, their workers' dumps, sockets and
queues.
"""

import os
import subprocess
from pathlib import Path

DEBUGGER = 60  # seconds for one process


def session(leader):
    """The live processes of a session, oldest first."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = (
                    Path(f"/proc/{entry}/stat")
                    .read_text(encoding="ascii", errors="replace")
                    .rpartition(")")[2]
                    .split()
                )
            except OSError:
                continue
            if int(fields[3]) == leader and fields[0] not in "ZX":
                found.append((int(fields[19]), int(entry)))
    return [pid for _, pid in sorted(found)]


def command(pid):
    try:
        return (
            Path(f"/proc/{pid}/cmdline")
            .read_bytes()
            .replace(b"\0", b" ")
            .decode(errors="replace")
            .strip()
        )
    except OSError:
        return ""


def said_by(arguments, limit=DEBUGGER):
    try:
        done = subprocess.run(
            arguments, capture_output=True, text=True, errors="replace", check=False, timeout=limit
        )
    except (OSError, subprocess.TimeoutExpired) as why:
        return f"({why})"
    return done.stdout


def stacks(pid):
    said = said_by(["gdb", "-q", "-batch", "-p", str(pid), "-ex", "thread apply all bt 40"])
    return "\n".join(
        line[:200] for line in said.splitlines() if line.startswith(("#", "Thread", "("))
    )


def sockets(pids):
    marks = [f"pid={pid}," for pid in pids]
    lines = (
        said_by(["ss", "-anpeoi", "-t"]).splitlines() + said_by(["ss", "-anp", "-x"]).splitlines()
    )
    kept = []
    for at, line in enumerate(lines):
        if any(mark in line for mark in marks):
            kept.append(line)
            # Queues and timers of TCP are on a line of their own.
            if at + 1 < len(lines) and lines[at + 1].startswith("\t"):
                kept.append(lines[at + 1])
    return "\n".join(kept)


def evidence(leader):
    """The evidence as a text; the workers' dumps are written to the processes' stderr."""
    pids = session(leader)
    parts = [f"{len(pids)} processes"]
    for pid in pids:
        parts.append(f"--- process {pid}: {command(pid)}\n{stacks(pid)}")
    parts.append(f"--- sockets\n{sockets(pids)}")
    for pid in pids:
        said_by(
            [
                "gdb",
                "-q",
                "-batch",
                "-p",
                str(pid),
                "-ex",
                "set unwindonsignal on",
                "-ex",
                "call (void)stress_dump_workers()",
            ],
            20,
        )
    return "\n".join(parts)
