# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Rows for puts and gets."""

from .row import MIB, Count, Row, Target, without_peer

MEMORIES = ("allocated", "registered")


def _rma(operation, memory, transport, batch, batches, warmup, targets=()):
    """One operation at a time. A put counts until it is flushed."""
    arguments = {
        "operation": operation,
        "memory": memory,
        "size": 8,
        "iterations": batch,
        "batches": batches,
        "warmup": warmup,
    }
    return Row(
        f"rma_{operation}_8B_{memory}_{transport}",
        "ns",
        transport,
        "rma_window",
        "operation_ns",
        arguments,
        targets=targets,
        columns=without_peer(),
    )


def _rma_bandwidth(operation, memory, transport, batch, batches):
    arguments = {
        "operation": operation,
        "memory": memory,
        "size": MIB,
        "iterations": batch,
        "batches": batches,
        "warmup": batch,
        "window": 8,
    }
    return Row(
        f"rma_{operation}_bandwidth_1MiB_{memory}_{transport}",
        "GB/s",
        transport,
        "rma_window",
        "bytes_per_second",
        arguments,
        scale=1e-9,
        targets=(Target("ratio_raw", 0.95, at_least=True),),
        columns=without_peer(),
    )


def rma_rows():
    shm, tcp = ("shm", 1000, 300, 20000), ("tcp", 200, 50, 500)
    limit = (Target("ratio_raw", 1.05),)
    rows = [
        _rma(operation, memory, *how, targets=targets)
        for how in (shm, tcp)
        for memory in MEMORIES
        for operation, targets in (("put", limit), ("get", limit), ("add", ()))
    ]
    return rows + [
        _rma_bandwidth(operation, memory, *how)
        for how in (("shm", 160, 15), ("tcp", 160, 7))
        for memory in MEMORIES
        for operation in ("put", "get")
    ]


def _rma_count(what, unit, name, operation, memory, size, iterations, targets=()):
    return Count(
        name,
        unit,
        what,
        "shm",
        {"operation": operation, "memory": memory, "size": size},
        iterations,
        targets,
        program="rma_pairloop",
    )


def _rma_instructions(operation, memory):
    return _rma_count(
        "instructions",
        "instructions an operation",
        f"rma_instructions_{operation}_8B_{memory}_shm",
        operation,
        memory,
        8,
        4000,
    )


def _rma_allocations(operation, memory, label, size, iterations):
    return _rma_count(
        "allocations",
        f"calls in {iterations} operations",
        f"allocations_rma_{operation}_{label}_{memory}_shm",
        operation,
        memory,
        size,
        iterations,
        (Target("ours", 0),),
    )


def rma_counts():
    both = [(operation, memory) for memory in MEMORIES for operation in ("put", "get")]
    return [
        *[_rma_instructions(*how) for how in both],
        *[
            _rma_allocations(*how, "8B", 8, 10000)
            for how in [*both, *(("add", memory) for memory in MEMORIES)]
        ],
        *[_rma_allocations(*how, "1MiB", MIB, 1000) for how in both],
    ]
