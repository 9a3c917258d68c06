# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Workers: they make connections, receive, and move all data of their endpoints."""

from __future__ import annotations

import asyncio
import contextlib
import time
import types
import typing
import warnings
import weakref

from ._buffers import Buffer, BufferList, one
from ._context import Context, dumped, fields, made, new
from ._endpoint import Endpoint, make_endpoint
from ._frames import Frames, ReceiveFrames
from ._listener import ConnectionRequest, Listener
from ._handlers import call_handler
from ._messages import Fetch, Message
from ._native import ffi, lib
from ._progress import DRIVERS, MODES, Progress
from ._requests import Receive, Received, Request, Traffic
from ._status import OK, Error, check, error

EVERY_BIT = 2**64 - 1
_SLICE_NS = 100_000_000


class Worker:
    """Moves the data of its endpoints.

    - `context`: made with all defaults if there is none.
    - `progress`: "thread" lets a thread of the library work, and is right for most programs.
      "polling" has the shortest latency in an event loop, and keeps a core busy. "blocking" uses
      neither a thread nor, while nothing comes, the core.
    - `name`: shown in logs, and the name of the thread.

    With asyncio it belongs to the loop that first awaits something of it; other loops and threads
    may use it as well. `async with` or `with` closes it in an orderly way.
    """

    def __init__(
        self,
        context: Context | None = None,
        progress: Progress = "thread",
        *,
        name: str | None = None,
    ) -> None:
        if progress not in MODES:
            raise ValueError(f'progress: {progress!r} is none of "thread", "polling", "blocking"')
        if context is not None and not isinstance(context, Context):
            raise TypeError(f"context: a Context is expected, not {context!r}")
        self.context = context or Context()
        self.progress_mode = progress
        params = new("worker_params")
        params.progress_mode = MODES[progress]
        kept_name = ffi.new("char[]", name.encode()) if name else ffi.NULL
        params.name = kept_name
        self.handle = made("worker", lib.ucxx_worker_create, self.context.handle, params)
        try:
            self.traffic = Traffic(
                self.context.handle,
                self.handle,
                has_thread=progress == "thread",
                needs_kick=progress == "blocking",
            )
        except BaseException:
            lib.ucxx_worker_destroy(self.handle)
            raise
        traffic, kind = self.traffic, DRIVERS[progress]
        traffic.attach = lambda loop: kind(traffic, loop)
        self._endpoints: weakref.WeakSet[Endpoint] = weakref.WeakSet()
        # A listener with a handler works without a reference of the program.
        self._listeners: set[Listener] = set()
        self._handlers: dict[tuple[str, int], int] = {}
        loop = asyncio._get_running_loop()
        if loop is not None:
            self.traffic.driver(loop)

    # Connections.

    @property
    def address(self) -> bytes:
        """By these bytes another process connects to this worker."""
        address = made("address", lib.ucxx_worker_address, self.open())
        try:
            length = lib.ucxx_address_length(address)
            return bytes(ffi.buffer(lib.ucxx_address_data(address), length))
        finally:
            lib.ucxx_address_destroy(address)

    def connect(
        self,
        peer: bytes | str | tuple[str, int],
        port: int | None = None,
        **options: typing.Any,
    ) -> Endpoint:
        """An endpoint to a worker by its address, or to a listener by host and port.

        The connection is made in the background, and operations may be started at once. `options`:
        `send_window_ops`, `send_window_bytes`, `connect_timeout` and `liveness` in seconds,
        `on_close(endpoint, error)`.
        """
        if isinstance(peer, tuple):
            peer, port = peer
        worker = self.open()
        if isinstance(peer, str):
            if not isinstance(port, int) or not 0 <= port < 1 << 16:
                raise TypeError(f"port: 0 to 65535 are expected with a host, not {port!r}")
            connect = lib.ucxx_endpoint_connect
            return make_endpoint(self, options, connect, worker, peer.encode(), port)
        address = made("address", lib.ucxx_address_from_bytes, peer, len(peer))
        try:
            return make_endpoint(self, options, lib.ucxx_endpoint_create, worker, address)
        finally:
            lib.ucxx_address_destroy(address)

    def listen(
        self,
        handler: typing.Callable[[ConnectionRequest], typing.Any] | None = None,
        port: int = 0,
        host: str | None = None,
    ) -> Listener:
        """Listens for peers that connect by host and port. Port 0: a free one, `listener.port`.
        Without a host only for peers on this host; `host="0.0.0.0"` for all.

        Without a handler, `await listener.accept()` or `async for endpoint in listener`. A handler
        gets each `ConnectionRequest`; it may be a coroutine function.
        """
        if handler is not None and not callable(handler):
            raise TypeError(f"handler: {handler!r} cannot be called; a port is `port=`")
        listener = Listener(self, handler, host, port)
        self._listeners.add(listener)
        return listener

    def adopt(self, endpoint: Endpoint) -> Endpoint:
        self._endpoints.add(endpoint)
        return endpoint

    # Receives.

    def recv(
        self,
        buffer: Buffer,
        tag: int = 0,
        mask: int = EVERY_BIT,
        *,
        source: Endpoint | None = None,
        **options: typing.Any,
    ) -> Receive:
        """Receives one message by its tag. The bits of `mask` have to be equal.

        It belongs to no endpoint; with `source` it also ends when that endpoint does. `timeout` in
        seconds cancels it: TimedOut.
        """
        keep, pointer, length = one(buffer, True, options)
        if source is not None:
            options["source"] = source.open()
        request = Receive(self.traffic, (keep, source))
        self.traffic.submit(
            request, lib.ucxx_tag_recv, self.open(), pointer, length, tag, mask,
            **options,
        )  # fmt: skip
        return request

    def recv_into(
        self, buffers: typing.Iterable[Buffer], tag: int = 0, mask: int = EVERY_BIT,
        *, source: Endpoint | None = None, **options: typing.Any,
    ) -> Receive:  # fmt: skip
        """Receives one message into several buffers, one after the other."""
        places = BufferList(buffers, writable=True)
        if source is not None:
            options["source"] = source.open()
        request = Receive(self.traffic, (places, source))
        self.traffic.submit(
            request, lib.ucxx_tag_recv_iov, self.open(), places.array, places.count, tag, mask,
            **options,
        )  # fmt: skip
        return request

    def recv_multi(
        self, tag: int = 0, mask: int = EVERY_BIT, *, source: Endpoint | None = None,
        **options: typing.Any,
    ) -> Request[Frames]:  # fmt: skip
        """Receives the buffers of one `send_multi`, however many and large they are.

        The frames are memory of the library that lives as long as they, or views of them, do.
        """
        if source is not None:
            options["source"] = source.open()
        request = ReceiveFrames(self.traffic, source)
        self.traffic.submit(
            request, lib.ucxx_tag_recv_multi, self.open(), tag, mask, ffi.NULL, **options
        )
        return request

    def probe(self, tag: int = 0, mask: int = EVERY_BIT) -> Received | None:
        """The oldest message that has arrived with such a tag, and that no receive has taken."""
        info = ffi.new("ucxx_recv_info_t *")
        status = lib.ucxx_tag_probe(self.open(), tag, mask, info, ffi.NULL)
        if status == lib.UCXX_ERR_NO_MESSAGE:
            return None
        check(status)
        return Received(info.length, info.sender_tag)

    def flush(self) -> Request[None]:
        """Ends when every send submitted before has arrived."""
        request: Request[None] = Request(self.traffic, None)
        self.traffic.submit(request, lib.ucxx_worker_flush, self.open())
        return request

    # Handlers.

    def on_message(self, id: int, handler: typing.Callable[[Message], typing.Any] | None) -> None:
        """Calls `handler(message)` for the active messages with this id; None removes it.

        It may be a coroutine function. It runs on the loop that runs now, or, without one, on the
        thread that waits on this worker.
        """
        self._set_handler("am", id, handler, Message)

    def on_fetch(self, id: int, handler: typing.Callable[[Fetch], typing.Any] | None) -> None:
        """Calls `handler(fetch)` for peers' fetches with this id; None removes it.

        The handler returns the reply: bytes, an array, or None if it has called `fetch.reply` or
        `fetch.reject` itself, or keeps the fetch for later. It may be a coroutine function. If it
        raises, the fetch is rejected. At most 256 fetches of a peer may wait for their replies; the
        peer's next ones wait.
        """

        def replied(fetch: Fetch, value: typing.Any) -> None:
            # Not what fetch.reply has returned.
            if value is not None and not isinstance(value, Request):
                # A client that has gone needs no reply.
                with contextlib.suppress(ConnectionError):
                    fetch.reply(value)
            elif value is None and not fetch.is_handled:
                raise TypeError("the handler returned nothing, and has neither replied nor kept it")

        self._set_handler("fetch", id, handler, Fetch, replied)

    def _set_handler(
        self,
        kind: str,
        id: int,
        handler: typing.Callable[[typing.Any], typing.Any] | None,
        wrap: typing.Callable[[typing.Any, int], typing.Any],
        finish: typing.Callable[[typing.Any, typing.Any], None] = lambda _arrived, _value: None,
    ) -> None:
        if handler is not None and not callable(handler):
            raise TypeError(f"handler: {handler!r} cannot be called")
        register = getattr(lib, f"ucxx_worker_set_{kind}_notifier")
        number = self._handlers.get((kind, id))
        if handler is None:
            check(register(self.open(), id, ffi.NULL, ffi.NULL))
            if number is not None:
                self.traffic.forget(number)
            return
        user, weak = handler, weakref.ref(self)

        def target(handle: int, _status: int) -> None:
            arrived, worker = wrap(weak(), handle), weak()
            if worker is not None:
                call_handler(user, arrived, finish)

        # An id keeps its number: what has been reported by it and not been handled yet goes to the
        # new handler.
        known = number
        number = self.traffic.listen(target, known)
        status = register(self.open(), id, self.traffic.notifier, ffi.cast("void *", number))
        if status < 0:
            if known is None:
                self.traffic.forget(number)
            check(status)
        self._handlers[kind, id] = number

    # Progress.

    def progress(self, timeout: float | None = 0.0) -> bool:
        """For programs without an event loop: handles what has ended and arrived, and waits for it
        up to `timeout` seconds; None has no limit. Whether there was anything."""
        deadline = None if timeout is None else time.monotonic_ns() + int(timeout * 1e9)
        events = ffi.new("uint32_t *")
        while True:
            worker = self.open()
            if not self.traffic.has_thread:
                check(self.traffic.call(lib.ucxx_worker_progress, worker, events))
            if self.traffic.drain(asyncio._get_running_loop()):
                return True
            left = _SLICE_NS
            if deadline is not None:
                left = min(left, deadline - time.monotonic_ns())
                if left <= 0:
                    return False
            if self.traffic.has_thread:
                status = self.traffic.call(lib.ucxx_notifier_wait, self.traffic.notifier, left)
            else:
                status = self.traffic.call(lib.ucxx_worker_wait, worker, left)
            if status not in (OK, lib.UCXX_ERR_TIMED_OUT):
                check(status)

    @property
    def in_progress(self) -> int:
        """How many operations have not ended."""
        if asyncio._get_running_loop() is None and not self.closed:
            self.traffic.drain()
        return len(self.traffic)

    def cancel_all(self) -> int:
        """Cancels all operations of this worker. Returns how many."""
        count = ffi.new("size_t *")
        check(lib.ucxx_worker_cancel_all(self.open(), count))
        return int(count[0])

    def stats(self) -> dict[str, int]:
        """Counters since the worker was made: see ucxx_worker_stats in the C header."""
        got = new("worker_stats")
        check(lib.ucxx_worker_query_stats(self.open(), got))
        return fields(got)

    def dump(self) -> str:
        """A description of the worker and of what is in progress."""
        return dumped(lib.ucxx_worker_dump, self.open())

    def metrics(self) -> str:
        """Its metrics as OpenMetrics text, for Prometheus."""
        return dumped(lib.ucxx_worker_metrics, self.open()) + "\n"

    # The end.

    def open(self) -> typing.Any:
        """The handle for calls of C, while the worker is open."""
        if self.handle == ffi.NULL:
            raise error(lib.UCXX_ERR_CLOSED, "worker: has been closed")
        return self.handle

    @property
    def closed(self) -> bool:
        return bool(self.handle == ffi.NULL)

    def close(self) -> None:
        """Closes the endpoints, which ends all sends, and destroys the worker: what else is in
        progress ends with Canceled. Blocks this thread; `aclose` does not."""
        if self.closed:
            return
        closing = []
        for endpoint in list(self._endpoints):
            with contextlib.suppress(Error):
                closing.append(endpoint.close())
        for request in closing:
            with contextlib.suppress(Error):
                request.wait()
        self.abort()

    async def aclose(self) -> None:
        """As close, without blocking the loop."""
        if self.closed:
            return
        closing = []
        for endpoint in list(self._endpoints):
            with contextlib.suppress(Error):
                closing.append(endpoint.close())
        await asyncio.gather(*closing, return_exceptions=True)
        self.abort()

    def abort(self) -> None:
        """Destroys the worker now, with its endpoints and listeners."""
        handle, self.handle = self.handle, ffi.NULL
        if handle == ffi.NULL:
            return
        self.traffic.stop()
        for listener in list(self._listeners):
            listener.close()
        for endpoint in list(self._endpoints):
            endpoint.abort()
        lib.ucxx_worker_destroy(handle)
        self.traffic.finish()

    async def __aenter__(self) -> Worker:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "handle", ffi.NULL) == ffi.NULL:
            return
        try:
            warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self)
        finally:
            self.abort()

    def __repr__(self) -> str:
        state = (
            "closed" if self.closed else f"{self.progress_mode}, {len(self.traffic)} in progress"
        )
        return f"<ucxx_rs.Worker: {state}>"
