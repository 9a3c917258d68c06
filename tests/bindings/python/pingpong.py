#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Half of a round trip between two processes through the Python client, in microseconds.

    pingpong.py --mode polling|blocking|thread|notifier [--size 8] [--iterations N] [--cpus 0,1] [--tls LIST]

It starts both processes itself and prints one line of JSON.
"""

import argparse
import asyncio
import json
import os
import socket
import statistics
import struct
import sys
import time

TAG = 1


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", choices=["polling", "blocking", "thread", "notifier"], default="notifier")
    parser.add_argument("--size", type=int, default=8, help="bytes of a message (default 8)")
    parser.add_argument("--iterations", type=int, default=5000, help="round trips that are measured (default 5000)")
    parser.add_argument("--warmup", type=int, default=500, help="round trips before (default 500)")
    parser.add_argument("--cpus", help="the CPUs of the two processes, e.g. 0,1 (default: any)")
    parser.add_argument("--tls", help="UCX_TLS of both, e.g. posix,cma,self (default: the environment's)")
    return parser.parse_args()


def exchange(link, address):
    link.sendall(struct.pack("!I", len(address)) + address)
    with link.makefile("rb") as incoming:
        return incoming.read(*struct.unpack("!I", incoming.read(4)))


async def side(options, rank, link):
    """Times of the round trips in nanoseconds, on the side with rank 0."""
    # After the fork: nothing of the library or of UCX is shared by the two.
    from ucxx_rs_client import Context, Worker

    context = Context({"TLS": options.tls} if options.tls else None)
    async with Worker(context, options.mode) as worker:
        endpoint = worker.connect(exchange(link, worker.address))
        incoming, outgoing = bytearray(options.size), bytes(options.size)
        times = []
        for _ in range(options.warmup + options.iterations):
            received = worker.recv(incoming, TAG)
            started = time.perf_counter_ns()
            if rank == 0:
                await endpoint.send(outgoing, TAG)
                await received
            else:
                await received
                await endpoint.send(outgoing, TAG)
            times.append(time.perf_counter_ns() - started)
        await endpoint.flush()
        return times[options.warmup :]


def report(options, times):
    halves = sorted(nanoseconds / 2000 for nanoseconds in times)
    return {
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
    if cpus:
        os.sched_setaffinity(0, {cpus[rank]})
    times = asyncio.run(side(options, rank, links[rank]))
    if rank == 1:
        return 0
    _, status = os.waitpid(child, 0)
    if status != 0:
        sys.exit(f"pingpong.py: the other process ended with status {os.waitstatus_to_exitcode(status)}")
    print(json.dumps(report(options, times)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
