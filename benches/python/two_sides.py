# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Shared by the Python programs: options, the two processes and the socket between them, the loop,
and the report."""

import argparse
import array
import os
import socket
import struct
import subprocess
import sys
import time

WARMUP = 200
MODES = ("polling", "blocking", "thread", "thread-notifier")


def start():
    """Reads the options and starts the other side, as a new execution of the same program. Returns
    the options and the socket."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", choices=MODES, default="polling")
    parser.add_argument("--size", type=int, default=8, help="bytes of a message, or of a frame")
    parser.add_argument("--frames", type=int, default=0, help="buffers of a multi-buffer message")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--error-handling", choices=["peer", "none"], default="peer")
    parser.add_argument("--cpus", default="none")
    parser.add_argument("--socket", type=int, default=-1)
    options = parser.parse_args()
    options.side = 0 if options.socket < 0 else 1
    if options.side == 0:
        mine, other = socket.socketpair()
        command = [sys.executable, *sys.argv, "--socket", str(other.fileno())]
        options.process = subprocess.Popen(command, pass_fds=[other.fileno()])
        other.close()
    else:
        mine = socket.socket(fileno=options.socket)
    if options.cpus != "none":
        os.sched_setaffinity(0, {int(options.cpus.split(",")[options.side])})
    return options, mine


def exchange(link, data):
    """Sends `data`, and returns what the other side sends."""
    link.sendall(struct.pack("=I", len(data)) + data)
    (length,) = struct.unpack("=I", link.recv(4, socket.MSG_WAITALL))
    return link.recv(length, socket.MSG_WAITALL)


async def exchange_messages(options, send, receive):
    """Sends one message back and forth. `send(last)` sends one, and `receive()` returns whether the
    one that it received is the last. Returns half round trips in nanoseconds."""
    if options.side == 1:
        while True:
            last = await receive()
            await send(last)
            if last:
                return []
    samples = array.array("d")
    deadline = None
    warm_up = time.monotonic() + options.seconds / 10
    while True:
        before = time.perf_counter_ns()
        # The send must be started before the reply can arrive. It need not have completed.
        await send(False)
        await receive()
        samples.append((time.perf_counter_ns() - before) / 2)
        now = time.monotonic()
        if deadline is None and (len(samples) >= WARMUP or now > warm_up):
            del samples[:]
            deadline = now + options.seconds
        elif deadline is not None and now > deadline:
            break
    await send(True)
    await receive()
    return samples


def report(options, samples, **facts):
    """On the measuring side: prints the results, and waits for the other side."""
    if options.side != 0:
        return
    ordered = sorted(samples)
    facts["half_round_trip_ns"] = ordered[(len(ordered) - 1) // 2]
    facts["half_round_trip_ns_p99"] = ordered[(len(ordered) - 1) * 99 // 100]
    for key, value in facts.items():
        print(f"{key}={value}", flush=True)
    if options.process.wait() != 0:
        sys.exit("the other side failed")
