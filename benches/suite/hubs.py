# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Rows for hubs."""

from .row import KIB, MIB, Column, Count, Row, Target, columns


def hub_bandwidth(transport, batches):
    return Row(
        f"hub_bandwidth_1MiB_{transport}",
        "GB/s",
        transport,
        "hub_stream",
        "bytes_per_second",
        {"size": MIB, "iterations": 160, "batches": batches, "warmup": 160, "window": 8},
        scale=1e-9,
        targets=(Target("ratio_raw", 0.95, at_least=True),),
        columns=columns(Column("raw"), Column("ours")),
    )


TWO_QUEUES = "two pairs of push and pop on ArrayQueue (crossbeam)"


def hub_cycle(label, threads, locked=0):
    """One program does both in turn. With a limit below the capacity of the envelopes a hub always
    uses its lock, which is for reference."""
    return Row(
        f"hub_cycle_{label}",
        "ns a chunk",
        "shm",
        "hub_cycle",
        {"ours": "hub_ns", "peer": "queues_ns"},
        {"threads": threads, "locked": locked},
        targets=() if locked else (Target("ratio_peer", 2.0),),
        columns=columns(ours=Column("engine"), peer=Column("engine")),
        peer_name=TWO_QUEUES,
    )


def hub_rate(label, threads):
    """The same in chunks a second, with 64 envelopes, which together are larger than a core's
    cache."""
    keys = {"ours": "hub_per_second", "peer": "queues_per_second"}
    arguments = {"threads": threads, "size": 64 * KIB, "batches": 15}
    return Row(
        f"hub_rate_64x64KiB_{label}",
        "M/s",
        "shm",
        "hub_cycle",
        keys,
        arguments,
        scale=1e-6,
        columns=columns(ours=Column("engine"), peer=Column("engine")),
        peer_name=TWO_QUEUES,
    )


def hub_rate_between():
    """From a hub with 64 envelopes in one process to a hub in the other."""
    arguments = {"size": 64 * KIB, "iterations": 640, "batches": 8, "warmup": 640, "window": 64}
    return Row(
        "hub_rate_64x64KiB_shm",
        "M/s",
        "shm",
        "hub_stream",
        "messages_per_second",
        arguments,
        scale=1e-6,
        columns=columns(Column("raw"), Column("ours")),
    )


def hub_overlap():
    """Three threads that sleep. They are not pinned."""
    return Row(
        "hub_overlap_200us_sleeping",
        "of the longest stage",
        "shm",
        "hub_overlap",
        "efficiency",
        {"iterations": 1000, "batches": 3},
        targets=(Target("ours", 0.95, at_least=True),),
        columns=columns(ours=Column("ours")),
        pinned=False,
    )


def _hub_count(what, label, way, size, iterations=10000):
    return Count(
        f"hub_{what}_{label}",
        f"calls in {iterations} chunks",
        what,
        "shm",
        {"only": way, "size": size},
        iterations,
        (Target("ours", 0),),
        program="hub_loop",
        columns=columns(ours=Column("ours")),
    )


def hub_counts():
    """For chunks of 1 MiB UCX itself makes system calls, which copy between processes."""
    hubs = [
        _hub_count(what, way, way, 64)
        for what in ("allocations", "syscalls")
        for way in ("plain", "locked")
    ]
    ways, sizes = (
        ("stream", "message"),
        (("8B", 8, 10000), ("4KiB", 4096, 10000), ("1MiB", MIB, 1000)),
    )
    return [
        *hubs,
        *[
            _hub_count("allocations", f"{way}_{label}_shm", way, *how)
            for way in ways
            for label, *how in sizes
        ],
        *[_hub_count("syscalls", f"{way}_8B_shm", way, 8) for way in ways],
    ]
