# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Operations in progress, as UCXX has them."""

from __future__ import annotations

import asyncio
import typing

from .._frames import DeviceFrame, ReceiveFrames
from .._requests import Request, Traffic
from .._status import INPROGRESS
from .exceptions import error


class UCXRequest:
    """One operation in progress. If the last reference to it goes, it is cancelled.

    - `wait` waits without keeping the event loop busy, unlike UCXX without Python futures. In
      progress mode "polling" the loop is busy anyway.
    - If the waiting task is cancelled, so is the operation. Its memory stays alive until the
      library is done with it.
    """

    __slots__ = ("_request", "_failure", "__weakref__")

    def __init__(self, request: Request[typing.Any], failure: int | None = None) -> None:
        self._request = request
        # The status that every failure of the operation is reported as; None for its own.
        self._failure = failure

    @property
    def completed(self) -> bool:
        request = self._request
        # Without a thread, what makes progress also hands out what has ended.
        if request._status == INPROGRESS and request._traffic.has_thread:
            request._traffic.drain(asyncio._get_running_loop())
        return request._status != INPROGRESS

    @property
    def status(self) -> int:
        """As ucs_status_t: 1 while it is in progress, 0 after success."""
        self.completed
        status = self._request._status
        return self._failure if status < 0 and self._failure is not None else status

    def check_error(self) -> None:
        """Raises what it failed with."""
        status = self.status
        if status < 0:
            raise error(status, self._request._message)

    @property
    def future(self) -> asyncio.Future[None] | None:
        """With Python futures, a future that is done when the operation is."""
        if not self._request._traffic.python_futures:  # type: ignore[attr-defined]
            return None
        return asyncio.ensure_future(self.wait())

    async def wait(self) -> None:
        """Waits for its end, and raises what it failed with."""
        request = self._request
        if request._status == INPROGRESS or request._traffic.turn_is_over():
            await ended(request)
        self.check_error()

    async def wait_yield(self) -> None:
        """As wait, by giving the event loop one turn after another."""
        while not self.completed:
            await asyncio.sleep(0)
        self.check_error()

    @property
    def recv_buffer(self) -> typing.Any:
        """What an active message has brought; None before the end, and for other operations."""
        if self.status == 0 and isinstance(self._request, ReceiveFrames):
            return array(self._request._frames[0])
        return None

    @property
    def ucxx_ptr(self) -> int:
        raise NotImplementedError("there is no ucxx::Request behind this request")

    def __del__(self) -> None:
        request = getattr(self, "_request", None)
        if request is not None and request._status == INPROGRESS:
            request.cancel()


async def ended(request: Request[typing.Any]) -> None:
    """Waits on the running loop until the operation has ended."""
    traffic: Traffic = request._traffic
    loop = asyncio.get_running_loop()
    driver = traffic.driver(loop)
    if request._status == INPROGRESS:
        driver.spin(request)
    if traffic.turn_is_over():
        traffic.begin_turn()  # type: ignore[attr-defined]
        await asyncio.sleep(0)
    while request._status == INPROGRESS:
        waiter = loop.create_future()
        if request._waiters is None:
            request._waiters = []
        request._waiters.append(waiter)
        if request._status != INPROGRESS:
            # It ended on another thread, which may not have seen the waiter.
            return
        try:
            await waiter
        except asyncio.CancelledError:
            request.cancel()
            raise


def array(frame: typing.Any) -> typing.Any:
    """Received memory as UCXX hands it out: an array of bytes, or memory of a device."""
    if isinstance(frame, DeviceFrame):
        return CCCLBufferWrapper(frame)
    import numpy

    return numpy.frombuffer(frame, dtype=numpy.uint8)


class CCCLBufferWrapper:
    """Received memory of a CUDA device."""

    def __init__(self, frame: DeviceFrame) -> None:
        self._frame = frame
        self.nbytes = frame.nbytes
        self.__cuda_array_interface__: dict[str, typing.Any] = frame.__cuda_array_interface__

    def copy_to_host(self, ary: typing.Any = None) -> typing.Any:
        """Copies it to `ary`, or to a new array of bytes."""
        import ctypes

        import numpy

        host: typing.Any = numpy.empty(self.nbytes, numpy.uint8) if ary is None else ary
        flat = memoryview(host).cast("B")
        address = (ctypes.c_char * flat.nbytes).from_buffer(flat)
        copy = ctypes.CDLL("libcuda.so.1").cuMemcpyDtoH_v2
        copy.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t]
        status = copy(address, self.__cuda_array_interface__["data"][0], flat.nbytes)
        if status:
            raise RuntimeError(f"cuMemcpyDtoH has failed with {status}")
        return host


class UCXBufferRequest:
    """One buffer of a multi-buffer operation."""

    __slots__ = ("_whole", "_index")

    def __init__(self, whole: UCXRequest, index: int) -> None:
        self._whole = whole
        self._index = index

    @property
    def request(self) -> UCXRequest:
        return self._whole

    @property
    def py_buffer(self) -> typing.Any:
        frames = _frames(self._whole)
        return array(frames[self._index]) if frames is not None else None


class UCXBufferRequests:
    """A multi-buffer operation in progress.

    Unlike UCXX, its buffers have no ends of their own: they end together.
    """

    __slots__ = ("_whole", "_sent")

    def __init__(self, whole: UCXRequest, sent: int = 0) -> None:
        self._whole = whole
        self._sent = sent

    @property
    def completed(self) -> bool:
        return self._whole.completed

    all_completed = completed

    @property
    def status(self) -> int:
        return self._whole.status

    @property
    def future(self) -> asyncio.Future[None] | None:
        return self._whole.future

    def check_error(self) -> None:
        self._whole.check_error()

    async def wait(self) -> None:
        await self._whole.wait()

    async def wait_yield(self) -> None:
        await self._whole.wait_yield()

    @property
    def requests(self) -> tuple[UCXRequest, ...]:
        """The operation once for each buffer; none before a receive knows how many there are."""
        frames = _frames(self._whole)
        return (self._whole,) * (self._sent if frames is None else len(frames))

    @property
    def py_buffers(self) -> list[typing.Any]:
        """What a receive has received."""
        return [array(frame) for frame in _frames(self._whole) or ()]


def _frames(whole: UCXRequest) -> list[typing.Any] | None:
    inner = whole._request
    if whole.status == 0 and isinstance(inner, ReceiveFrames):
        return inner._frames
    return None
