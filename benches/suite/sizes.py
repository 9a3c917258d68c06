# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Rows by size: latency and rate of each kind of message, against raw UCP. curves.py makes a curve
of the rows that differ only in size."""

from .row import KIB, MIB, Row, Target, without_peer

# Powers of two, and the sizes beside which a way of sending ends.
SIZES = sorted([*(1 << power for power in range(29)), 41, 65, 100, 104, 105, 200])
# A message over TCP costs so much that neighbours hardly differ.
TCP_SIZES = [*(1 << power for power in range(0, 29, 2)), 105, 200, 8 * KIB]
# For each kind: the program with one message at a time, the value that it prints, the program with
# a window of messages, and further arguments.
KINDS = {
    "tag": ("pingpong", "half_round_trip_ns", "stream", {}),
    "am": ("am_pingpong", "half_round_trip_ns", "am_stream", {}),
    "fetch": ("fetch_window", "question_ns", "fetch_window", {}),
    "byte_stream": ("byte_pingpong", "half_round_trip_ns", "byte_stream", {}),
    "put": ("rma_window", "operation_ns", None, {"operation": "put", "memory": "registered"}),
    "get": ("rma_window", "operation_ns", None, {"operation": "get", "memory": "registered"}),
}
# A run takes about a tenth of a second, because there are many: at most so many messages, and so
# many bytes.
MESSAGES = {"shm": 50000, "tcp": 4000}
BYTES = {"shm": 1 << 30, "tcp": 1 << 28}
WINDOW_BYTES = 32 * MIB
AT_MOST, AT_LEAST = Target("ratio_raw", 1.05), Target("ratio_raw", 0.95, at_least=True)


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


def _row(name, unit, transport, program, key, arguments, scale=1.0):
    return Row(
        f"{name}_{transport}",
        unit,
        transport,
        program,
        key,
        arguments,
        scale=scale,
        targets=(AT_MOST if unit == "ns" else AT_LEAST,),
        columns=without_peer(),
        most_rounds=3,
    )


def _of_size(kind, size, transport):
    one_by_one, key, many, more = KINDS[kind]
    label = label_of(size)
    latency = {**_arguments(size, transport, 1), **more}
    rows = [_row(f"{kind}_latency_{label}", "ns", transport, one_by_one, key, latency)]
    if many:
        window = min(32, max(1, WINDOW_BYTES // size))
        # Two windows take turns.
        rate = {**_arguments(size, transport, 2 * window), **more, "window": window}
        name = f"{kind}_rate_{label}"
        if many == "byte_stream":
            rows.append(_row(name, "GB/s", transport, many, "bytes_per_second", rate, 1e-9))
        else:
            rows.append(_row(name, "M/s", transport, many, "messages_per_second", rate, 1e-6))
    return rows


ROWS = [
    row
    for transport, sizes in (("shm", SIZES), ("tcp", sorted(TCP_SIZES)))
    for kind in KINDS
    for size in sizes
    if not (size == 8 and kind in ("am", "fetch"))  # rows.py has these, with targets
    for row in _of_size(kind, size, transport)
]
