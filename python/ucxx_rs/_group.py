# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Groups of processes, each with a rank: for windows, and for what all of them do together."""

from __future__ import annotations

import asyncio
import typing

from ._buffers import Buffer, region
from ._context import constant, dumped, made, new
from ._endpoint import Endpoint
from ._handle import Closable
from ._native import ffi, lib
from ._status import check

if typing.TYPE_CHECKING:
    from ._worker import Worker


class Group(Closable):
    """Processes that know each other by rank. All members make it at about the same time.

    - `bootstrap="env"`: rank and size come from the launcher's environment (mpirun, srun,
      torchrun); rank 0 listens at `root`, or at MASTER_ADDR and MASTER_PORT.
    - `bootstrap="tcp"`: `rank` and `size` are given, and rank 0 listens at `root`, "host:port".
    - `bootstrap="pmix"`: by the launcher's PMIx.
    - `secret`: known by the members only. Without one, `root` has to be on the loopback interface.
    - `timeout` in seconds until all have arrived; `collective_timeout` of each barrier, allgather
      and broadcast.

    What all members do together blocks this thread, as in MPI. In asyncio use `Group.make`, and
    the forms that begin with "a"; they wait on another thread.
    """

    _what = "group"

    def __init__(
        self,
        worker: Worker,
        *,
        bootstrap: typing.Literal["env", "tcp", "pmix"] = "env",
        rank: int = 0,
        size: int = 0,
        root: str | None = None,
        secret: str | None = None,
        timeout: float | None = None,
        collective_timeout: float | None = None,
    ) -> None:
        self.worker = worker
        self.handle = ffi.NULL
        params = new("group_params")
        params.bootstrap = constant("BOOTSTRAP", bootstrap)
        params.rank, params.size = rank, size
        keep = [ffi.new("char[]", text.encode()) if text else ffi.NULL for text in (root, secret)]
        params.root, params.secret = keep
        for name, seconds in (("timeout", timeout), ("collective_timeout", collective_timeout)):
            if seconds is not None:
                setattr(params, f"{name}_ns", max(1, int(seconds * 1e9)))
        self.handle = made("group", lib.ucxx_group_create, worker.open(), params)

    @classmethod
    async def make(cls, worker: Worker, **options: typing.Any) -> Group:
        """As Group(...), without blocking the loop."""
        return await asyncio.to_thread(cls, worker, **options)

    @classmethod
    def _adopt(cls, worker: Worker, handle: typing.Any) -> Group:
        group = cls.__new__(cls)
        group.worker, group.handle = worker, handle
        return group

    @property
    def rank(self) -> int:
        return int(lib.ucxx_group_rank(self.open()))

    @property
    def size(self) -> int:
        return int(lib.ucxx_group_size(self.open()))

    def metrics(self) -> str:
        """Its metrics as OpenMetrics text, for Prometheus."""
        return dumped(lib.ucxx_group_metrics, self.open()) + "\n"

    def same_host(self, rank: int) -> bool:
        """Whether that member is on this host, and its memory can be shared."""
        return bool(lib.ucxx_group_same_host(self.open(), rank) > 0)

    def endpoint(self, rank: int) -> Endpoint:
        """The endpoint to a member. It stays the group's: it cannot be closed."""
        handle = made("endpoint", lib.ucxx_group_endpoint, self.open(), rank)
        own = made("endpoint", lib.ucxx_endpoint_retain, handle)
        return Endpoint(self.worker, own, None)

    def subset(self, ranks: typing.Sequence[int]) -> Group:
        """A group of these members, in this order. They all call it."""
        handle = made("group", lib.ucxx_group_subset, self.open(), list(ranks), len(ranks))
        return Group._adopt(self.worker, handle)

    def barrier(self) -> None:
        """Returns when all members have called it."""
        check(lib.ucxx_group_barrier(self.open()))

    async def abarrier(self) -> None:
        await asyncio.to_thread(self.barrier)

    def allgather(self, mine: Buffer) -> list[bytes]:
        """The bytes of all members, by rank. All give the same number of bytes."""
        memory = region(mine, writable=False)
        length, size = memory.length, self.size
        everything = ffi.new("char[]", length * size or 1)
        check(lib.ucxx_group_allgather(self.open(), memory.pointer, length, everything))
        data = bytes(ffi.buffer(everything, length * size))
        return [data[rank * length : (rank + 1) * length] for rank in range(size)]

    async def aallgather(self, mine: Buffer) -> list[bytes]:
        return await asyncio.to_thread(self.allgather, mine)

    def broadcast(self, data: Buffer, root: int = 0) -> None:
        """Copies `root`'s bytes into the buffer of all others."""
        memory = region(data, writable=self.rank != root)
        check(lib.ucxx_group_broadcast(self.open(), memory.pointer, memory.length, root))

    async def abroadcast(self, data: Buffer, root: int = 0) -> None:
        await asyncio.to_thread(self.broadcast, data, root)

    def close(self) -> None:
        """Leaves the group. Close its windows before."""
        handle, self.handle = self.handle, ffi.NULL
        if handle != ffi.NULL:
            lib.ucxx_group_destroy(handle)
