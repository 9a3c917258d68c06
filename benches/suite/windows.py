# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Rows for windows, against the MPIs of this system. One run measures many operations, because an
MPI takes long to start."""

from .row import Column, Figure, Peer, Row, Target

PEERS = (
    Peer("osc_sm", "Open MPI osc/sm"),
    Peer("osc_ucx", "Open MPI osc/ucx"),
    Peer("mpich", "MPICH"),
)
# Peers across hosts (FAR_PEERS), and for memory of the program (CREATE_PEERS). osc/sm has neither.
FAR_PEERS = (Peer("osc_ucx", "Open MPI osc/ucx"), Peer("mpich", "MPICH"))
CREATE_PEERS = (
    Peer("osc_ucx", "Open MPI osc/ucx"),
    Peer("osc_rdma", "Open MPI osc/rdma"),
    Peer("mpich", "MPICH"),
)


def _at_most(osc_sm, osc_ucx):
    return {"osc_sm": (Target("ratio_peer", osc_sm),), "osc_ucx": (Target("ratio_peer", osc_ucx),)}


_MOVE = _at_most(1.2, 1.0)
_UPDATE = _at_most(1.2, 0.5)


def _row(name, program, arguments, figures, most_rounds=None, peers=PEERS, transport="shm"):
    columns = {column: Column(column) for column in ("ours", *(peer.column for peer in peers))}
    return Row(
        name,
        "",
        transport,
        program,
        None,
        arguments,
        columns=columns,
        also=tuple(figures),
        peers=peers,
        most_rounds=most_rounds,
    )


def _latency(name, targets):
    """One run for all these measurements: {name: targets}."""
    figures = [
        Figure(f"window_{one}", "ns", f"{one}_ns", targets=limits)
        for one, limits in targets.items()
    ]
    return _row(name, "window_latency", {"processes": 2, "only": ",".join(targets)}, figures)


def _created(name, measurements):
    """The same with memory of the program. The target is the best of the MPIs, so it applies to
    each of them."""
    targets = {peer.column: (Target("ratio_peer", 1.1),) for peer in CREATE_PEERS}
    figures = [
        Figure(f"window_create_{one}", "ns", f"{one}_ns", targets=targets) for one in measurements
    ]
    return _row(
        name,
        "window_latency",
        {"processes": 2, "own-memory": 1, "only": ",".join(measurements)},
        figures,
        peers=CREATE_PEERS,
    )


def _far(name, measurements):
    """Between two hosts, which are connected by a pair of virtual devices."""
    figures = [Figure(f"window_far_{one}", "us", f"{one}_ns", 1e-3) for one in measurements]
    return _row(
        name,
        "window_latency",
        {"processes": 2, "only": ",".join(measurements)},
        figures,
        most_rounds=5,
        peers=FAR_PEERS,
        transport="hosts",
    )


def _busy(transport, peers):
    """At a target that computes, and calls the library once in a millisecond."""
    label = "_far" if transport == "hosts" else ""
    measurements = ("put_8B", "get_8B", "acc_double_8B", "fetch_add_8B")
    figures = [Figure(f"window_busy{label}_{one}", "us", f"{one}_ns", 1e-3) for one in measurements]
    arguments = {"processes": 2, "busy": 1000, "batches": 20, "only": ",".join(measurements)}
    return _row(
        f"window_busy{label}",
        "window_latency",
        arguments,
        figures,
        most_rounds=3,
        peers=peers,
        transport=transport,
    )


def _contention(processes, aside):
    """`processes` processes compete for the lock. With `aside` the target is one more process.
    Without it the target is one of them, and osc/ucx gives it all the locks: then it is as fast
    as one process alone, which does not measure contention."""
    label = "_aside" if aside else ""
    osc_ucx = tuple(peer for peer in PEERS if peer.column == "osc_ucx")
    rate = {"osc_ucx": (Target("ratio_peer", 2, at_least=True),)} if aside else ()
    figures = []
    for kind in ("exclusive", "mixed"):
        name = f"window_locks_{kind}_{processes}{label}"
        figures += [
            Figure(name, "M/s", f"{kind}{label}_locks_per_second", 1e-6, rate),
            Figure(
                f"{name}_share",
                "most / least",
                f"{kind}{label}_share",
                targets={"osc_ucx": (Target("ours", 2),)},
                peers=osc_ucx,
            ),
        ]
    only = f"exclusive{label},mixed{label}"
    return _row(
        f"window_locks_{processes}{label}",
        "window_contention",
        {"processes": processes + aside, "only": only, "seconds": 1},
        figures,
        most_rounds=5,
    )


_KINDS = ("double", "int64")

ROWS = [
    _latency(
        "window_8B",
        {
            "put_8B": _MOVE,
            "get_8B": _MOVE,
            **{f"{name}_{kind}_8B": _UPDATE for name in ("acc", "get_acc") for kind in _KINDS},
            "fetch_add_8B": _UPDATE,
            "cas_8B": _UPDATE,
        },
    ),
    _latency(
        "window_large",
        {f"{name}_{size}": _MOVE for name in ("put", "get") for size in ("4KiB", "64KiB", "1MiB")},
    ),
    _latency(
        "window_large_accumulates",
        {
            **{
                f"{name}_{kind}_{size}": _UPDATE
                for name in ("acc", "get_acc")
                for kind in _KINDS
                for size in ("4KiB", "64KiB")
            },
            "acc_double_1MiB": _UPDATE,
        },
    ),
    _latency(
        "window_synchronisation",
        {
            "lock_exclusive": _UPDATE,
            "lock_put_8B": _UPDATE,
            "lock_shared": (),
            "lock_all": (),
            "flush": (),
            "fence_8B": (),
            "pscw_8B": (),
        },
    ),
    _created(
        "window_created",
        [
            *(
                f"{name}_{size}"
                for name in ("put", "get", "acc_double")
                for size in ("8B", "4KiB", "64KiB", "1MiB")
            ),
            "fetch_add_8B",
        ],
    ),
    _far(
        "window_far_data",
        [
            *(
                f"{name}_{size}"
                for name in ("put", "get", "acc_double")
                for size in ("8B", "4KiB", "64KiB", "1MiB")
            ),
            "fetch_add_8B",
            "cas_8B",
        ],
    ),
    _far("window_far_synchronisation", ["lock_exclusive", "lock_put_8B", "fence_8B", "pscw_8B"]),
    _busy("shm", PEERS),
    _busy("hosts", FAR_PEERS),
    *[_contention(processes, aside) for aside in (1, 0) for processes in (2, 4)],
]
