# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Windows: memory of each member of a group that the others read, write and combine (MPI RMA)."""

from __future__ import annotations

import asyncio
import contextlib
import typing

from ._buffers import Buffer, region
from ._context import constant, dumped, new
from ._group import Group
from ._handle import view_of
from ._native import ffi, lib
from ._requests import Request
from ._status import check, error

#: An element type: "float64", numpy.float64, numpy.dtype("<f8"), ...
Dtype = typing.Any
Reduce = typing.Literal[
    "sum", "prod", "min", "max", "land", "lor", "lxor", "band", "bor", "bxor", "replace"
]

_TYPES: dict[str, int] = {
    "bool": lib.UCXX_TYPE_BOOL,
    "int8": lib.UCXX_TYPE_INT8,
    "uint8": lib.UCXX_TYPE_UINT8,
    "int16": lib.UCXX_TYPE_INT16,
    "uint16": lib.UCXX_TYPE_UINT16,
    "int32": lib.UCXX_TYPE_INT32,
    "uint32": lib.UCXX_TYPE_UINT32,
    "int64": lib.UCXX_TYPE_INT64,
    "uint64": lib.UCXX_TYPE_UINT64,
    "float32": lib.UCXX_TYPE_FLOAT,
    "float64": lib.UCXX_TYPE_DOUBLE,
    "complex64": lib.UCXX_TYPE_COMPLEX_FLOAT,
    "complex128": lib.UCXX_TYPE_COMPLEX_DOUBLE,
}
# The formats of memoryview.cast. It has none for complex numbers.
_FORMATS = {
    "bool": "?", "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i",
    "uint32": "I", "int64": "q", "uint64": "Q", "float32": "f", "float64": "d",
}  # fmt: skip


def _type_name(dtype: Dtype) -> str:
    """The name of an element type, as numpy has it."""
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    name = {"int": "int64", "float": "float64", "complex": "complex128"}.get(name, name)
    if name not in _TYPES:
        with contextlib.suppress(ImportError, TypeError):
            import numpy

            name = numpy.dtype(dtype).name
    if name not in _TYPES:
        known = ", ".join(_TYPES)
        raise error(lib.UCXX_ERR_RMA_TYPE, f"dtype: {dtype!r} is none of {known}")
    return str(name)


def _type_of(data: Buffer) -> str | None:
    """The name of a buffer's element type. None for bytes, and where it has none."""
    name = getattr(getattr(data, "dtype", None), "name", None)
    if name is None:
        try:
            name = _NAMES.get(memoryview(data).format)
        except TypeError:
            return None
    return None if name == "uint8" else name


_NAMES = {format: name for name, format in _FORMATS.items()} | {"l": "int64", "L": "uint64"}


class Epoch:
    """Access to the memory of members, from the begin to the end of a `with` block."""

    def __init__(self, window: Window, target: int | None, end: typing.Callable[[], int]) -> None:
        self.window = window
        self._target = target
        self._end = end

    def _rank(self, rank: int | None) -> int:
        if rank is not None:
            return rank
        if self._target is None:
            raise TypeError("`rank` is missing: this epoch has several targets")
        return self._target

    def put(self, data: Buffer, offset: int = 0, rank: int | None = None) -> None:
        """Writes the elements of `data` from element `offset` of the target on. `data` may be
        reused at once; the next flush, or the end of the epoch, completes it at the target."""
        pointer, layout, _ = self.window.layout(data, writable=False)
        check(
            lib.ucxx_window_put(
                self.window.open(), pointer, layout, self._rank(rank), offset, layout
            )
        )

    def get(self, into: Buffer, offset: int = 0, rank: int | None = None) -> None:
        """Reads elements of the target. `into` is filled at the next flush, or at the end of the
        epoch, and must live until then."""
        pointer, layout, keep = self.window.layout(into, writable=True)
        self.window.keep(keep)
        check(
            lib.ucxx_window_get(
                self.window.open(), pointer, layout, self._rank(rank), offset, layout
            )
        )

    def accumulate(
        self, data: Buffer, offset: int = 0, op: Reduce = "sum", rank: int | None = None
    ) -> None:
        """Combines `data` with elements of the target, atomically for each element."""
        pointer, layout, _ = self.window.layout(data, writable=False)
        check(
            lib.ucxx_window_accumulate(
                self.window.open(),
                pointer,
                layout,
                self._rank(rank),
                offset,
                layout,
                constant("REDUCE", op),
            )  # fmt: skip
        )

    def fetch_and_op(
        self, value: typing.Any, offset: int = 0, op: Reduce | typing.Literal["no_op"] = "sum",
        rank: int | None = None,
    ) -> typing.Any:  # fmt: skip
        """Combines one element of the target with `value`, and returns what it was before."""
        target = self._rank(rank)
        operand, result = self.window.scalar(value), self.window.scalar(None)
        check(
            lib.ucxx_window_fetch_and_op(
                self.window.open(),
                operand,
                result,
                self.window.element_type,
                target,
                offset,
                constant("REDUCE", op),
            )  # fmt: skip
        )
        self.flush(target)
        return result[0]

    def compare_and_swap(
        self, compare: typing.Any, value: typing.Any, offset: int = 0, rank: int | None = None
    ) -> typing.Any:
        """Writes `value` if the element of the target equals `compare`. Returns what it was."""
        target = self._rank(rank)
        operand, expected = self.window.scalar(value), self.window.scalar(compare)
        result = self.window.scalar(None)
        check(
            lib.ucxx_window_compare_and_swap(
                self.window.open(),
                operand,
                expected,
                result,
                self.window.element_type,
                target,
                offset,
            )  # fmt: skip
        )
        self.flush(target)
        return result[0]

    def rput(self, data: Buffer, offset: int = 0, rank: int | None = None) -> Request[None]:
        """As put, with a Request that ends when `data` may be reused. Passive epochs only."""
        return self._move(lib.ucxx_window_rput, data, False, offset, rank)

    def rget(self, into: Buffer, offset: int = 0, rank: int | None = None) -> Request[None]:
        """As get, with a Request that ends when `into` is filled. Passive epochs only."""
        return self._move(lib.ucxx_window_rget, into, True, offset, rank)

    def _move(
        self, call: typing.Callable[..., int], data: Buffer, writable: bool, offset: int,
        rank: int | None,
    ) -> Request[None]:  # fmt: skip
        pointer, layout, keep = self.window.layout(data, writable=writable)
        traffic = self.window.group.worker.traffic
        request: Request[None] = Request(traffic, (keep, self))
        traffic.submit(
            request, call, self.window.open(), pointer, layout, self._rank(rank), offset, layout
        )
        return request

    def flush(self, rank: int | None = None) -> None:
        """Completes all operations at a target, or at all of them, there and here."""
        target = self._target if rank is None else rank
        if target is None:
            check(lib.ucxx_window_flush_all(self.window.open()))
        else:
            check(lib.ucxx_window_flush(self.window.open(), target))

    def aflush(self, rank: int | None = None) -> Request[None]:
        """As flush of one target: a Request."""
        traffic = self.window.group.worker.traffic
        request: Request[None] = Request(traffic, self)
        traffic.submit(request, lib.ucxx_window_flush_nb, self.window.open(), self._rank(rank))
        return request

    def end(self) -> None:
        """Ends the epoch: everything is complete, here and at the targets."""
        end, self._end = self._end, lambda: 0
        check(end())
        self.window.forget()

    def __enter__(self) -> Epoch:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.end()
        else:
            # The exception of the block says more than one of the end.
            with contextlib.suppress(Exception):
                self.end()


class Window:
    """Memory of `count` elements of one type at each member. All members make it together.

    `array` is this member's own memory as a numpy array, `memory` as a memoryview. Others reach it
    in an epoch: `with window.lock(rank) as epoch`, `with window.lock_all()`, `with window.fence()`,
    or post and start.
    """

    def __init__(
        self,
        group: Group,
        count: int | None = None,
        dtype: Dtype = "uint8",
        *,
        buffer: Buffer = None,
        shared: bool = False,
        lock_timeout: float | None = None,
    ) -> None:
        if (count is None) == (buffer is None):
            raise TypeError("either a count of elements or a buffer")
        self.group = group
        self.dtype = _type_name(dtype)
        self.element_type = _TYPES[self.dtype]
        self.item = int(lib.ucxx_type_size(self.element_type))
        self._kept: list[typing.Any] = []
        self.handle = ffi.NULL
        params = new("window_params")
        if lock_timeout is not None:
            params.lock_timeout_ns = max(1, int(lock_timeout * 1e9))
        place = ffi.new("ucxx_window_t **")
        if buffer is not None:
            own = region(buffer, writable=True)
            self._own: typing.Any = own
            check(
                lib.ucxx_window_create(
                    group.open(), own.pointer, own.length, self.item, params, place
                )
            )
        else:
            base = ffi.new("void **")
            call = lib.ucxx_window_allocate_shared if shared else lib.ucxx_window_allocate
            check(call(group.open(), int(count or 0) * self.item, self.item, params, base, place))
        self.handle = place[0]
        self._owner: typing.Any = ffi.gc(self.handle, lib.ucxx_window_destroy)

    @classmethod
    async def make(cls, group: Group, *arguments: typing.Any, **options: typing.Any) -> Window:
        """As Window(...), without blocking the loop."""
        return await asyncio.to_thread(cls, group, *arguments, **options)

    # This member's memory.

    @property
    def memory(self) -> memoryview:
        attr = new("window_attr")
        check(lib.ucxx_window_query(self.open(), attr))
        return self._view(attr.data, attr.size)

    def shared(self, rank: int) -> memoryview:
        """The memory of a member on this host, of a window with `shared=True`."""
        size, unit = ffi.new("size_t *"), ffi.new("uint32_t *")
        base = ffi.new("void **")
        check(lib.ucxx_window_shared_query(self.open(), rank, size, unit, base))
        return self._view(base[0], size[0])

    def _view(self, data: typing.Any, size: int) -> memoryview:
        # It lives as long as a view of it, also after the window was closed.
        view: typing.Any = view_of(data, size, (self._owner, self.group))
        return typing.cast(memoryview, view.cast(_FORMATS.get(self.dtype, "B")) if size else view)

    @property
    def array(self) -> typing.Any:
        """The memory as a numpy array."""
        import numpy

        return numpy.frombuffer(self.memory.cast("B"), dtype=self.dtype)

    def metrics(self) -> str:
        """Its metrics as OpenMetrics text, for Prometheus."""
        return dumped(lib.ucxx_window_metrics, self.open()) + "\n"

    def sync(self) -> None:
        """Makes stores of this process and accesses of others visible to each other."""
        check(lib.ucxx_window_sync(self.open()))

    # Epochs.

    def lock(self, rank: int, *, shared: bool = False, nocheck: bool = False) -> Epoch:
        """Locks the memory of one member. Waits for it."""
        kind = lib.UCXX_LOCK_SHARED if shared else lib.UCXX_LOCK_EXCLUSIVE
        asserted = lib.UCXX_ASSERT_NOCHECK if nocheck else 0
        check(lib.ucxx_window_lock(self.open(), kind, rank, asserted))
        return Epoch(self, rank, lambda: int(lib.ucxx_window_unlock(self.open(), rank)))

    async def alock(
        self, rank: int, *, shared: bool = False, timeout: float | None = None
    ) -> Epoch:
        """As lock, without blocking the loop: `with await window.alock(rank) as epoch`."""
        kind = lib.UCXX_LOCK_SHARED if shared else lib.UCXX_LOCK_EXCLUSIVE
        traffic = self.group.worker.traffic
        request: Request[None] = Request(traffic, self)
        traffic.submit(
            request, lib.ucxx_window_lock_nb, self.open(), kind, rank, 0, timeout=timeout
        )
        await request
        return Epoch(self, rank, lambda: int(lib.ucxx_window_unlock(self.open(), rank)))

    def lock_all(self, *, nocheck: bool = False) -> Epoch:
        """Shared access to all members."""
        asserted = lib.UCXX_ASSERT_NOCHECK if nocheck else 0
        check(lib.ucxx_window_lock_all(self.open(), asserted))
        return Epoch(self, None, lambda: int(lib.ucxx_window_unlock_all(self.open())))

    def fence(self) -> Epoch:
        """All members call it; its end is another fence, which all call as well."""
        check(lib.ucxx_window_fence(self.open(), lib.UCXX_ASSERT_NOPRECEDE))
        return Epoch(
            self,
            None,
            lambda: int(lib.ucxx_window_fence(self.open(), lib.UCXX_ASSERT_NOSUCCEED)),
        )

    def start(self, ranks: typing.Sequence[int]) -> Epoch:
        """Access to members that `post`. Its end tells them."""
        check(lib.ucxx_window_start(self.open(), list(ranks), len(ranks), 0))
        return Epoch(self, None, lambda: int(lib.ucxx_window_complete(self.open())))

    def post(self, ranks: typing.Sequence[int]) -> None:
        """Exposes this member's memory to members that `start`. `wait` waits for their ends."""
        check(lib.ucxx_window_post(self.open(), list(ranks), len(ranks), 0))

    def wait(self) -> None:
        check(lib.ucxx_window_wait(self.open()))

    # What epochs need.

    def layout(self, data: Buffer, *, writable: bool) -> tuple[typing.Any, typing.Any, typing.Any]:
        """Address and layout of a buffer, whole elements of the window's type, and what keeps its
        memory alive."""
        memory = region(data, writable=writable)
        name = _type_of(data)
        if name not in (None, self.dtype):
            raise error(lib.UCXX_ERR_RMA_TYPE, f"the data is {name}, and the window {self.dtype}")
        if memory.length % self.item:
            raise error(
                lib.UCXX_ERR_RMA_TYPE,
                f"a buffer of {memory.length} bytes is no whole number of {self.dtype}",
            )
        made = ffi.new("ucxx_layout_t *")
        lib.ucxx_layout_init_contiguous(made, self.element_type, memory.length // self.item)
        return memory.pointer, made, memory.keep

    def scalar(self, value: typing.Any) -> typing.Any:
        """Memory for one element."""
        name = {"bool": "_Bool", "float32": "float", "float64": "double"}.get(
            self.dtype, f"{self.dtype}_t"
        )
        if self.dtype.startswith("complex"):
            raise error(lib.UCXX_ERR_RMA_TYPE, "not with complex numbers; use accumulate")
        place = ffi.new(f"{name}[1]")
        if value is not None:
            place[0] = value.item() if hasattr(value, "item") else value
        return place

    def keep(self, data: typing.Any) -> None:
        """Keeps a buffer until the epoch has ended."""
        self._kept.append(data)

    def forget(self) -> None:
        self._kept.clear()

    # The end.

    def open(self) -> typing.Any:
        if self.handle == ffi.NULL:
            raise error(lib.UCXX_ERR_CLOSED, "window: has been closed")
        return self.handle

    def close(self) -> None:
        """Ends it together with the other members."""
        handle = self.open()
        try:
            check(lib.ucxx_window_close(handle))
        finally:
            self._abandon()

    async def aclose(self) -> None:
        await asyncio.to_thread(self.close)

    def __enter__(self) -> Window:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self._abandon()

    def _abandon(self) -> None:
        self.handle, self._owner = ffi.NULL, None

    def __del__(self) -> None:
        self._abandon()
