# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""The operations of a worker whose progress UCXX's Python code drives, or a progress thread."""

from __future__ import annotations

import asyncio
import typing

from .._native import lib
from .._progress import BlockingDriver, ThreadDriver
from .._requests import _TURN, Driver, Request, Traffic
from .._status import Error
from ._events import Events


class NoDriver:
    """An event loop that does not drive the worker: a task of UCXX's calls its `progress`."""

    def __init__(self, traffic: Traffic, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._traffic = traffic

    def spin(self, request: Request[typing.Any]) -> None:
        # The reply is often near. One pass costs less than a turn of the loop.
        if not self._traffic.has_thread:
            lib.ucxx_request_wait(request._handle, 0)
            self._traffic.drain(self.loop)

    def kick(self) -> None:
        pass

    def stop(self) -> None:
        pass


class EventReader:
    """Has a loop call back for events."""

    def __init__(self, events: Events, loop: asyncio.AbstractEventLoop) -> None:
        self._events = events
        self._loop = loop
        self._descriptor = events.descriptor()
        loop.add_reader(self._descriptor, self._readable)
        self._readable()

    def _readable(self) -> None:
        # If it cannot be armed, the descriptor stays readable, and the loop calls again.
        self._events.drain()
        self._events.arm()

    def stop(self) -> None:
        if not self._loop.is_closed():
            self._loop.remove_reader(self._descriptor)


class LoopDriver(ThreadDriver):
    """A progress thread; the loop watches for ends of operations and for events."""

    def __init__(self, traffic: WorkerTraffic, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(traffic, loop)
        self._reader = EventReader(traffic.events, loop)

    def stop(self) -> None:
        super().stop()
        self._reader.stop()


class FutureDriver(NoDriver):
    """A progress thread; a notifier thread watches for ends, and the loop for events."""

    def __init__(self, traffic: WorkerTraffic, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(traffic, loop)
        self._reader = EventReader(traffic.events, loop)

    def stop(self) -> None:
        self._reader.stop()


class WorkerTraffic(Traffic):
    """All operations of one worker."""

    def __init__(
        self, context: typing.Any, worker: typing.Any, events: Events, python_futures: bool
    ) -> None:
        super().__init__(context, worker, has_thread=False, needs_kick=False)
        self.events = events
        self.python_futures = python_futures
        self.attach = self._attach

    def _attach(self, loop: asyncio.AbstractEventLoop) -> Driver:
        if self.has_thread:
            return (FutureDriver if self.python_futures else LoopDriver)(self, loop)
        # A worker whose descriptor is in use sleeps; see UCXWorker.epoll_file_descriptor.
        if self.needs_kick and not self.python_futures:
            return BlockingDriver(self, loop)
        return NoDriver(self, loop)

    @property
    def has_loop(self) -> bool:
        """Whether a loop watches for events."""
        return any(
            isinstance(driver, (LoopDriver, FutureDriver)) and not loop.is_closed()
            for loop, driver in self.drivers.items()
        )

    def drain(self, loop: asyncio.AbstractEventLoop | None = None) -> bool:
        found = super().drain(loop)
        if not self.events.threaded and self.events.drain():
            found = True
        return found

    def post(
        self,
        request: Request[typing.Any],
        memory_type: int,
        call: typing.Callable[..., int],
        *arguments: typing.Any,
        **options: typing.Any,
    ) -> None:
        """As submit, but an error of the call becomes the end of the request."""
        if memory_type != lib.UCXX_MEMORY_HOST:
            options["memory_type"] = memory_type
        try:
            self.submit(request, call, *arguments, **options)
        except Error as failure:
            request._message = str(failure)
            request._keep = None
            request._status = failure.status

    def begin_turn(self) -> None:
        self._turn = _TURN
