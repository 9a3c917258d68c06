# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Rows by size: latency and rate of each kind of message over shared memory, against raw UCP."""

from .row import KIB, Column, Row, columns

SIZES = {
    "1B": 1,
    "64B": 64,
    "105B": 105,
    "256B": 256,
    "1KiB": KIB,
    "4KiB": 4 * KIB,
    "8KiB": 8 * KIB,
    "64KiB": 64 * KIB,
}
# For each kind: the program with one message at a time, the value that it prints, and the program
# with a window of messages.
KINDS = {
    "tag": ("pingpong", "half_round_trip_ns", "stream"),
    "am": ("am_pingpong", "half_round_trip_ns", "am_stream"),
    "fetch": ("fetch_window", "question_ns", "fetch_window"),
}
# A run takes about a tenth of a second, because there are many.
LONG = 64 * KIB
ONE_BY_ONE = {"iterations": 1000, "batches": 50, "warmup": 5000}
LONG_ONE_BY_ONE = {"iterations": 100, "batches": 20, "warmup": 200}
MANY = {"iterations": 6400, "batches": 50, "warmup": 6400, "window": 32}
LONG_MANY = {"iterations": 320, "batches": 10, "warmup": 320, "window": 32}


def _row(name, unit, program, key, arguments, scale=1.0):
    return Row(
        f"{name}_shm",
        unit,
        "shm",
        program,
        key,
        arguments,
        scale=scale,
        columns=columns(Column("raw"), Column("ours")),
    )


def _of_size(kind, label, size):
    one_by_one, key, many = KINDS[kind]
    latency = LONG_ONE_BY_ONE if size >= LONG else ONE_BY_ONE
    rate = LONG_MANY if size >= LONG else MANY
    return [
        _row(f"{kind}_latency_{label}", "ns", one_by_one, key, {"size": size, **latency}),
        _row(
            f"{kind}_rate_{label}", "M/s", many, "messages_per_second", {"size": size, **rate}, 1e-6
        ),
    ]


ROWS = [
    row for kind in KINDS for label, size in SIZES.items() for row in _of_size(kind, label, size)
]
