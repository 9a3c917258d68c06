# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""What a row is: what runs in its columns, what is taken from that, and what it is held to."""

from dataclasses import dataclass, field
from typing import Optional

from .hosts import DEVICE

# An implementation of a column.
PERFTEST = "ucx_perftest"

KIB = 1 << 10
MIB = 1 << 20

# The same for every implementation. Without the two *_ERROR_HANDLING/_INVALIDATE settings UCX
# leaves shared memory as soon as endpoints detect failures, and a row would compare TCP with shared
# memory.
COMMON = {
    "UCX_MM_ERROR_HANDLING": "y",
    "UCX_CMA_MEMORY_INVALIDATE": "y",
    "UCX_KEEPALIVE_INTERVAL": "1s",
    "UCX_WARN_UNUSED_ENV_VARS": "n",
}
# What this library asks UCX for by itself. Without it in every column the rows over TCP would say
# four where nothing but this differs.
PIECES = {"UCX_TCP_TX_SEG_SIZE": "64k"}
TRANSPORTS = {
    "shm": {"UCX_TLS": "posix,cma,self"},
    "tcp": {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo", **PIECES},
    # As each implementation sets UCX up by itself.
    "untuned": {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"},
    # Between two namespaces: see hosts.py.
    "hosts": {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": DEVICE, **PIECES},
}


@dataclass
class Target:
    """`what` is ours, ratio_raw, ratio_peer, over_raw or over_peer (differences); at most, or at
    least, `limit`."""

    what: str
    limit: float
    at_least: bool = False

    def text(self):
        return f"{self.what} {'>=' if self.at_least else '<='} {self.limit:g}"

    def met(self, value):
        return value >= self.limit if self.at_least else value <= self.limit


@dataclass
class Column:
    """What stands in one column: an implementation's program, and how its arguments differ from the
    row's."""

    implementation: str
    arguments: dict = field(default_factory=dict)


def columns(raw=None, ours=None, peer=None):
    given = {"raw": raw, "ours": ours, "peer": peer}
    return {name: column for name, column in given.items() if column is not None}


def _usual():
    return columns(Column("raw"), Column("ours"), Column("ucxx"))


@dataclass
class Figure:
    """A further row from the runs of another: `key` as there."""

    name: str
    unit: str
    key: object
    scale: float = 1.0
    targets: tuple = ()
    # Of the row's peers those for which there is such a row; all, unless it says.
    peers: Optional[tuple] = None


@dataclass
class Peer:
    """One of several that ours is compared with, in rows of its own: its column, which ends their
    names, and what it is called."""

    column: str
    name: str


@dataclass
class Row:
    """A row that is timed: each column's program prints `key`, or what that, a dictionary, says for
    the column."""

    name: str
    unit: str
    transport: str
    program: str
    key: object
    arguments: dict = field(default_factory=dict)
    scale: float = 1.0
    targets: tuple = ()
    columns: dict = field(default_factory=_usual)
    also: tuple = ()
    # A second row from the same runs: what the implementations add to raw UCP.
    overhead: Optional[str] = None
    overhead_target: Optional[Target] = None
    peer_name: Optional[str] = None
    # Several, each with a column of its own: then the figures are those of `also` alone, with a row
    # for each of these and targets by column.
    peers: tuple = ()
    # Not the option's: endpoints to oneself detect no failures.
    error_handling: Optional[str] = None
    # A CPU for each process; otherwise the system places them.
    pinned: bool = True
    # For rows that take long, or hardly vary.
    most_rounds: Optional[int] = None
    # When a program that has not ended by itself is ended, and its column has no value.
    timeout_s: int = 60

    def of_peers(self):
        """Every figure with each of its peers."""
        return [
            (figure, peer)
            for figure in self.also
            for peer in self.peers
            if figure.peers is None or peer in figure.peers
        ]


@dataclass
class Count:
    """A row that is counted in one process: `what` is instructions, allocations, syscalls or
    idle_syscalls."""

    name: str
    unit: str
    what: str
    transport: str
    arguments: dict
    iterations: int
    targets: tuple = ()
    program: str = "pairloop"
    columns: dict = field(default_factory=lambda: columns(Column("raw"), Column("ours")))
    # Where callgrind counts; a pattern of callgrind's.
    function: str = "measured_loop*"
    peer_name: Optional[str] = None
    error_handling: Optional[str] = None


# UCXX's active messages wait in a queue until they are received: another thing.
def without_peer():
    return columns(Column("raw"), Column("ours"))
