# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Rows of transfers of many buffers."""

from .row import Column, Row, columns


def _multi(frames, size, label, transport, batch, targets=()):
    arguments = {
        "window": frames,
        "size": size,
        "iterations": batch,
        "warmup": batch,
        "batches": 20,
    }
    return Row(
        f"multi_{frames}x{label}_{transport}",
        "us",
        transport,
        "multi_pingpong",
        "half_round_trip_ns",
        arguments,
        scale=1e-3,
        targets=targets,
    )


def _multi_am(frames, size, label, transport, batch, targets=()):
    arguments = {
        "window": frames,
        "size": size,
        "iterations": batch,
        "warmup": batch,
        "batches": 20,
    }
    return Row(
        f"multi_am_{frames}x{label}_{transport}",
        "us",
        transport,
        "multi_pingpong",
        "half_round_trip_ns",
        arguments,
        scale=1e-3,
        targets=targets,
        columns=columns(Column("raw"), Column("ours", {"protocol": "eager"}), Column("ucxx")),
    )


# UCXX has no adaptive mode, and its requests cannot be waited for: it gets the mode that a row
# says, and its callbacks where one thread waits for one message, which serves it best, or requests
# that are asked for their status where many are in flight.
