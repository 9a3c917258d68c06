# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Rows by number: what one of something costs while there are many of it (see c/many.c)."""

from .row import Column, Figure, Row, Target, columns

# What is measured, for how many of it, and the figures: the unit, and the target where every number
# has the same. Those with a column for raw UCP first.
ENDPOINTS = {
    "open_ns": ("ns", Target("ratio_raw", 1.3)),
    "endpoint_create_ns": ("ns", Target("ratio_raw", 1.1)),
    "turn_ns": ("ns", None),
    "idle_pass_ns": ("ns", None),
    "worker_flush_ns": ("ns", Target("ours", 100)),
    "endpoint_close_ns": ("ns", None),
    "slowest_closing_pass_ns": ("ns", None),
    "endpoint_bytes": ("B", None),
}
RECEIVES = {
    "post_cold_ns": ("ns", Target("ratio_raw", 1.5)),
    "post_warm_ns": ("ns", None),
    "match_ns": ("ns", None),
    "cancel_ns": ("ns", Target("ratio_raw", 1.5)),
}
UNEXPECTED = {
    "arrive_ns": ("ns", None),
    "probe_ns": ("ns", Target("ratio_raw", 1.5)),
    "receive_unexpected_ns": ("ns", Target("ratio_raw", 1.5)),
}
WORKERS = {
    "pass_in_turn_ns": ("ns", Target("ratio_raw", 1.5)),
    "worker_create_ns": ("ns", None),
    "worker_bytes": ("B", None),
    "worker_destroy_ns": ("ns", None),
}
BESIDE_RAW = {
    "endpoints": ((1, 16, 256, 1024, 4096), ENDPOINTS),
    "receives": ((1, 256, 4096, 100000), RECEIVES),
    "unexpected": ((1, 256, 4096, 16384), UNEXPECTED),
    "workers": ((1, 16, 256), WORKERS),
}
ALONE = {
    "timeouts": (
        (1, 1023, 1024, 1025, 16384, 65536),
        {
            "post_with_timeout_ns": ("ns", Target("ours", 300)),
            "pass_with_timeouts_ns": ("ns", Target("ours", 20)),
        },
    ),
    "expiries": ((1024, 100000), {"slowest_expiry_pass_ns": ("ns", None)}),
    "flushes": ((1, 16, 256), {"send_while_flushing_ns": ("ns", None)}),
    "links": (
        (1, 16, 256, 1024),
        {
            "chunk_ns": ("ns", None),
            "link_create_ns": ("ns", None),
            "link_destroy_ns": ("ns", None),
        },
    ),
    "listeners": (
        (1, 8, 64),
        {"listeners_destroy_ns": ("ns", None), "listener_create_ns": ("ns", None)},
    ),
}


# The system gives memory by pages: fewer than this show nothing.
ENOUGH_FOR_BYTES = {"endpoints": 256, "workers": 16}


def _row(what, n, figures, of_row, transport="shm"):
    if n < ENOUGH_FOR_BYTES.get(what, 0):
        figures = {name: of for name, of in figures.items() if not name.endswith("_bytes")}
    first, *others = figures
    name = {figure: f"many_{figure.removesuffix('_ns')}_{n}" for figure in figures}
    targets = {figure: (aim,) if aim else () for figure, (_, aim) in figures.items()}
    return Row(
        name[first],
        figures[first][0],
        transport,
        "many",
        first,
        {"window": n, "only": what},
        targets=targets[first],
        columns=of_row,
        also=tuple(
            Figure(name[other], figures[other][0], other, targets=targets[other])
            for other in others
        ),
        pinned=False,
        most_rounds=3,
    )


ROWS = [
    _row(what, n, figures, columns(Column("raw"), Column("ours")))
    for what, (numbers, figures) in BESIDE_RAW.items()
    for n in numbers
] + [
    _row(what, n, figures, columns(ours=Column("ours")), "tcp" if what == "listeners" else "shm")
    for what, (numbers, figures) in ALONE.items()
    for n in numbers
]
