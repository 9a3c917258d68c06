# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Workers and listeners."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
import typing
import weakref

from .._context import dumped, made, new
from .._native import ffi, lib
from .._requests import Request
from .._status import OK, Error
from ._context import UCXAddress, UCXContext
from ._endpoint import UCXEndpoint
from ._events import Events
from ._request import UCXRequest
from ._traffic import WorkerTraffic
from ._types import (
    Feature,
    PythonRequestNotifierWaitState,
    UCXXTag,
    UCXXTagMask,
    UCXXTagMaskFull,
)
from .arr import Array
from .exceptions import check, error

logger = logging.getLogger("ucx")
_SLICE_NS = 100_000_000
# The passes of one `progress`: a peer that sends without end must not keep the caller in it.
_PASSES = 1000


class UCXWorker:
    """Moves the data of its endpoints.

    Progress is made by the calls `progress`, `progress_once` and `progress_worker_event`, or by a
    progress thread of the library. On that thread no Python code runs but the start callback.
    """

    def __init__(
        self,
        context: UCXContext,
        enable_delayed_submission: bool = False,
        enable_python_future: bool = False,
    ) -> None:
        self._handle = ffi.NULL
        self._context = context
        self._flags = context.feature_flags
        self._delayed = bool(enable_delayed_submission)
        self._futures = bool(enable_python_future)
        self._descriptor = -1
        self._start_callback: typing.Callable[[], typing.Any] | None = None
        self._notified = threading.Event()
        params = new("worker_params")
        params.delayed_submission = 1 if self._delayed else -1
        native = context._context.handle
        try:
            self._handle = made("worker", lib.ucxx_worker_create, native, params)
        except Error as failure:
            raise error(failure.status, str(failure)) from None
        self._events = Events(native)
        self._traffic = WorkerTraffic(native, self._handle, self._events, self._futures)
        self._passed = ffi.new("uint32_t *")

    @property
    def enable_delayed_submission(self) -> bool:
        return self._delayed

    @property
    def enable_python_future(self) -> bool:
        return self._futures

    @property
    def cuda_buffer_type(self) -> str:
        """Who makes memory for CUDA buffers that arrive. Here the library does, by cuMemAlloc;
        "cccl" is UCXX's name for buffers that it makes itself."""
        return "cccl" if self._context.cuda_support else "none"

    @property
    def handle(self) -> int:
        """UCP's handle of the worker."""
        return int(ffi.cast("uintptr_t", lib.ucxx_worker_native(self._handle)))

    @property
    def ucxx_ptr(self) -> int:
        raise NotImplementedError("there is no ucxx::Worker behind this worker")

    @property
    def info(self) -> str:
        return dumped(lib.ucxx_worker_dump, self._open())

    @property
    def address(self) -> UCXAddress:
        return UCXAddress.create_from_worker(self)

    # Progress.

    def init_blocking_progress_mode(self) -> None:
        """Prepares sleeping on events. There is nothing left to do: the library does it when it is
        first needed."""

    @property
    def epoll_file_descriptor(self) -> int:
        """Readable when there is something to progress, after `arm`. The running event loop also
        watches it by itself from now on, so that UCXX's "blocking" mode needs no polling."""
        if self._descriptor < 0:
            place = ffi.new("int *")
            check(lib.ucxx_worker_event_fd(self._open(), place))
            # The loop has one reader for a descriptor, and UCXX adds its own.
            self._descriptor = os.dup(place[0])
            self._traffic.needs_kick = True
            self._attach(anew=True)
        else:
            self._attach()
        return self._descriptor

    def arm(self) -> bool:
        """Whether the descriptor becomes readable with the next event."""
        return bool(lib.ucxx_worker_arm(self._open()) == OK)

    def progress(self) -> None:
        """Makes progress until there is nothing to do."""
        traffic = self._traffic
        if not traffic.has_thread:
            worker, passed, make = self._handle, self._passed, lib.ucxx_worker_progress
            for _ in range(_PASSES):
                status = make(worker, passed)
                if status < 0:
                    check(status)
                if not passed[0]:
                    break
        if not self._futures:
            traffic.drain(asyncio._get_running_loop())

    def progress_once(self) -> bool:
        """Makes one pass. Whether there was something to do."""
        if self._traffic.has_thread:
            return False
        check(lib.ucxx_worker_progress(self._open(), self._passed))
        found = bool(self._passed[0])
        return self._traffic.drain(asyncio._get_running_loop()) or found

    def progress_worker_event(self, epoll_timeout: int = -1) -> None:
        """Makes progress, and waits for an event first if there is nothing to do. `epoll_timeout`
        in milliseconds; -1 waits without a limit."""
        if self._traffic.has_thread:
            return
        deadline = None if epoll_timeout < 0 else time.monotonic_ns() + epoll_timeout * 1_000_000
        loop = asyncio._get_running_loop()
        worker = self._open()
        found = self._traffic.drain(loop) or self.progress_once()
        # Without that feature UCX cannot wait, and the caller polls.
        while not found and self._flags & Feature.WAKEUP.value:
            left = _SLICE_NS
            if deadline is not None:
                left = min(left, deadline - time.monotonic_ns())
                if left <= 0:
                    return
            status = lib.ucxx_worker_wait(worker, left)
            if status != lib.UCXX_ERR_TIMED_OUT:
                check(status)
                found = True
            self._traffic.drain(loop)

    def set_progress_thread_start_callback(
        self,
        cb_func: typing.Callable[..., typing.Any],
        cb_args: tuple[typing.Any, ...] | None = None,
        cb_kwargs: dict[str, typing.Any] | None = None,
    ) -> None:
        """Calls `cb_func` on each progress thread when it has started, for example to make a CUDA
        context current there."""
        self._start_callback = lambda: cb_func(*(cb_args or ()), **(cb_kwargs or {}))

    def start_progress_thread(self, polling_mode: bool = False, epoll_timeout: int = -1) -> None:
        """Starts a progress thread. Without `polling_mode` it sleeps while nothing comes, without
        a limit: `epoll_timeout` has no meaning here."""
        mode = (
            lib.UCXX_PROGRESS_THREAD_POLLING if polling_mode else lib.UCXX_PROGRESS_THREAD_ADAPTIVE
        )
        status = lib.ucxx_worker_start_progress_thread(self._open(), mode)
        if status == lib.UCXX_ERR_ALREADY_EXISTS:
            return
        check(status)
        self._traffic.has_thread = True
        if self._start_callback is not None:
            callback = ffi.callback("void(void *)", lambda _: self._started())
            check(lib.ucxx_worker_run_pre(self._handle, callback, ffi.NULL, 2**64 - 1))
        self._attach(anew=True)

    def _started(self) -> None:
        try:
            if self._start_callback is not None:
                self._start_callback()
        except ImportError as failure:
            # UCXX's own callback needs cuda-core. Without it there is no CUDA to prepare.
            logger.debug("the start callback of the progress thread: %s", failure)
        except Exception:
            logger.exception("the start callback of the progress thread has failed")

    def stop_progress_thread(self) -> None:
        if self._traffic.has_thread:
            self._events.stop()
            self._traffic.has_thread = False
            lib.ucxx_worker_stop_progress_thread(self._open())

    def _attach(self, anew: bool = False) -> None:
        """Has the running event loop, if there is one, drive this worker; `anew`, as the progress
        mode of now needs it."""
        loop = asyncio._get_running_loop()
        if loop is not None:
            old = self._traffic.drivers.pop(loop, None) if anew else None
            if old is not None:
                old.stop()
            self._traffic.driver(loop)

    def _expect_events(self) -> None:
        """Has the running event loop call back for events, or a thread if there is none."""
        self._attach()
        if self._traffic.has_thread and not self._traffic.has_loop:
            self._events.start()

    # Python futures: UCXX's notifier thread waits for ends, and has the event loop handle them.

    def populate_python_futures_pool(self) -> None:
        """Has no effect: a future is made when somebody waits."""

    def clear_python_futures_pool(self) -> None:
        """Has no effect; see populate_python_futures_pool."""

    def wait_request_notifier(self, period_ns: int = 0) -> PythonRequestNotifierWaitState:
        """Waits until an operation has ended, `period_ns` nanoseconds at most; 0 waits without a
        limit."""
        deadline = time.monotonic_ns() + period_ns if period_ns else None
        while not self._notified.is_set():
            left = _SLICE_NS
            if deadline is not None:
                left = min(left, deadline - time.monotonic_ns())
                if left <= 0:
                    return PythonRequestNotifierWaitState.Timeout
            if lib.ucxx_notifier_wait(self._traffic.notifier, left) == OK:
                return PythonRequestNotifierWaitState.Ready
        self._notified.clear()
        return PythonRequestNotifierWaitState.Shutdown

    def run_request_notifier(self) -> None:
        """Ends what has ended, on the running event loop."""
        self._traffic.drain(asyncio._get_running_loop())

    def stop_request_notifier_thread(self) -> None:
        """Ends the present wait_request_notifier, or the next one, with Shutdown."""
        self._notified.set()

    # Operations.

    def tag_recv(
        self, arr: Array, tag: UCXXTag, tag_mask: UCXXTagMask = UCXXTagMaskFull
    ) -> UCXRequest:
        """Receives one message by its tag, from any endpoint."""
        self._need_tag()
        pointer, length, memory_type = arr.memory(True)
        request: Request[None] = Request(self._traffic, (arr, self))
        self._traffic.post(
            request, memory_type, lib.ucxx_tag_recv, self._open(), pointer, length,
            tag.value, tag_mask.value,
        )  # fmt: skip
        return UCXRequest(request)

    def tag_probe(
        self, tag: UCXXTag, tag_mask: UCXXTagMask = UCXXTagMaskFull, remove: bool = False
    ) -> TagProbeResult:
        """Whether a message with this tag waits. With `remove` it is taken out of matching, and
        `tag_recv_with_handle` receives it."""
        self._need_tag()
        if not self._traffic.has_thread:
            self.progress()
        info = ffi.new("ucxx_recv_info_t *")
        place = ffi.new("ucxx_tag_message_t **") if remove else ffi.NULL
        status = lib.ucxx_tag_probe(self._open(), tag.value, tag_mask.value, info, place)
        if status == lib.UCXX_ERR_NO_MESSAGE:
            return TagProbeResult()
        check(status)
        return TagProbeResult(self, info, place[0] if remove else ffi.NULL)

    def tag_recv_with_handle(self, arr: Array, probe_result: TagProbeResult) -> UCXRequest:
        """Receives the message that a probe has removed."""
        self._need_tag()
        message = probe_result._message
        if message == ffi.NULL:
            raise ValueError("the probe has removed no message")
        pointer, length, memory_type = arr.memory(True)
        request: Request[None] = Request(self._traffic, (arr, probe_result, self))
        self._traffic.post(
            request, memory_type, lib.ucxx_tag_message_recv, message, pointer, length
        )
        return UCXRequest(request)

    def cancel_inflight_requests(self, period: int = 0, max_attempts: int = 1) -> int:
        """Cancels all operations, and returns how many."""
        count = ffi.new("size_t *")
        check(lib.ucxx_worker_cancel_all(self._open(), count))
        self.progress()
        return int(count[0])

    def _need_tag(self) -> None:
        if not self._flags & Feature.TAG.value:
            raise ValueError("UCXContext must be created with `Feature.TAG`")

    # Endpoints.

    def create_endpoint_from_hostname(
        self, ip_address: str, port: int, endpoint_error_handling: bool
    ) -> UCXEndpoint:
        return UCXEndpoint.create(self, ip_address, port, endpoint_error_handling)

    def create_endpoint_from_worker_address(
        self, address: UCXAddress, endpoint_error_handling: bool
    ) -> UCXEndpoint:
        return UCXEndpoint.create_from_worker_address(self, address, endpoint_error_handling)

    # The end.

    def _open(self) -> typing.Any:
        return self._handle

    def __del__(self) -> None:
        handle = getattr(self, "_handle", ffi.NULL)
        if handle == ffi.NULL:
            return
        self._handle = ffi.NULL
        self._events.stop()
        self._traffic.stop()
        lib.ucxx_worker_destroy(handle)
        self._traffic.finish()
        self._events.destroy()
        if self._descriptor >= 0:
            os.close(self._descriptor)


class TagProbeResult:
    """What a probe has found."""

    __slots__ = ("_worker", "_info", "_message")

    def __init__(
        self, worker: UCXWorker | None = None, info: typing.Any = None, message: typing.Any = None
    ) -> None:
        # The message must end before its worker.
        self._worker = worker
        self._info = info
        self._message = ffi.NULL if message is None else message

    @property
    def matched(self) -> bool:
        return self._info is not None

    @property
    def sender_tag(self) -> UCXXTag:
        return UCXXTag(self._found().sender_tag)

    @property
    def length(self) -> int:
        return int(self._found().length)

    @property
    def handle(self) -> int | None:
        """Identifies the message, if the probe has removed it."""
        self._found()
        return int(ffi.cast("uintptr_t", self._message)) or None

    def _found(self) -> typing.Any:
        if self._info is None:
            raise AttributeError("No message was matched")
        return self._info

    def __del__(self) -> None:
        message = getattr(self, "_message", ffi.NULL)
        if message != ffi.NULL:
            lib.ucxx_tag_message_destroy(message)

    def __repr__(self) -> str:
        if not self.matched:
            return "TagProbeResult(matched=False)"
        return f"TagProbeResult(matched=True, sender_tag={self.sender_tag}, length={self.length})"


class UCXListener:
    """Listens at a port, on all interfaces. `create` makes it. It ends with its last reference."""

    _handle: typing.Any
    _worker: UCXWorker
    _requests: dict[int, typing.Any]
    _number: int

    def __init__(self) -> None:
        raise TypeError("UCXListener cannot be instantiated directly.")

    @classmethod
    def create(
        cls,
        worker: UCXWorker,
        port: int,
        cb_func: typing.Callable[..., typing.Any],
        cb_args: tuple[typing.Any, ...] | None = None,
        cb_kwargs: dict[str, typing.Any] | None = None,
        deliver_endpoint: bool = False,
    ) -> UCXListener:
        """Calls `cb_func` with each connection request, or with `deliver_endpoint` with the
        endpoint of it."""
        self = object.__new__(cls)
        self._handle = ffi.NULL
        self._worker = worker
        self._requests = {}
        args, kwargs = cb_args or (), cb_kwargs or {}
        this = weakref.ref(self)

        def requested(handle: int, _status: int) -> None:
            listener = this()
            request = ffi.cast("ucxx_conn_request_t *", handle)
            if listener is None:
                lib.ucxx_conn_request_destroy(request)
                return
            listener._requests[handle] = request
            if deliver_endpoint:
                endpoint = UCXEndpoint.create_from_conn_request(listener, handle, True)
                cb_func(endpoint, *args, **kwargs)
            else:
                cb_func(handle, *args, **kwargs)

        self._number = worker._events.listen(requested)
        params = new("listener_params")
        host = ffi.new("char[]", b"0.0.0.0")
        params.host, params.port = host, port
        params.notifier = worker._events.notifier
        params.on_connect_arg = ffi.cast("void *", self._number)
        try:
            self._handle = made("listener", lib.ucxx_listener_create, worker._open(), params)
        except Error as failure:
            worker._events.forget(self._number)
            raise error(failure.status, str(failure)) from None
        worker._expect_events()
        return self

    def create_endpoint_from_conn_request(
        self, conn_request: int, endpoint_error_handling: bool
    ) -> UCXEndpoint:
        return UCXEndpoint.create_from_conn_request(self, conn_request, endpoint_error_handling)

    def _take(self, conn_request: int) -> typing.Any:
        """The connection request that a callback was called with. The caller destroys it."""
        try:
            return self._requests.pop(conn_request)
        except KeyError:
            raise ValueError("there is no such connection request") from None

    @property
    def enable_python_future(self) -> bool:
        return self._worker.enable_python_future

    @property
    def ip(self) -> str:
        return "0.0.0.0"

    @property
    def port(self) -> int:
        return int(lib.ucxx_listener_port(self._handle))

    @property
    def ucxx_ptr(self) -> int:
        raise NotImplementedError("there is no ucxx::Listener behind this listener")

    def __del__(self) -> None:
        handle = getattr(self, "_handle", ffi.NULL)
        if handle == ffi.NULL:
            return
        self._handle = ffi.NULL
        self._worker._events.forget(self._number)
        for request in self._requests.values():
            lib.ucxx_conn_request_destroy(request)
        if self._worker._handle != ffi.NULL:
            lib.ucxx_listener_destroy(handle)
