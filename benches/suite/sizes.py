# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Rows by size: latency and rate of each kind of message, against raw UCP. curves.py makes a curve
of the rows that differ only in size."""

from .row import KIB, MIB, Row, Target, without_peer
from .rows import ROWS as OTHER_ROWS

# Powers of two, and the sizes beside which a way of sending ends.
SIZES = {
    "shm": sorted([*(1 << power for power in range(29)), 41, 65, 100, 104, 105, 200]),
    # A message over TCP costs so much that neighbours hardly differ.
    "tcp": sorted([*(1 << power for power in range(0, 29, 2)), 105, 200, 8 * KIB]),
}
ONE_BY_ONE, RATE = "half_round_trip_ns", "messages_per_second"
# The name of a row, around its size; the program, the value that it prints, and its arguments.
KINDS = {
    "tag_latency_{}": ("pingpong", ONE_BY_ONE, {}),
    "tag_rate_{}": ("stream", RATE, {}),
    "am_latency_{}": ("am_pingpong", ONE_BY_ONE, {}),
    "am_rate_{}": ("am_stream", RATE, {}),
    "fetch_latency_{}": ("fetch_window", "question_ns", {}),
    "fetch_rate_{}": ("fetch_window", RATE, {}),
    "stream_latency_{}": ("byte_pingpong", ONE_BY_ONE, {}),
    "stream_rate_{}": ("byte_stream", RATE, {}),
    **{
        f"rma_{operation}_{{}}_registered": (
            "rma_window",
            "operation_ns",
            {"operation": operation, "memory": "registered"},
        )
        for operation in ("put", "get")
    },
}
# A run takes about a tenth of a second, because there are many: at most so many messages, and so
# many bytes.
MESSAGES = {"shm": 50000, "tcp": 4000}
BYTES = {"shm": 1 << 30, "tcp": 1 << 28}
WINDOW_BYTES = 32 * MIB


def label_of(size):
    for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
        if size % unit == 0:
            return f"{size // unit}{name}"
    return f"{size}B"


def _arguments(size, transport, at_a_time):
    """A batch is a multiple of `at_a_time` messages."""
    total = max(min(MESSAGES[transport], BYTES[transport] // size), 4 * at_a_time)
    batches = max(min(50, total // (8 * at_a_time)), 4)
    a_batch = max(total // batches // at_a_time, 1) * at_a_time
    return {"size": size, "iterations": a_batch, "batches": batches, "warmup": a_batch}


def _row(name, size, transport):
    program, key, more = KINDS[name]
    if key == RATE:
        window = min(32, max(1, WINDOW_BYTES // size))
        # Two windows take turns.
        arguments = {**_arguments(size, transport, 2 * window), **more, "window": window}
        unit, scale, target = "M/s", 1e-6, Target("ratio_raw", 0.95, at_least=True)
    else:
        arguments = {**_arguments(size, transport, 1), **more}
        unit, scale, target = "ns", 1.0, Target("ratio_raw", 1.05)
    return Row(
        f"{name.format(label_of(size))}_{transport}",
        unit,
        transport,
        program,
        key,
        arguments,
        scale=scale,
        targets=(target,),
        columns=without_peer(),
        most_rounds=3,
    )


# What rows.py has, with targets of its own, is not measured again.
_OTHERS = {row.name for row in OTHER_ROWS}
ROWS = [
    row
    for transport, sizes in SIZES.items()
    for name in KINDS
    for size in sizes
    if (row := _row(name, size, transport)).name not in _OTHERS
]
