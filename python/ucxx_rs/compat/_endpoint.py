# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Endpoints: connections to one peer each."""

from __future__ import annotations

import logging
import typing

from .._context import made, new
from .._frames import ReceiveFrames
from .._native import ffi, lib
from .._requests import Request
from .._status import OK, Error
from ._context import UCXAddress
from ._request import UCXBufferRequests, UCXRequest
from ._types import Feature, UCXXTag, UCXXTagMask, UCXXTagMaskFull
from .arr import Array
from .exceptions import error

if typing.TYPE_CHECKING:
    from ._traffic import WorkerTraffic
    from ._worker import TagProbeResult, UCXListener, UCXWorker

logger = logging.getLogger("ucx")
_NS = 1e-9
# How long a close without a time limit of its caller waits for the peer.
_CLOSE_NS = 3 * 10**9
_TAG, _STREAM, _AM = Feature.TAG.value, Feature.STREAM.value, Feature.AM.value


class UCXEndpoint:
    """A connection to one peer. Its three `create` methods make it.

    - `handle` identifies it, but is not UCP's: this library may replace UCP's endpoint.
    - A failure is always reported by the request, never by the call that began the operation.
    """

    _handle: typing.Any
    _worker: UCXWorker
    _traffic: WorkerTraffic
    _flags: int
    _ended: _End
    _number: int
    _id: int

    def __init__(self) -> None:
        raise TypeError("UCXEndpoint cannot be instantiated directly.")

    @classmethod
    def create(
        cls, worker: UCXWorker, ip_address: str, port: int, endpoint_error_handling: bool
    ) -> UCXEndpoint:
        """Connects to a listener."""
        return cls._make(
            worker, endpoint_error_handling,
            lambda params: made("endpoint", lib.ucxx_endpoint_connect, worker._open(),
                                ip_address.encode(), port, params),
        )  # fmt: skip

    @classmethod
    def create_from_worker_address(
        cls, worker: UCXWorker, address: UCXAddress, endpoint_error_handling: bool
    ) -> UCXEndpoint:
        """Connects to a worker by its address."""

        def connect(params: typing.Any) -> typing.Any:
            taken = made("address", lib.ucxx_address_from_bytes, bytes(address), len(address))
            try:
                return made("endpoint", lib.ucxx_endpoint_create, worker._open(), taken, params)
            finally:
                lib.ucxx_address_destroy(taken)

        return cls._make(worker, endpoint_error_handling, connect)

    @classmethod
    def create_from_conn_request(
        cls, listener: UCXListener, conn_request: int, endpoint_error_handling: bool
    ) -> UCXEndpoint:
        """Accepts a connection that a listener's callback was called with."""
        request = listener._take(conn_request)
        try:
            return cls._make(
                listener._worker, endpoint_error_handling,
                lambda params: made("endpoint", lib.ucxx_endpoint_accept, request, params),
            )  # fmt: skip
        finally:
            lib.ucxx_conn_request_destroy(request)

    @classmethod
    def _make(
        cls, worker: UCXWorker, error_handling: bool,
        connect: typing.Callable[[typing.Any], typing.Any],
    ) -> UCXEndpoint:  # fmt: skip
        self = object.__new__(cls)
        self._handle = ffi.NULL
        self._worker = worker
        self._traffic = worker._traffic
        self._flags = worker._flags
        self._ended = _End()
        self._number = worker._events.listen(self._ended)
        params = new("endpoint_params")
        params.notifier = worker._events.notifier
        params.on_close_arg = ffi.cast("void *", self._number)
        if not error_handling:
            params.error_handling = lib.UCXX_ENDPOINT_ERROR_HANDLING_NONE
        try:
            self._handle = connect(params)
        except Error as failure:
            worker._events.forget(self._number)
            raise error(failure.status, str(failure)) from None
        self._id = int(ffi.cast("uintptr_t", self._handle))
        worker._expect_events()
        return self

    # Operations.

    def tag_send(self, arr: Array, tag: UCXXTag) -> UCXRequest:
        self._need(_TAG, "TAG")
        pointer, length, memory_type = arr.memory(False)
        request: Request[None] = Request(self._traffic, (arr, self))
        self._traffic.post(
            request, memory_type, lib.ucxx_tag_send, self._open(), pointer, length, tag.value
        )
        return UCXRequest(request)

    def tag_recv(
        self, arr: Array, tag: UCXXTag, tag_mask: UCXXTagMask = UCXXTagMaskFull
    ) -> UCXRequest:
        """Receives one message from any endpoint of the worker. It is cancelled when this endpoint
        ends. If it has ended before, the receive takes a message that has arrived."""
        self._need(_TAG, "TAG")
        pointer, length, memory_type = arr.memory(True)
        if not self.alive:
            found = self._worker.tag_probe(tag, tag_mask, remove=True)
            if found.matched:
                return self._worker.tag_recv_with_handle(arr, found)
            ended: Request[None] = Request(self._traffic, None)
            ended._status = lib.UCXX_ERR_CANCELED
            return UCXRequest(ended)
        request: Request[None] = Request(self._traffic, (arr, self))
        self._traffic.post(
            request, memory_type, lib.ucxx_tag_recv, self._worker._open(), pointer, length,
            tag.value, tag_mask.value, source=self._handle,
        )  # fmt: skip
        return _Sourced(request)

    def tag_recv_with_handle(self, arr: Array, probe_result: TagProbeResult) -> UCXRequest:
        return self._worker.tag_recv_with_handle(arr, probe_result)

    def tag_send_multi(self, arrays: tuple[Array, ...], tag: UCXXTag) -> UCXBufferRequests:
        self._need(_TAG, "TAG")
        buffers = ffi.new("ucxx_buffer_t[]", len(arrays) or 1)
        for entry, arr in zip(buffers, arrays):
            entry.data, entry.length, entry.memory_type = arr.memory(False)
        request: Request[None] = Request(self._traffic, (arrays, self))
        self._traffic.post(
            request, lib.UCXX_MEMORY_HOST, lib.ucxx_tag_send_multi, self._open(), buffers,
            len(arrays), tag.value,
        )  # fmt: skip
        return UCXBufferRequests(UCXRequest(request), len(arrays))

    def tag_recv_multi(
        self, tag: UCXXTag, tag_mask: UCXXTagMask = UCXXTagMaskFull
    ) -> UCXBufferRequests:
        self._need(_TAG, "TAG")
        request = ReceiveFrames(self._traffic, self)
        self._traffic.post(
            request, lib.UCXX_MEMORY_HOST, lib.ucxx_tag_recv_multi, self._worker._open(),
            tag.value, tag_mask.value, ffi.NULL,
            source=self._handle if self.alive else ffi.NULL,
        )  # fmt: skip
        return UCXBufferRequests(_Sourced(request))

    def stream_send(self, arr: Array) -> UCXRequest:
        self._need(_STREAM, "STREAM")
        pointer, length, memory_type = arr.memory(False)
        if not length:
            raise RuntimeError("a stream cannot send nothing")
        request: Request[None] = Request(self._traffic, (arr, self))
        self._traffic.post(
            request, memory_type, lib.ucxx_stream_send, self._open(), pointer, length
        )
        return UCXRequest(request)

    def stream_recv(self, arr: Array) -> UCXRequest:
        """Receives as many bytes as the array has. Every failure is a UCXMessageTruncatedError, as
        with UCXX; `raise_on_error` then has the reason."""
        self._need(_STREAM, "STREAM")
        pointer, length, memory_type = arr.memory(True)
        if not length:
            raise RuntimeError("a stream cannot receive nothing")
        request: Request[None] = Request(self._traffic, (arr, self))
        self._traffic.post(
            request, memory_type, lib.ucxx_stream_recv, self._open(), pointer, length
        )
        return UCXRequest(request, lib.UCXX_ERR_MESSAGE_TRUNCATED)

    def am_send(self, arr: Array) -> UCXRequest:
        self._need(_AM, "AM")
        pointer, length, memory_type = arr.memory(False)
        request: Request[None] = Request(self._traffic, (arr, self))
        self._traffic.post(
            request, memory_type, lib.ucxx_am_queue_send, self._open(), pointer, length
        )
        return UCXRequest(request)

    def am_recv(self) -> UCXRequest:
        """Receives one active message. `UCXRequest.recv_buffer` then has it.

        Unlike with UCXX, messages that wait when the peer closes are lost.
        """
        self._need(_AM, "AM")
        request = ReceiveFrames(self._traffic, self)
        self._traffic.post(
            request, lib.UCXX_MEMORY_HOST, lib.ucxx_am_queue_recv, self._open(), ffi.NULL
        )
        return _Sourced(request)

    def am_probe(self) -> bool:
        """Whether an active message waits."""
        self._need(_AM, "AM")
        if self._handle == ffi.NULL:
            return False
        return bool(lib.ucxx_am_queue_probe(self._handle, ffi.NULL) == OK)

    def _need(self, flag: int, name: str) -> None:
        if not self._flags & flag:
            raise ValueError(f"UCXContext must be created with `Feature.{name}`")

    # State.

    @property
    def handle(self) -> int:
        return self._id if self._handle != ffi.NULL else 0

    @property
    def worker_handle(self) -> int:
        return self._worker.handle

    @property
    def ucxx_ptr(self) -> int:
        raise NotImplementedError("there is no ucxx::Endpoint behind this endpoint")

    @property
    def ucxx_worker_ptr(self) -> int:
        return self._worker.ucxx_ptr

    @property
    def alive(self) -> bool:
        return bool(self._handle != ffi.NULL and lib.ucxx_endpoint_status(self._handle) == OK)

    def raise_on_error(self) -> None:
        """Raises why it has ended, unless this side has closed it."""
        status = lib.UCXX_OK if self._handle == ffi.NULL else lib.ucxx_endpoint_status(self._handle)
        if status < 0 and status != lib.UCXX_ERR_CLOSED:
            raise error(status)

    def set_close_callback(
        self,
        cb_func: typing.Callable[..., typing.Any],
        cb_args: tuple[typing.Any, ...] | None = None,
        cb_kwargs: dict[str, typing.Any] | None = None,
    ) -> None:
        """Calls `cb_func` once, when the endpoint has ended on either side."""
        self._ended.callback = lambda: cb_func(*(cb_args or ()), **(cb_kwargs or {}))

    def remove_close_callback(self) -> None:
        self._ended.callback = None

    # The end.

    def close(self) -> None:
        """Begins to close it. What was sent before arrives first."""
        if self._handle != ffi.NULL:
            request: Request[None] = Request(self._traffic, self)
            self._close(request, {})

    def close_blocking(self, period: int = 0, max_attempts: int = 1) -> None:
        """Closes it, and waits for that: `period` nanoseconds, `max_attempts` times, but not longer
        than the peer needs; see ucxx_endpoint_close. What was sent before arrives first."""
        if self._handle == ffi.NULL:
            return
        limit = min(period * max_attempts, _CLOSE_NS) or _CLOSE_NS
        request: Request[None] = Request(self._traffic, self)
        self._close(request, {"timeout": limit * _NS})
        if not request.done:
            self._traffic.wait(request, None)
        self._ended(0, 0)

    def _close(self, request: Request[None], options: dict[str, typing.Any]) -> None:
        self._traffic.post(
            request, lib.UCXX_MEMORY_HOST, lib.ucxx_endpoint_close, self._handle,
            lib.UCXX_CLOSE_FLUSH, **options,
        )  # fmt: skip

    def _open(self) -> typing.Any:
        return self._handle

    def __del__(self) -> None:
        handle = getattr(self, "_handle", ffi.NULL)
        if handle == ffi.NULL:
            return
        self._handle = ffi.NULL
        if self._worker._handle != ffi.NULL and lib.ucxx_endpoint_status(handle) == OK:
            lib.ucxx_endpoint_close(handle, lib.UCXX_CLOSE_FORCE, ffi.NULL, ffi.NULL)
        self._worker._events.forget(self._number)
        lib.ucxx_endpoint_destroy(handle)
        self._ended(0, 0)


class _Sourced(UCXRequest):
    """A receive that ends with its endpoint: UCXX cancels it then, whatever the reason."""

    __slots__ = ()

    @property
    def status(self) -> int:
        status = super().status
        return lib.UCXX_ERR_CANCELED if status in _ENDS else status


_ENDS = {
    lib.UCXX_ERR_CLOSED,
    lib.UCXX_ERR_CONNECTION_RESET,
    lib.UCXX_ERR_PEER_FAILED,
    lib.UCXX_ERR_UNREACHABLE,
    lib.UCXX_ERR_REJECTED,
}


class _End:
    """Calls the user's close callback once. The table of events refers to it, not to the endpoint,
    which stays collectable."""

    __slots__ = ("callback",)

    def __init__(self) -> None:
        self.callback: typing.Callable[[], typing.Any] | None = None

    def __call__(self, _handle: int, _status: int) -> None:
        callback, self.callback = self.callback, None
        if callback is not None:
            try:
                callback()
            except Exception:
                logger.exception("the close callback of an endpoint has failed")
