# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Endpoints: connections to one peer each, by which everything is sent."""

from __future__ import annotations

import asyncio
import typing
import warnings
import weakref

from ._buffers import Buffer, BufferList, one
from ._context import dumped, fields, made, new
from ._frames import FetchFrames
from ._handlers import report as report_failure
from ._memory import RemoteMemory
from ._native import ffi, lib
from ._requests import Receive, Received, Request, Traffic, wake_from
from ._status import OK, Closed, Error, check, error, text

if typing.TYPE_CHECKING:
    from ._worker import Worker

OnClose = typing.Callable[["Endpoint", typing.Optional[Error]], typing.Any]


class CloseReport:
    """The end of an endpoint, as the library reports it. Does not keep the endpoint alive."""

    def __init__(self, traffic: Traffic, on_close: OnClose | None) -> None:
        self.traffic = traffic
        self.on_close = on_close
        self.status: int | None = None
        self.waiters: list[asyncio.Future[None]] = []
        self.endpoint: weakref.ref[Endpoint] | None = None
        self.number = traffic.listen(self._ended)

    def _ended(self, _handle: int, status: int) -> None:
        self.status = status
        self.traffic.forget(self.number)
        for waiter in self.waiters:
            wake_from(asyncio._get_running_loop(), waiter)
        endpoint = self.endpoint() if self.endpoint is not None else None
        if endpoint is not None and endpoint.on_close is not None:
            try:
                endpoint.on_close(endpoint, self.error())
            except Exception as failure:
                report_failure(endpoint.on_close, failure)

    def error(self) -> Error | None:
        return None if self.status is None or self.status >= 0 else error(self.status)


def endpoint_params(
    traffic: Traffic, options: dict[str, typing.Any]
) -> tuple[typing.Any, CloseReport]:
    """The parameters of an endpoint, and what its end is reported to."""
    params = new("endpoint_params")
    on_close = options.pop("on_close", None)
    for name, value in options.items():
        if name in ("connect_timeout", "liveness"):
            name, value = name + "_ns", int(value * 1e9)
        if not hasattr(params, name):
            raise TypeError(f"{name!r} is no option of an endpoint")
        setattr(params, name, value)
    report = CloseReport(traffic, on_close)
    params.notifier = traffic.notifier
    params.on_close_arg = ffi.cast("void *", report.number)
    return params, report


def make_endpoint(
    worker: Worker,
    options: dict[str, typing.Any],
    call: typing.Callable[..., int],
    *arguments: typing.Any,
) -> Endpoint:
    """The endpoint that a call of the library makes: `call(*arguments, params, endpoint)`."""
    params, report = endpoint_params(worker.traffic, options)
    try:
        handle = made("endpoint", call, *arguments, params)
    except BaseException:
        worker.traffic.forget(report.number)
        raise
    return worker.adopt(Endpoint(worker, handle, report))


class Endpoint:
    """A connection to one peer. `worker.connect` and listeners make them.

    The operations return a `Request`: `await` it, or call its `wait()`. A failure that is known at
    once is raised by the call itself. All take `timeout` in seconds.
    """

    def __init__(self, worker: Worker, handle: typing.Any, report: CloseReport | None) -> None:
        self.worker = worker
        self.handle = handle
        self.traffic = worker.traffic
        self._report = report
        #: Called with the endpoint and the reason when it has ended, on either side.
        self.on_close: OnClose | None = None
        if report is not None:
            self.on_close = report.on_close
            report.endpoint = weakref.ref(self)
        self._closing: Request[None] | None = None

    # Messages by tag.

    def send(
        self, buffer: Buffer, tag: int = 0, *, sync: bool = False, **options: typing.Any
    ) -> Request[None]:
        """Sends one message. It ends when the buffer may be used again; with `sync`, when the peer
        has received it."""
        keep, pointer, length = one(buffer, False, options)
        request: Request[None] = Request(self.traffic, (keep, self))
        call = lib.ucxx_tag_send_sync if sync else lib.ucxx_tag_send
        self.traffic.submit(request, call, self.open(), pointer, length, tag, **options)
        return request

    def send_from(
        self, buffers: typing.Iterable[Buffer], tag: int = 0, **options: typing.Any
    ) -> Request[None]:
        """Sends several buffers as one message, one after the other."""
        return self._send_list(lib.ucxx_tag_send_iov, buffers, tag, options)

    def send_multi(
        self, buffers: typing.Iterable[Buffer], tag: int = 0, **options: typing.Any
    ) -> Request[None]:
        """Sends several buffers that `worker.recv_multi` receives as they are, however many and
        large they are."""
        return self._send_list(lib.ucxx_tag_send_multi, buffers, tag, options)

    def _send_list(
        self, call: typing.Callable[..., int], buffers: typing.Iterable[Buffer], tag: int,
        options: dict[str, typing.Any],
    ) -> Request[None]:  # fmt: skip
        parts = BufferList(buffers, writable=False)
        request: Request[None] = Request(self.traffic, (parts, self))
        self.traffic.submit(request, call, self.open(), parts.array, parts.count, tag, **options)
        return request

    # The stream.

    def stream_send(self, buffer: Buffer, **options: typing.Any) -> Request[None]:
        """Sends bytes that have no borders at the peer."""
        keep, pointer, length = one(buffer, False, options)
        request: Request[None] = Request(self.traffic, (keep, self))
        self.traffic.submit(request, lib.ucxx_stream_send, self.open(), pointer, length, **options)
        return request

    def stream_recv(
        self, buffer: Buffer, *, partial: bool = False, **options: typing.Any
    ) -> Request[Received]:
        """Receives the peer's next bytes, as many as the buffer has; with `partial`, those that
        have arrived, at least one."""
        keep, pointer, length = one(buffer, True, options)
        if partial:
            options["flags"] = lib.UCXX_FLAG_STREAM_PARTIAL
        request = Receive(self.traffic, (keep, self))
        self.traffic.submit(request, lib.ucxx_stream_recv, self.open(), pointer, length, **options)
        return request

    # Active messages and fetches.

    def message(
        self, id: int, buffer: Buffer = b"", header: bytes = b"", **options: typing.Any
    ) -> Request[None]:
        """Sends an active message to the peer's handler with this id: see `worker.on_message`."""
        keep, pointer, length = one(buffer, False, options)
        options["flags"] = options.get("flags", 0) | lib.UCXX_FLAG_AM_REPLY
        request: Request[None] = Request(self.traffic, (keep, self))
        self.traffic.submit(
            request, lib.ucxx_am_send, self.open(), id, header, len(header),
            pointer, length, **options,
        )  # fmt: skip
        return request

    def fetch(
        self, id: int, header: bytes = b"", into: Buffer = None, *, data: Buffer = b"",
        **options: typing.Any,
    ) -> Request[typing.Any]:  # fmt: skip
        """Asks the peer's handler with this id for data: see `worker.on_fetch`.

        With `into` the reply is received there, and the result is its length. Without it the
        result is the reply, as a memoryview of memory that the library has made, and `data` goes
        with the question.
        """
        if not isinstance(header, bytes):
            raise TypeError(f"header: bytes are expected, not {type(header).__name__}")
        if into is None:
            keep, pointer, length = one(data, False, options)
            request: Request[typing.Any] = FetchFrames(self.traffic, (keep, self))
            self.traffic.submit(
        request, lib.ucxx_am_fetch_alloc, self.open(), id, header, len(header),
                pointer, length, ffi.NULL, **options,
            )  # fmt: skip
            return request
        if len(data):
            raise ValueError("fetch: `data` goes with a question without `into`")
        keep, pointer, length = one(into, True, options)
        request = FetchInto(self.traffic, (keep, self))
        self.traffic.submit(
            request, lib.ucxx_am_fetch, self.open(), id, header, len(header),
            pointer, length, **options,
        )  # fmt: skip
        return request

    # Memory of the peer.

    def remote(self, packed: bytes) -> RemoteMemory:
        """The peer's memory, by the bytes that its `Memory.packed` has."""
        return RemoteMemory(self, packed)

    def flush(self, **options: typing.Any) -> Request[None]:
        """Ends when everything sent before has arrived."""
        request: Request[None] = Request(self.traffic, self)
        self.traffic.submit(request, lib.ucxx_endpoint_flush, self.open(), **options)
        return request

    # State.

    @property
    def writable(self) -> bool:
        """Whether the send window has room: see `send_window_bytes`."""
        return bool(lib.ucxx_endpoint_writable(self.open()))

    @property
    def closed(self) -> bool:
        """Whether it has ended, on either side."""
        return bool(self.handle == ffi.NULL) or int(lib.ucxx_endpoint_status(self.handle)) != OK

    @property
    def ended(self) -> bool:
        """Whether its end has been reported: everything that the peer sent before has arrived."""
        return self._report is not None and self._report.status is not None

    def metrics(self) -> str:
        """Its metrics as OpenMetrics text, for Prometheus."""
        return dumped(lib.ucxx_endpoint_metrics, self.open()) + "\n"

    def query(self) -> dict[str, typing.Any]:
        """Addresses, transports and counters: see ucxx_endpoint_attr in the C header."""
        got = new("endpoint_attr")
        check(lib.ucxx_endpoint_query(self.open(), got))
        return {
            name: text(value) if "char" in str(value) else value
            for name, value in fields(got).items()
        }

    def cancel_all(self) -> int:
        """Cancels all operations of this endpoint. Returns how many."""
        count = ffi.new("size_t *")
        check(lib.ucxx_endpoint_cancel_all(self.open(), count))
        return int(count[0])

    # The end.

    def open(self) -> typing.Any:
        """The handle for calls of C, while there is one."""
        if self.handle == ffi.NULL:
            raise error(lib.UCXX_ERR_CLOSED, "endpoint: has been closed")
        return self.handle

    def close(self, *, force: bool = False, **options: typing.Any) -> Request[None]:
        """Closes it. Without `force` what was sent before arrives first. Calls after the first
        return the same Request."""
        if self._closing is None or (force and not self._closing.done):
            request: Request[None] = Request(self.traffic, self)
            how = lib.UCXX_CLOSE_FORCE if force else lib.UCXX_CLOSE_FLUSH
            if self.handle == ffi.NULL:
                request._status = OK
            else:
                try:
                    self.traffic.submit(
                        request, lib.ucxx_endpoint_close, self.handle, how, **options
                    )
                except Closed:
                    # By another handle of the same endpoint.
                    request._status = OK
            self._closing = request
        return self._closing

    async def wait_closed(self) -> Error | None:
        """Waits until it has ended: the reason if the peer closed it or failed (ConnectionReset is
        the normal end), None if this side did."""
        report = self._report
        if report is None:
            raise error(lib.UCXX_ERR_UNSUPPORTED, "the end of this endpoint is not reported")
        loop = asyncio.get_running_loop()
        while report.status is None and self.handle != ffi.NULL:
            self.traffic.driver(loop)
            waiter = loop.create_future()
            report.waiters.append(waiter)
            await waiter
        return report.error()

    def abort(self) -> None:
        """Closes it by force, and gives up the handle."""
        handle, self.handle = self.handle, ffi.NULL
        if handle == ffi.NULL:
            return
        if self._report is not None:
            # The endpoint is this object's own, not one that a message was answered by.
            self.traffic.forget(self._report.number)
            for waiter in self._report.waiters:
                wake_from(asyncio._get_running_loop(), waiter)
            if lib.ucxx_endpoint_status(handle) == OK:
                lib.ucxx_endpoint_close(handle, lib.UCXX_CLOSE_FORCE, ffi.NULL, ffi.NULL)
        lib.ucxx_endpoint_destroy(handle)

    async def __aenter__(self) -> Endpoint:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close().wait()

    def __del__(self) -> None:
        if getattr(self, "handle", ffi.NULL) == ffi.NULL:
            return
        if self._closing is None and not self.closed and self._report is not None:
            try:
                warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self)
            finally:
                self.abort()
        self.abort()

    def __repr__(self) -> str:
        return f"<ucxx_rs.Endpoint: {'closed' if self.closed else 'open'}>"


class FetchInto(Request[int]):
    """A fetch in progress. Its result is the length of the reply."""

    __slots__ = ()
    _receives = True

    def _value(self) -> int:
        return self._length
