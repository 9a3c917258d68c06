# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Hubs: queues of chunks in envelopes that are made once, on the host and on GPUs."""

from __future__ import annotations

import asyncio
import contextlib
import typing

from . import _cuda
from ._context import Context, constant, dumped, fields, made, new
from ._endpoint import Endpoint
from ._handle import Closable, view_of
from ._native import ffi, lib
from ._requests import Request, wake
from ._status import OK, Closed, check, error

if typing.TYPE_CHECKING:
    from ._worker import Worker

_FOREVER = 2**64 - 1
_SLICE_NS = 100_000_000


def _nanoseconds(timeout: float | None) -> int:
    return _FOREVER if timeout is None else max(0, int(timeout * 1e9))


class Envelope:
    """The lease of an envelope: `with` commits it at the end of the block, and aborts it if the
    block raises."""

    __slots__ = ("_link", "handle", "length", "_attr", "_view", "_stream")
    #: Bytes of the chunk. Whoever fills an envelope sets it before the commit.
    length: int | None

    def __init__(self, link: Link, handle: typing.Any) -> None:
        self._link = link
        self.handle = handle
        attr = new("envelope_attr")
        check(lib.ucxx_envelope_query(handle, attr))
        self.length = None if link.kind == "produce" else int(attr.length)
        self._attr = attr
        self._view: memoryview | None = None
        self._stream: int | None = None

    def use_stream(self, stream: _cuda.Stream) -> None:
        """The work on the memory is done on this CUDA stream: work that is put on it from now on
        waits until the memory may be used, and the end of the lease does not wait for the work.
        Whoever gets the envelope next does. Without it the work has to be finished when the lease
        ends. Not for the default stream.
        """
        self._open()
        handle = _cuda.stream_handle(stream)
        self._wait(handle)
        self._stream = handle

    def _wait(self, stream: int | None) -> None:
        if self._attr.ready_event != ffi.NULL:
            _cuda.wait_for(int(ffi.cast("uintptr_t", self._attr.ready_event)), stream)

    @property
    def capacity(self) -> int:
        """The size of the envelope in bytes."""
        return int(self._attr.capacity)

    @property
    def data(self) -> typing.Any:
        """The memory: the whole envelope where it is written, the chunk where it is read. Of a GPU
        it has `__cuda_array_interface__`; without `use_stream` this thread waits until it may be
        used."""
        self._open()
        if self._stream is None:
            self._wait(None)
        writes = self._link.kind in ("produce", "modify")
        size = self.capacity if writes else self.length or 0
        if self._attr.kind.memory_type == lib.UCXX_MEMORY_CUDA:
            from ._frames import DeviceFrame

            address = int(ffi.cast("uintptr_t", self._attr.data))
            return DeviceFrame(address, size, self._link.hub.owner)
        if self._view is None:
            view = self._memory(self._attr.data, size)
            self._view = view if writes else view.toreadonly()
        return self._view

    @property
    def metadata(self) -> memoryview:
        """64 bytes that travel with the chunk."""
        self._open()
        return self._memory(self._attr.metadata, self._attr.metadata_length)

    def _memory(self, data: typing.Any, size: int) -> memoryview:
        # It lives as long as a view of it, also after the hub was closed.
        return view_of(data, size, self._link.hub.owner)

    def commit(self, length: int | None = None) -> None:
        """Ends the lease: what was produced is in the queue, what was consumed is out of it."""
        if length is None:
            length = self.length
        if length is None:
            raise error(lib.UCXX_ERR_INVALID_PARAM, "envelope: set its `length` before the commit")
        check(lib.ucxx_envelope_commit(self._open(), length, self._work()))
        self._ended()

    def abort(self) -> None:
        """Ends the lease as if it had not been."""
        check(lib.ucxx_envelope_abort(self._open(), self._work()))
        self._ended()

    def _work(self) -> typing.Any:
        return ffi.cast("void *", self._stream or 0)

    def _open(self) -> typing.Any:
        if self.handle == ffi.NULL:
            raise error(lib.UCXX_ERR_CLOSED, "envelope: the lease has ended")
        return self.handle

    def _ended(self) -> None:
        self.handle = ffi.NULL
        if self._view is not None:
            # An array made of it keeps it; then the program has to take care itself.
            with contextlib.suppress(BufferError):
                self._view.release()
            self._view = None

    def __enter__(self) -> Envelope:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self.handle == ffi.NULL:
            return
        try:
            if kind is None:
                self.commit()
        finally:
            if self.handle != ffi.NULL:
                self.abort()

    def __del__(self) -> None:
        if getattr(self, "handle", ffi.NULL) != ffi.NULL:
            if lib.ucxx_envelope_abort(self.handle, self._work()) != OK:
                lib.ucxx_envelope_abort(self.handle, ffi.NULL)
            self._ended()


LinkKind = typing.Literal["produce", "consume", "peek", "modify"]
#: Where envelopes are: in host memory (None), in host memory that is pinned for CUDA, or on the
#: CUDA device of that number.
Place = typing.Union[int, typing.Literal["pinned"], None]


class Link(Closable):
    """One side of a hub: it leases envelopes. `hub.produce()`, `consume`, `peek` and `modify` make
    it.

        async for envelope in consumer:
            with envelope:
                use(envelope.data)
    """

    _what = "link"

    def __init__(self, hub: Hub, kind: LinkKind, device: Place, *, broadcast: bool = False) -> None:
        self.hub = hub
        self.kind = kind
        self.handle = ffi.NULL
        params = new("link_params")
        params.broadcast = broadcast
        self.handle = made(
            "link", lib.ucxx_link_create, hub.open(), constant("LINK", kind), _memory_kind(device),
            params,
        )  # fmt: skip
        self._turn: asyncio.Lock | None = None

    def lease_wait(self, timeout: float | None = None) -> Envelope:
        """Leases an envelope on this thread. TimedOut after `timeout` seconds; Closed at the end
        of the stream."""
        left = _nanoseconds(timeout)
        place = ffi.new("ucxx_envelope_t **")
        while True:
            # In slices, so that Ctrl-C is noticed.
            now = min(left, _SLICE_NS)
            status = lib.ucxx_link_lease(self.open(), now, place)
            if left != _FOREVER:
                left -= now
            if status == lib.UCXX_ERR_TIMED_OUT and left > 0:
                continue
            check(status)
            return Envelope(self, place[0])

    async def lease(self) -> Envelope:
        """Leases an envelope: `with await link.lease() as envelope`. Closed at the end of the
        stream."""
        envelope = self._try_lease()
        if envelope is not None:
            return envelope
        loop = asyncio.get_running_loop()
        if self.hub.worker is not None:
            self.hub.worker.traffic.driver(loop)
        if self._turn is None:
            self._turn = asyncio.Lock()
        # One task waits at the descriptor; the others wait for it.
        async with self._turn:
            place = ffi.new("int32_t *")
            check(lib.ucxx_link_event_fd(self.open(), place))
            while True:
                envelope = self._try_lease()
                if envelope is not None:
                    return envelope
                if lib.ucxx_link_arm(self.open()) != OK:
                    continue
                ready = loop.create_future()
                loop.add_reader(place[0], wake, ready)
                try:
                    await ready
                finally:
                    loop.remove_reader(place[0])

    def _try_lease(self) -> Envelope | None:
        place = ffi.new("ucxx_envelope_t **")
        status = lib.ucxx_link_lease(self.open(), 0, place)
        if status == lib.UCXX_ERR_NO_RESOURCE:
            return None
        check(status)
        return Envelope(self, place[0])

    async def __aiter__(self) -> typing.AsyncIterator[Envelope]:
        while True:
            try:
                envelope = await self.lease()
            except Closed:
                return
            yield envelope

    def __iter__(self) -> typing.Iterator[Envelope]:
        while True:
            try:
                envelope = self.lease_wait()
            except Closed:
                return
            yield envelope

    def connect(self, endpoint: Endpoint, stream: int = 0, window: int = 4) -> None:
        """Joins a consumer with a producer of the peer's hub: every chunk here becomes one there,
        in order. Both sides call it, with the same `stream`."""
        check(lib.ucxx_link_connect(self.open(), endpoint.open(), stream, window))
        loop = asyncio._get_running_loop()
        if loop is not None:
            endpoint.traffic.driver(loop)

    def send(self, endpoint: Endpoint, tag: int = 0) -> Request[None]:
        """Sends the next chunk as a message with this tag, and consumes it."""
        request: Request[None] = Request(endpoint.traffic, (self, endpoint))
        endpoint.traffic.submit(request, lib.ucxx_link_send, self.open(), endpoint.open(), tag)
        return request

    def recv(self, tag: int = 0, mask: int = 2**64 - 1) -> Request[None]:
        """Receives one message into an envelope, which becomes a chunk."""
        if self.hub.worker is None:
            raise error(lib.UCXX_ERR_INVALID_PARAM, "hub: it was made without a worker")
        request: Request[None] = Request(self.hub.worker.traffic, self)
        self.hub.worker.traffic.submit(request, lib.ucxx_link_recv, self.open(), tag, mask)
        return request

    def close(self) -> None:
        handle, self.handle = self.handle, ffi.NULL
        if handle != ffi.NULL:
            lib.ucxx_link_destroy(handle)


class Hub(Closable):
    """A queue of chunks. `add` gives it envelopes of `envelope_size` bytes each.

    - `worker`: for `link.connect`, `send` and `recv`.
    - `max_chunks`, `max_bytes`: limits of the queue; producers wait for them.
    """

    _what = "hub"

    def __init__(
        self,
        context: Context,
        envelope_size: int,
        count: int = 0,
        *,
        worker: Worker | None = None,
        max_chunks: int = 0,
        max_bytes: int = 0,
    ) -> None:
        self.handle = ffi.NULL
        self.worker = worker
        params = new("hub_params")
        params.envelope_size = envelope_size
        params.max_queue_chunks, params.max_queue_bytes = max_chunks, max_bytes
        params.worker = worker.open() if worker is not None else ffi.NULL
        self._context = context
        self.handle = made("hub", lib.ucxx_hub_create, context.handle, params)
        self.owner: typing.Any = ffi.gc(self.handle, lib.ucxx_hub_destroy)
        if count:
            self.add(count)

    def add(self, count: int, device: Place = None) -> None:
        """Adds envelopes in host memory, in pinned host memory ("pinned"), or on a CUDA device."""
        check(lib.ucxx_hub_add_envelopes(self.open(), _memory_kind(device), count))

    def produce(self, device: Place = None) -> Link:
        return Link(self, "produce", device)

    def consume(self, device: Place = None, *, broadcast: bool = False) -> Link:
        """With `broadcast` it gets every chunk; otherwise consumers compete."""
        return Link(self, "consume", device, broadcast=broadcast)

    def peek(self, device: Place = None) -> Link:
        return Link(self, "peek", device)

    def modify(self, device: Place = None) -> Link:
        return Link(self, "modify", device)

    def __len__(self) -> int:
        """Chunks in the queue."""
        return int(lib.ucxx_hub_length(self.open()))

    def stats(self) -> dict[str, int]:
        """Counters: see ucxx_hub_stats in the C header."""
        got = new("hub_stats")
        check(lib.ucxx_hub_query_stats(self.open(), got))
        return fields(got)

    def metrics(self) -> str:
        """Its metrics as OpenMetrics text, for Prometheus."""
        return dumped(lib.ucxx_hub_metrics, self.open()) + "\n"

    def end(self) -> None:
        """Ends the stream: producers get Closed at once, consumers after the last chunk."""
        check(lib.ucxx_hub_close(self.open()))

    def drain_wait(self, timeout: float | None = None) -> None:
        """Waits until the queue is empty, and what is connected has arrived."""
        check(lib.ucxx_hub_drain(self.open(), _nanoseconds(timeout)))

    async def drain(self, timeout: float | None = None) -> None:
        await asyncio.to_thread(self.drain_wait, timeout)

    def close(self) -> None:
        """Ends the stream, and gives up the hub. Its envelopes live as long as views of them."""
        handle, self.handle = self.handle, ffi.NULL
        if handle != ffi.NULL:
            lib.ucxx_hub_close(handle)
            self.owner = None


def _memory_kind(device: Place) -> typing.Any:
    kind = ffi.new("ucxx_memory_kind_t *")
    if isinstance(device, int):
        kind.memory_type, kind.device_id = lib.UCXX_MEMORY_CUDA, device
    elif device == "pinned":
        kind.memory_type = lib.UCXX_MEMORY_CUDA_PINNED
    elif device is None:
        kind.memory_type = lib.UCXX_MEMORY_HOST
    else:
        raise ValueError(f'device: None, "pinned" or a number, not {device!r}')
    return kind[0]
