# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""UCX's own benchmark program, as a further reference. It has two processes, and its server waits
for the client on a TCP port."""

import os
import shutil
import signal
import socket
import subprocess

from . import Unavailable

# Columns of the comma-separated line that `-v` prints: iterations; the percentile, average and
# overall latency in microseconds; average and overall MiB/s; average and overall messages a second.
COLUMNS = {"latency_us": 1, "bandwidth_mib": 5, "rate": 7}
TIMEOUT_S = 60


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def _wait_for(port, server):
    """Waits until the server listens. It reads the kernel's table, because the server would take a
    connection for its client's."""
    wanted = f":{int(port):04X}"
    while server.poll() is None:
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            try:
                with open(table) as file:
                    lines = [line.split() for line in file]
            except OSError:
                continue
            if any(
                fields[1].endswith(wanted) and fields[3] == "0A"
                for fields in lines
                if len(fields) > 3
            ):
                return
        os.sched_yield()
    said = server.communicate()[1].strip().splitlines()
    raise Unavailable(
        f"ucx_perftest: its server ended with status {server.returncode}: {said[-1] if said else 'no message'}"
    )


def run(runner, arguments, environment):
    """Runs one test, and returns a report with the result as `value`."""
    program = shutil.which("ucx_perftest")
    if program is None:
        raise Unavailable("ucx_perftest is not installed (Debian: ucx-utils)")
    if runner.ucx is not None:
        # ucx_perftest uses internal interfaces of UCX, so it works only with the release that it
        # was built with.
        program = runner.ucx.parent / "bin" / "ucx_perftest"
        if not program.exists():
            raise Unavailable("no ucx_perftest lies beside this UCX")
        # The unpacked file may not be executable where it is.
        program = shutil.copy(program, runner.programs.out)
        os.chmod(program, 0o755)
        beside = sorted(runner.ucx.parent.parent.glob("*.libs"))
        environment = {**environment, "LD_LIBRARY_PATH": ":".join(map(str, [runner.ucx, *beside]))}
    port, cpus = _free_port(), runner.cpus.split(",")
    options = ["-p", port, *(["-e"] if runner.error_handling == "peer" else [])]

    def start(cpu, *more):
        return subprocess.Popen(
            [str(program), "-c", cpu, *options, *more],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    running = [start(cpus[1])]
    try:
        _wait_for(port, running[0])
        running.append(
            start(
                cpus[0],
                "localhost",
                "-t",
                arguments["test"],
                "-s",
                str(arguments["size"]),
                "-n",
                str(arguments["iterations"]),
                "-f",
                "-v",
            )
        )
        out, err = running[1].communicate(timeout=TIMEOUT_S)
        running[0].communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"ucx_perftest did not end within {TIMEOUT_S} s") from None
    finally:
        for process in running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
    lines = [
        line.split(",") for line in out.splitlines() if line.count(",") >= 7 and line[:1].isdigit()
    ]
    if running[1].returncode != 0 or not lines:
        said = err.strip().splitlines()
        raise Unavailable(
            f"ucx_perftest: exit status {running[1].returncode}: {said[-1] if said else 'no figures'}"
        )
    value = float(lines[-1][COLUMNS[arguments["column"]]]) * arguments["factor"]
    return {"value": value}
