# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""What a row consists of: the programs of its columns, the values that are taken from them, and its
targets."""

from dataclasses import dataclass, field
from typing import Optional

from .hosts import DEVICE

# The name of an implementation, in a column.
PERFTEST = "ucx_perftest"

KIB = 1 << 10
MIB = 1 << 20

# The same for every implementation. Without the two *_ERROR_HANDLING/_INVALIDATE settings UCX does
# not use shared memory if endpoints detect failures, and a row would compare TCP with shared
# memory.
COMMON = {
    "UCX_MM_ERROR_HANDLING": "y",
    "UCX_CMA_MEMORY_INVALIDATE": "y",
    "UCX_KEEPALIVE_INTERVAL": "1s",
    "UCX_WARN_UNUSED_ENV_VARS": "n",
}
# The size that this library sets by itself. All columns get it. Otherwise the rows over TCP would
# show a factor of four that has no other cause.
PIECES = {"UCX_TCP_TX_SEG_SIZE": "64k"}
TRANSPORTS = {
    "shm": {"UCX_TLS": "posix,cma,self"},
    "tcp": {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo", **PIECES},
    # As each implementation configures UCX by itself.
    "untuned": {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"},
    # Between two namespaces: see hosts.py.
    "hosts": {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": DEVICE, **PIECES},
}


@dataclass
class Target:
    """`what` is ours, ratio_raw, ratio_peer, over_raw or over_peer (differences). It must be at
    most, or at least, `limit`."""

    what: str
    limit: float
    at_least: bool = False

    def text(self):
        return f"{self.what} {'>=' if self.at_least else '<='} {self.limit:g}"

    def met(self, value):
        return value >= self.limit if self.at_least else value <= self.limit


@dataclass
class Column:
    """A column: the program of an implementation, and the arguments that differ from the row's."""

    implementation: str
    arguments: dict = field(default_factory=dict)


def columns(raw=None, ours=None, peer=None):
    given = {"raw": raw, "ours": ours, "peer": peer}
    return {name: column for name, column in given.items() if column is not None}


def _usual():
    return columns(Column("raw"), Column("ours"), Column("ucxx"))


@dataclass
class Figure:
    """Another row from the same runs. `key` is as in Row."""

    name: str
    unit: str
    key: object
    scale: float = 1.0
    targets: tuple = ()
    # The peers of the row for which there is such a row. None means all.
    peers: Optional[tuple] = None


@dataclass
class Peer:
    """One of several peers, each with rows of its own: its column, which is the end of their names,
    and its name."""

    column: str
    name: str


@dataclass
class Row:
    """A timed row. The program of each column prints `key`, which may be a dictionary by column."""

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
    # Several peers with a column each. Then the results are only those of `also`, with a row for
    # each peer, and targets by column.
    peers: tuple = ()
    # Overrides the option. Endpoints to the same process detect no failures.
    error_handling: Optional[str] = None
    # True: a CPU for each process. False: the system places them.
    pinned: bool = True
    # For rows that take long, or hardly vary.
    most_rounds: Optional[int] = None
    # A program that has not ended by then is ended, and its column has no value.
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
    """A row that is counted in one process. `what` is instructions, allocations, syscalls or
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
    # The function in which callgrind counts, as a pattern of callgrind.
    function: str = "measured_loop*"
    peer_name: Optional[str] = None
    error_handling: Optional[str] = None


# UCXX's active messages wait in a queue until they are received, which is not comparable.
def without_peer():
    return columns(Column("raw"), Column("ours"))
