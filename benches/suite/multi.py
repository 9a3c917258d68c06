# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Rows for transfers of many buffers."""

from .row import Column, Row, columns


# Half of an exchange of `frames` frames: by tag against UCXX, and as one active message against one
# message of plain UCP with as many bytes.
def frames_pingpong(name, frames, size, transport, targets=(), **more):
    arguments = {"window": frames, "size": size, "iterations": 100, "warmup": 100, "batches": 20}
    return Row(
        f"{name}_{transport}",
        "us",
        transport,
        "multi_pingpong",
        "half_round_trip_ns",
        arguments,
        scale=1e-3,
        targets=targets,
        **more,
    )


def multi(frames, size, label, transport, targets=()):
    return frames_pingpong(f"multi_{frames}x{label}", frames, size, transport, targets)


def multi_am(frames, size, label, transport, targets=()):
    return frames_pingpong(
        f"multi_am_{frames}x{label}",
        frames,
        size,
        transport,
        targets,
        columns=columns(Column("raw"), Column("ours", {"protocol": "eager"}), Column("ucxx")),
    )
