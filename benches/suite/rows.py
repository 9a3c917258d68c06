# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""What is measured: one entry a row, with the target it is held to."""

from dataclasses import dataclass, field
from typing import Optional

MIB = 1 << 20

# The same for every implementation. Without the two *_ERROR_HANDLING/_INVALIDATE settings UCX leaves shared memory as soon
# as endpoints detect failures, and a row would compare TCP with shared memory.
COMMON = {
    "UCX_MM_ERROR_HANDLING": "y",
    "UCX_CMA_MEMORY_INVALIDATE": "y",
    "UCX_KEEPALIVE_INTERVAL": "1s",
    "UCX_WARN_UNUSED_ENV_VARS": "n",
}
TRANSPORTS = {
    "shm": {"UCX_TLS": "posix,cma,self"},
    "tcp": {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"},
}


@dataclass
class Target:
    """`what` is ours, ratio_raw or ratio_peer; it meets the target when at most, or at least, `limit`."""

    what: str
    limit: float
    at_least: bool = False

    def text(self):
        return f"{self.what} {'>=' if self.at_least else '<='} {self.limit:g}"

    def met(self, value):
        return value >= self.limit if self.at_least else value <= self.limit


@dataclass
class Row:
    """A row that is timed: each implementation's program prints `key`."""

    name: str
    unit: str
    transport: str
    program: str
    key: str
    arguments: dict = field(default_factory=dict)
    scale: float = 1.0
    target: Optional[Target] = None
    # A second row from the same runs: what the implementations add to raw UCP.
    overhead: Optional[str] = None
    overhead_target: Optional[Target] = None


@dataclass
class Count:
    """A row that is counted in one process: `what` is instructions, allocations or syscalls."""

    name: str
    unit: str
    what: str
    transport: str
    arguments: dict
    iterations: int
    target: Optional[Target] = None


def _latency(transport, batch, batches, warmup, **more):
    return Row(f"latency_8B_{transport}", "ns", transport, "pingpong", "half_round_trip_ns",
               {"size": 8, "iterations": batch, "batches": batches, "warmup": warmup},
               target=Target("ratio_raw", 1.10), **more)


def _rate(transport, batch, batches):
    return Row(f"rate_8B_{transport}", "M/s", transport, "stream", "messages_per_second",
               {"size": 8, "iterations": batch, "batches": batches, "warmup": batch, "window": 32},
               scale=1e-6, target=Target("ratio_raw", 0.90, at_least=True))


def _bandwidth(transport, label, size, window, batch, batches):
    return Row(f"bandwidth_{label}_{transport}", "GB/s", transport, "stream", "bytes_per_second",
               {"size": size, "iterations": batch, "batches": batches, "warmup": batch, "window": window},
               scale=1e-9, target=Target("ratio_raw", 0.98, at_least=True))


def _allocations(label, size, iterations):
    return Count(f"allocations_{label}_shm", f"calls in {iterations} operations", "allocations", "shm", {"size": size},
                 iterations, Target("ours", 0))


ROWS = [
    _latency("shm", 1000, 300, 20000, overhead="overhead_8B_shm", overhead_target=Target("ratio_peer", 0.10)),
    _latency("tcp", 200, 50, 500),
    _rate("shm", 32000, 60),
    _rate("tcp", 6400, 30),
    _bandwidth("shm", "1MiB", MIB, 8, 160, 15),
    _bandwidth("shm", "64MiB", 64 * MIB, 1, 4, 10),
    _bandwidth("tcp", "1MiB", MIB, 8, 160, 7),
    _bandwidth("tcp", "64MiB", 64 * MIB, 1, 2, 7),
    Count("instructions_8B_shm", "instructions an operation", "instructions", "shm", {"size": 8}, 4000),
    _allocations("8B", 8, 10000),
    _allocations("4KiB", 4096, 10000),
    _allocations("1MiB", MIB, 1000),
    Count("syscalls_8B_shm", "calls in 10000 operations", "syscalls", "shm", {"size": 8}, 10000, Target("ours", 0)),
]
