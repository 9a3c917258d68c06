# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""All other rows, each with its target."""

from .hubs import (
    hub_bandwidth,
    hub_counts,
    hub_cycle,
    hub_overlap,
    hub_rate,
    hub_rate_between,
)
from .multi import multi, multi_am
from .rma import rma_counts, rma_rows
from .row import KIB, MIB, PERFTEST, Column, Count, Figure, Row, Target, columns, without_peer


def _latency(transport, batch, batches, warmup, **more):
    return Row(
        f"latency_8B_{transport}",
        "ns",
        transport,
        "pingpong",
        "half_round_trip_ns",
        {"size": 8, "iterations": batch, "batches": batches, "warmup": warmup},
        targets=(Target("ratio_raw", 1.10),),
        **more,
    )


def _rate(transport, batch, batches):
    return Row(
        f"rate_8B_{transport}",
        "M/s",
        transport,
        "stream",
        "messages_per_second",
        {"size": 8, "iterations": batch, "batches": batches, "warmup": batch, "window": 32},
        scale=1e-6,
        targets=(Target("ratio_raw", 0.90, at_least=True),),
    )


def _bandwidth(transport, label, size, window, batch, batches):
    return Row(
        f"bandwidth_{label}_{transport}",
        "GB/s",
        transport,
        "stream",
        "bytes_per_second",
        {"size": size, "iterations": batch, "batches": batches, "warmup": batch, "window": window},
        scale=1e-9,
        targets=(Target("ratio_raw", 0.98, at_least=True),),
    )


def _bytes(name, unit, program, key, arguments, scale=1.0):
    """Rows for streams, for reference. The raw column posts receives to UCP, which fills them as
    bytes arrive but cannot return them."""
    return Row(
        f"stream_{name}_shm",
        unit,
        "shm",
        program,
        key,
        arguments,
        scale=scale,
        columns=columns(Column("raw"), Column("ours")),
    )


def _am(label, unit, transport, program, key, arguments, scale, target):
    return Row(
        f"am_{label}_{transport}",
        unit,
        transport,
        program,
        key,
        arguments,
        scale=scale,
        targets=(target,),
        columns=without_peer(),
    )


def _am_latency(transport, batch, batches, warmup):
    return _am(
        "latency_8B",
        "ns",
        transport,
        "am_pingpong",
        "half_round_trip_ns",
        {"size": 8, "iterations": batch, "batches": batches, "warmup": warmup},
        1.0,
        Target("ratio_raw", 1.10),
    )


def _am_stream(label, size, window, batch, batches, transport, bandwidth=False):
    unit, key, scale, limit = (
        ("GB/s", "bytes_per_second", 1e-9, 0.98)
        if bandwidth
        else ("M/s", "messages_per_second", 1e-6, 0.90)
    )
    arguments = {
        "size": size,
        "iterations": batch,
        "batches": batches,
        "warmup": batch,
        "window": window,
    }
    return _am(
        label,
        unit,
        transport,
        "am_stream",
        key,
        arguments,
        scale,
        Target("ratio_raw", limit, at_least=True),
    )


def _fetch_latency(transport, batch, batches, warmup):
    return Row(
        f"fetch_latency_8B_{transport}",
        "ns",
        transport,
        "fetch_window",
        "question_ns",
        {"size": 8, "iterations": batch, "batches": batches, "warmup": warmup},
        targets=(Target("ratio_raw", 1.05),),
        columns=without_peer(),
    )


def _fetch_bandwidth(transport, batches):
    return Row(
        f"fetch_bandwidth_1MiB_{transport}",
        "GB/s",
        transport,
        "fetch_window",
        "bytes_per_second",
        {"size": MIB, "iterations": 160, "batches": batches, "warmup": 160, "window": 8},
        scale=1e-9,
        targets=(Target("ratio_raw", 0.98, at_least=True),),
        columns=without_peer(),
    )


# UCXX has no adaptive mode, so the row names its mode. Its requests have no wait, so it uses what
# serves it best: callbacks if one thread waits for one message, and polled requests if many are in
# flight.
def _delayed(label, mode, peer_mode, producers=1, targets=(), rate_targets=()):
    arguments = {"iterations": 25600, "warmup": 25600, "batches": 10, "producers": producers}
    ours = Column("ours", {"progress": mode, "completion": "wait"})
    peer = Column("ucxx", {"progress": peer_mode, "completion": "poll", "batches": 3})
    rate = Figure(f"delayed_rate{label}_8B_shm", "M/s", "operations_per_second", 1e-6, rate_targets)
    return Row(
        f"submission{label}_8B_shm",
        "ns",
        "shm",
        "delayed",
        "submission_ns",
        arguments,
        targets=targets,
        columns=columns(ours=ours, peer=peer),
        also=(rate,),
        error_handling="none",
    )


def _scaling():
    """Four producers in the first column, against one."""
    arguments = {
        "iterations": 25600,
        "warmup": 25600,
        "batches": 10,
        "progress": "adaptive",
        "completion": "wait",
    }
    four, one = Column("ours", {"producers": 4}), Column("ours", {"producers": 1})
    return Row(
        "delayed_scaling_8B_shm",
        "M/s",
        "shm",
        "delayed",
        "operations_per_second",
        arguments,
        scale=1e-6,
        targets=(Target("ratio_peer", 1.0, at_least=True),),
        columns=columns(ours=four, peer=one),
        peer_name="ours with 1 producer in place of 4",
        error_handling="none",
    )


def _thread_latency(label, ours, peer, targets=(), tail_targets=None, pinned=True):
    tail = Figure(
        f"thread_latency{label}_p99_8B_shm",
        "us",
        "half_round_trip_ns_p99",
        1e-3,
        targets if tail_targets is None else tail_targets,
    )
    return Row(
        f"thread_latency{label}_8B_shm",
        "us",
        "shm",
        "thread_pingpong",
        "half_round_trip_ns",
        {"seconds": 1},
        scale=1e-3,
        targets=targets,
        columns=columns(ours=Column("ours", ours), peer=Column("ucxx", peer)),
        also=(tail,),
        pinned=pinned,
    )


def _idle(mode):
    columns_of_row = columns(
        Column("raw", {"progress": "blocking"}),
        Column("ours", {"progress": mode}),
        Column("ucxx", {"progress": "blocking"}),
    )
    wakeups = Figure(
        f"idle_wakeups_{mode}_shm", "1/s", "wakeups_per_second", targets=(Target("over_raw", 0.3),)
    )
    return Row(
        f"idle_cpu_{mode}_shm",
        "% of a core",
        "shm",
        "idle",
        "cpu_percent",
        {"seconds": 5},
        targets=(Target("ours", 0.2),),
        columns=columns_of_row,
        also=(wakeups,),
        most_rounds=2,
    )


def _idle_syscalls(mode):
    return Count(
        f"idle_syscalls_{mode}_shm",
        "calls in 5 s",
        "idle_syscalls",
        "shm",
        {"seconds": 5},
        0,
        program="idle",
        columns=columns(
            Column("raw", {"progress": "blocking"}), Column("ours", {"progress": mode})
        ),
    )


def _failure_detection():
    """With failure detection in the first column, against without."""
    arguments = {"size": 8, "iterations": 1000, "batches": 300, "warmup": 20000}
    with_it, without = (
        Column("ours", {"error-handling": "peer"}),
        Column("ours", {"error-handling": "none"}),
    )
    return Row(
        "failure_detection_8B_shm",
        "ns",
        "shm",
        "pingpong",
        "half_round_trip_ns",
        arguments,
        targets=(Target("ratio_peer", 1.05),),
        columns=columns(ours=with_it, peer=without),
        peer_name="ours without failure detection",
    )


def _instructions(kind, what, program, peer=None):
    """At three sizes: two that are copied, and one that is not."""
    return [
        Count(
            f"{kind}instructions_{label}_shm",
            f"instructions {what}",
            "instructions",
            "shm",
            {"size": size},
            4000,
            program=program,
            columns=columns(Column("raw"), Column("ours"), peer),
        )
        for label, size in (("8B", 8), ("200B", 200), ("64KiB", 64 * KIB))
    ]


def _header_counts(way, allocations=0):
    """What ucxx_rs.hpp adds to the C calls that it makes."""
    cpp = Column("cpp", {"form": "cpp", "way": way})
    return [
        Count(
            f"cpp_instructions_{way}_8B_shm",
            "instructions an operation",
            "instructions",
            "shm",
            {"size": 8},
            4000,
            (Target("ratio_peer", 1.05),),
            "header_loop",
            columns(ours=cpp, peer=Column("cpp", {"form": "c", "way": way})),
            peer_name="the same in C",
        ),
        Count(
            f"cpp_allocations_{way}_8B_shm",
            "calls in 10000 operations",
            "allocations",
            "shm",
            {"size": 8},
            10000,
            (Target("ours", allocations),),
            "header_loop",
            columns(ours=cpp),
        ),
    ]


def _allocations(label, size, iterations, program="pairloop"):
    return Count(
        f"allocations_{label}_shm",
        f"calls in {iterations} operations",
        "allocations",
        "shm",
        {"size": size},
        iterations,
        (Target("ours", 0),),
        program,
    )


def _syscalls(label, program="pairloop"):
    return Count(
        f"syscalls_{label}_shm",
        "calls in 10000 operations",
        "syscalls",
        "shm",
        {"size": 8},
        10000,
        (Target("ours", 0),),
        program,
    )


def _delayed_allocations(completion, mode="adaptive"):
    arguments = {"progress": mode, "completion": completion, "warmup": 102400, "batches": 2}
    return Count(
        f"allocations_delayed_{completion}_shm",
        "calls in 25600 operations",
        "allocations",
        "shm",
        arguments,
        25600,
        (Target("ours", 0),),
        program="delayed",
        columns=columns(ours=Column("ours")),
        error_handling="none",
    )


def _perftest(label, unit, program, key, arguments, peer_arguments, scale):
    keys = {"raw": key, "ours": key, "peer": "value"}
    return Row(
        f"perftest_{label}_shm",
        unit,
        "shm",
        program,
        keys,
        arguments,
        scale=scale,
        most_rounds=3,
        columns=columns(Column("raw"), Column("ours"), Column(PERFTEST, peer_arguments)),
        peer_name=PERFTEST,
    )


ENGINE = "the Rust engine, called directly"


def _python(mode, name, factor, **arguments):
    """Half of a round trip between two Python processes; `factor`: the most of UCXX's time."""
    both = columns(ours=Column("python_ours"), peer=Column("python_ucxx"))
    return Row(
        f"python_{name}_{mode.replace('-', '_')}_shm",
        "us",
        "shm",
        "pingpong",
        "half_round_trip_ns",
        {"mode": mode, "seconds": 2, **arguments},
        scale=1e-3,
        columns=both,
        most_rounds=3,
        timeout_s=20,
        targets=(Target("ratio_peer", factor),),
        peer_name="ucxx-cu12 0.52.0 (Python)",
    )


PYTHON_MODES = ("polling", "blocking", "thread", "thread-notifier")


_SIXTY = (Target("ours", 60), Target("ratio_peer", 0.06))
_TENFOLD = (Target("ratio_peer", 10, at_least=True),)
_THIRD = (Target("ratio_peer", 0.35),)

ROWS = [
    _latency(
        "shm",
        1000,
        300,
        20000,
        overhead="overhead_8B_shm",
        overhead_target=Target("ratio_peer", 0.10),
    ),
    _latency("tcp", 200, 50, 500),
    _failure_detection(),
    _rate("shm", 32000, 60),
    _rate("tcp", 6400, 30),
    _bandwidth("shm", "1MiB", MIB, 8, 160, 15),
    _bandwidth("shm", "64MiB", 64 * MIB, 1, 4, 10),
    _bandwidth("tcp", "1MiB", MIB, 8, 160, 7),
    _bandwidth("tcp", "64MiB", 64 * MIB, 1, 2, 7),
    _bandwidth("untuned", "1MiB", MIB, 8, 160, 7),
    hub_bandwidth("shm", 15),
    hub_bandwidth("tcp", 7),
    hub_cycle("1_thread", 1),
    hub_cycle("2_threads", 2),
    hub_cycle("locked_1_thread", 1, locked=1),
    hub_cycle("locked_2_threads", 2, locked=1),
    hub_rate("1_thread", 1),
    hub_rate("2_threads", 2),
    hub_rate_between(),
    hub_overlap(),
    _bytes(
        "latency_8B",
        "ns",
        "byte_pingpong",
        "half_round_trip_ns",
        {"size": 8, "iterations": 1000, "batches": 300, "warmup": 20000},
    ),
    _bytes(
        "bandwidth_1MiB",
        "GB/s",
        "byte_stream",
        "bytes_per_second",
        {"size": MIB, "iterations": 160, "batches": 15, "warmup": 160, "window": 8},
        1e-9,
    ),
    _am_latency("shm", 1000, 300, 20000),
    _am_latency("tcp", 200, 50, 500),
    _am_stream("rate_8B", 8, 32, 32000, 60, "shm"),
    _am_stream("rate_8B", 8, 32, 6400, 30, "tcp"),
    _am_stream("bandwidth_1MiB", MIB, 8, 160, 15, "shm", bandwidth=True),
    _fetch_latency("shm", 1000, 300, 20000),
    _fetch_latency("tcp", 200, 50, 500),
    _fetch_bandwidth("shm", 15),
    _fetch_bandwidth("tcp", 7),
    *rma_rows(),
    multi(100, 4096, "4KiB", "shm", (Target("ratio_peer", 0.5),)),
    multi(8, 65536, "64KiB", "shm"),
    multi_am(100, 4096, "4KiB", "shm", (Target("ratio_raw", 1 / 0.9),)),
    multi_am(8, 65536, "64KiB", "shm"),
    _delayed("", "adaptive", "blocking", targets=_SIXTY, rate_targets=_TENFOLD),
    _delayed("_polling", "polling", "polling", targets=_SIXTY, rate_targets=_TENFOLD),
    _delayed("_4_producers", "adaptive", "blocking", producers=4, rate_targets=_TENFOLD),
    _scaling(),
    _thread_latency(
        "",
        {"progress": "adaptive", "completion": "wait"},
        {"progress": "blocking", "completion": "callback"},
        _THIRD,
    ),
    _thread_latency(
        "_unpinned",
        {"progress": "adaptive", "completion": "wait"},
        {"progress": "blocking", "completion": "callback"},
        _THIRD,
        pinned=False,
    ),
    _thread_latency(
        "_callback",
        {"progress": "adaptive", "completion": "callback"},
        {"progress": "blocking", "completion": "callback"},
    ),
    _thread_latency(
        "_blocking",
        {"progress": "blocking", "completion": "wait"},
        {"progress": "blocking", "completion": "callback"},
    ),
    _thread_latency(
        "_polling",
        {"progress": "polling", "completion": "wait"},
        {"progress": "polling", "completion": "callback"},
    ),
    _idle("adaptive"),
    _idle("blocking"),
    *_instructions("", "an operation", "pairloop", Column("ucxx")),
    *_instructions("stream_", "an operation", "byte_pairloop"),
    Count(
        "stream_allocations_8B_shm",
        "calls in 10000 operations",
        "allocations",
        "shm",
        {"size": 8},
        10000,
        (Target("ours", 0),),
        program="byte_pairloop",
    ),
    _allocations("8B", 8, 10000),
    _allocations("4KiB", 4096, 10000),
    _allocations("1MiB", MIB, 1000),
    *_instructions("am_", "a message", "am_pairloop"),
    _allocations("am_8B", 8, 10000, "am_pairloop"),
    _allocations("am_4KiB", 4096, 10000, "am_pairloop"),
    _allocations("am_1MiB", MIB, 1000, "am_pairloop"),
    *_instructions("fetch_", "a question", "fetch_pairloop"),
    _allocations("fetch_8B", 8, 10000, "fetch_pairloop"),
    _allocations("fetch_4KiB", 4096, 10000, "fetch_pairloop"),
    _allocations("fetch_1MiB", MIB, 1000, "fetch_pairloop"),
    *rma_counts(),
    *hub_counts(),
    _delayed_allocations("wait"),
    _delayed_allocations("callback"),
    _delayed_allocations("notifier"),
    _syscalls("8B"),
    _syscalls("am_8B", "am_pairloop"),
    _syscalls("fetch_8B", "fetch_pairloop"),
    _idle_syscalls("adaptive"),
    _idle_syscalls("blocking"),
    Row(
        "c_call_8B_shm",
        "ns a call",
        "shm",
        "engine_call",
        {"ours": "c_ns", "peer": "engine_ns"},
        {"size": 8},
        targets=(Target("over_peer", 3),),
        columns=columns(ours=Column("engine"), peer=Column("engine")),
        peer_name=ENGINE,
        also=(
            Figure(
                "c_progress_shm",
                "ns a call",
                {"ours": "c_idle_ns", "peer": "engine_idle_ns"},
                targets=(Target("over_peer", 3),),
            ),
        ),
    ),
    *_header_counts("request"),
    *_header_counts("callback"),
    # The two frames of the coroutine, made once.
    *_header_counts("await", 2),
    Count(
        "c_call_instructions_shm",
        "instructions an operation",
        "instructions",
        "shm",
        {"size": 8},
        4000,
        program="engine_call",
        columns=columns(
            ours=Column("engine", {"only": "c"}), peer=Column("engine", {"only": "engine"})
        ),
        function="*measured_loop*",
        peer_name=ENGINE,
    ),
    _perftest(
        "latency_8B",
        "ns",
        "pingpong",
        "half_round_trip_ns",
        {"size": 8, "iterations": 1000, "batches": 300, "warmup": 20000},
        {
            "test": "tag_lat",
            "size": 8,
            "iterations": 1000000,
            "column": "latency_us",
            "factor": 1e3,
        },
        1.0,
    ),
    _perftest(
        "rate_8B",
        "M/s",
        "stream",
        "messages_per_second",
        {"size": 8, "iterations": 32000, "batches": 60, "warmup": 32000, "window": 32},
        {"test": "tag_bw", "size": 8, "iterations": 4000000, "column": "rate", "factor": 1},
        1e-6,
    ),
    _perftest(
        "bandwidth_1MiB",
        "GB/s",
        "stream",
        "bytes_per_second",
        {"size": MIB, "iterations": 160, "batches": 15, "warmup": 160, "window": 8},
        {
            "test": "tag_bw",
            "size": MIB,
            "iterations": 5000,
            "column": "bandwidth_mib",
            "factor": MIB,
        },
        1e-9,
    ),
    *[_python(mode, "latency", 0.8) for mode in PYTHON_MODES],
    *[_python(mode, "10MB", 1.05, size=10_000_000) for mode in PYTHON_MODES],
    *[_python(mode, "100_frames", 0.5, size=1024, frames=100) for mode in PYTHON_MODES],
]
