# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Listeners: peers connect to them by host and port."""

from __future__ import annotations

import asyncio
import collections
import time
import typing
import weakref

from ._context import made, new
from ._endpoint import Endpoint, make_endpoint
from ._handlers import call_handler
from ._handle import Closable
from ._native import ffi, lib
from ._requests import wake_from
from ._status import check, text

if typing.TYPE_CHECKING:
    from ._worker import Worker


class ConnectionRequest:
    """A client that wants a connection. Without `accept` it is rejected."""

    def __init__(self, worker: Worker, handle: int) -> None:
        self._worker = worker
        self.handle = ffi.cast("ucxx_conn_request_t *", handle)

    @property
    def address(self) -> str:
        """Where it comes from."""
        place = ffi.new("char[]", 128)
        check(lib.ucxx_conn_request_address(self.handle, place, 128))
        return text(place)

    def accept(self, **options: typing.Any) -> Endpoint:
        """The endpoint to the client. `options`: as for `worker.connect`."""
        return make_endpoint(self._worker, options, lib.ucxx_endpoint_accept, self.handle)

    def reject(self) -> None:
        check(lib.ucxx_conn_request_reject(self.handle))

    def handled(self, _failure: BaseException | None) -> None:
        self.__del__()

    def __del__(self) -> None:
        handle, self.handle = self.handle, ffi.NULL
        if handle != ffi.NULL:
            lib.ucxx_conn_request_destroy(handle)


class Listener(Closable):
    """Listens at a port of the worker. `worker.listen` makes it."""

    _what = "listener"

    def __init__(
        self,
        worker: Worker,
        handler: typing.Callable[[ConnectionRequest], typing.Any] | None,
        host: str | None,
        port: int,
    ) -> None:
        self.worker = worker
        self._handler = handler
        self._arrived: collections.deque[ConnectionRequest] = collections.deque()
        self._waiters: collections.deque[asyncio.Future[None]] = collections.deque()
        params = new("listener_params")
        kept_host = ffi.new("char[]", host.encode()) if host else ffi.NULL
        params.host, params.port = kept_host, port
        params.notifier = worker.traffic.notifier
        # The traffic keeps neither the listener nor the worker alive.
        weak = weakref.WeakMethod(self._requested)

        def target(handle: int, status: int) -> None:
            requested = weak()
            if requested is not None:
                requested(handle, status)
            else:
                lib.ucxx_conn_request_destroy(ffi.cast("ucxx_conn_request_t *", handle))

        self._number = worker.traffic.listen(target)
        params.on_connect_arg = ffi.cast("void *", self._number)
        self.handle = ffi.NULL
        try:
            self.handle = made("listener", lib.ucxx_listener_create, worker.open(), params)
        except BaseException:
            worker.traffic.forget(self._number)
            raise

    def _requested(self, handle: int, _status: int) -> None:
        request = ConnectionRequest(self.worker, handle)
        if self._handler is not None:
            call_handler(self._handler, request, lambda _request, _value: None)
            return
        self._arrived.append(request)
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                wake_from(asyncio._get_running_loop(), waiter)
                break

    @property
    def port(self) -> int:
        return int(lib.ucxx_listener_port(self.open()))

    @property
    def address(self) -> str:
        """Host and port."""
        place = ffi.new("char[]", 128)
        check(lib.ucxx_listener_address(self.open(), place, 128))
        return text(place)

    async def accept(self, **options: typing.Any) -> Endpoint:
        """Waits for the next client, and accepts it. `options`: as for `worker.connect`."""
        loop = asyncio.get_running_loop()
        self.worker.traffic.driver(loop)
        while not self._arrived:
            self.open()
            waiter = loop.create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled() and self._waiters:
                    # It was woken for a client that another one may take now.
                    wake_from(loop, self._waiters.popleft())
                raise
        return self._arrived.popleft().accept(**options)

    def accept_wait(self, timeout: float | None = None, **options: typing.Any) -> Endpoint:
        """As accept, on this thread. TimeoutError after `timeout` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._arrived:
            self.open()
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError("no client has come in time")
            self.worker.progress(left)
        return self._arrived.popleft().accept(**options)

    async def __aiter__(self) -> typing.AsyncIterator[Endpoint]:
        while True:
            yield await self.accept()

    def close(self) -> None:
        """Ends it. Connections that it has made stay."""
        handle, self.handle = self.handle, ffi.NULL
        if handle != ffi.NULL:
            self.worker._listeners.discard(self)
            lib.ucxx_listener_destroy(handle)
            self.worker.traffic.forget(self._number)
            self._arrived.clear()
            while self._waiters:
                wake_from(asyncio._get_running_loop(), self._waiters.popleft())
