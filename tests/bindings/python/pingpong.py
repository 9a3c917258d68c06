#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Half of a round trip between two processes through the Python client, in microseconds.

    pingpong.py --mode polling|blocking|thread|notifier [--size 8] [--iterations N] [--cpus 0,1]
    [--tls LIST] [--library ucxx]

Starts both processes itself and prints one line of JSON. --library ucxx does the same with UCXX's
own Python client, from PyPI's ucxx-cu12, if that is installed. Its modes are polling, blocking,
thread, and thread with delayed submission and notifier.
"""

import argparse
import asyncio
import ctypes
import json
import os
import signal
import socket
import statistics
import struct
import sys
import time

TAG = 1
PR_SET_PDEATHSIG = 1


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--mode", choices=["polling", "blocking", "thread", "notifier"], default="notifier"
    )
    parser.add_argument("--size", type=int, default=8, help="bytes of a message (default 8)")
    parser.add_argument(
        "--iterations", type=int, default=5000, help="measured round trips (default 5000)"
    )
    parser.add_argument("--warmup", type=int, default=500, help="warm-up round trips (default 500)")
    parser.add_argument("--cpus", help="the CPUs of the two processes, e.g. 0,1 (default: any)")
    parser.add_argument(
        "--tls", help="UCX_TLS of both, e.g. posix,cma,self (default: the environment's)"
    )
    parser.add_argument(
        "--library",
        choices=["ucxx_rs", "ucxx"],
        default="ucxx_rs",
        help="the library to measure (default ucxx_rs)",
    )
    return parser.parse_args()


def tell(link, data):
    link.sendall(struct.pack("!I", len(data)) + data)


def hear(link):
    with link.makefile("rb") as incoming:
        return incoming.read(*struct.unpack("!I", incoming.read(4)))


async def round_trips(options, rank, send, recv, outgoing, incoming):
    """Times in nanoseconds. `send` and `recv` take a buffer and return an awaitable."""
    times = []
    for _ in range(options.warmup + options.iterations):
        started = time.perf_counter_ns()
        # Posted before the message can arrive, if the call posts it. UCXX's are coroutines, which
        # start when awaited.
        received = recv(incoming)
        if rank == 0:
            await send(outgoing)
            await received
        else:
            await received
            await send(outgoing)
        times.append(time.perf_counter_ns() - started)
    return times[options.warmup :]


async def with_ucxx_rs(options, rank, link):
    from ucxx_rs_client import Context, Worker

    context = Context({"TLS": options.tls} if options.tls else None)
    async with Worker(context, options.mode) as worker:
        tell(link, worker.address)
        endpoint = worker.connect(hear(link))
        send, recv = (
            lambda buffer: endpoint.send(buffer, TAG),
            lambda buffer: worker.recv(buffer, TAG),
        )
        times = await round_trips(
            options, rank, send, recv, bytes(options.size), bytearray(options.size)
        )
        await endpoint.flush()
        return times


async def with_ucxx(options, rank, link):
    # As ucxx_rs does: keeps shared memory in use with failure detection.
    os.environ.setdefault("UCX_MM_ERROR_HANDLING", "y")
    import numpy
    import ucxx

    notified = options.mode == "notifier"
    ucxx.init(
        {"TLS": options.tls} if options.tls else {},
        progress_mode="thread" if notified else options.mode,
        enable_delayed_submission=notified,
        enable_python_future=notified,
    )
    if rank == 0:
        connected = asyncio.get_running_loop().create_future()
        listener = ucxx.create_listener(connected.set_result)
        tell(link, struct.pack("!H", listener.port))
        endpoint = await connected
    else:
        (port,) = struct.unpack("!H", await asyncio.to_thread(hear, link))
        endpoint = await ucxx.create_endpoint("127.0.0.1", port)
    buffers = [numpy.zeros(options.size, dtype="u1") for _ in range(2)]
    times = await round_trips(options, rank, endpoint.send, endpoint.recv, *buffers)
    await endpoint.close()
    return times


def report(options, times):
    halves = sorted(nanoseconds / 2000 for nanoseconds in times)
    return {
        "library": options.library,
        "mode": options.mode,
        "size": options.size,
        "iterations": options.iterations,
        "half_round_trip_us": round(statistics.median(halves), 3),
        "half_round_trip_p99_us": round(halves[int(0.99 * (len(halves) - 1))], 3),
    }


def main():
    options = arguments()
    if options.iterations < 1 or options.warmup < 0 or options.size < 0:
        sys.exit("pingpong.py: --iterations must be at least 1, --warmup and --size at least 0")
    cpus = [int(cpu) for cpu in options.cpus.split(",")] if options.cpus else None
    links = socket.socketpair()
    child = os.fork()
    rank = 0 if child else 1
    links[1 - rank].close()
    if rank == 1:
        # Ends with the parent in any case.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if cpus:
        os.sched_setaffinity(0, {cpus[rank]})
    # Imported after the fork: the two processes share nothing of the library or of UCX.
    side = {"ucxx_rs": with_ucxx_rs, "ucxx": with_ucxx}[options.library]
    times = asyncio.run(side(options, rank, links[rank]))
    if rank == 1:
        return 0
    _, status = os.waitpid(child, 0)
    if status != 0:
        sys.exit(
            f"pingpong.py: the other process ended with status {os.waitstatus_to_exitcode(status)}"
        )
    print(json.dumps(report(options, times)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
