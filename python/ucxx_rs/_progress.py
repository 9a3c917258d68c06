# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""How an event loop drives a worker.

    progress    who progresses UCX                 how the loop hears of ends and events
    "thread"    the library's progress thread      the notifier's descriptor is readable
    "polling"   the loop, on each of its turns     the notifier is polled after each pass
    "blocking"  the loop, while something comes,   the notifier is polled after each pass
                then when the worker's descriptor
                is readable

No Python code runs on the library's progress thread, which therefore never waits for the
interpreter's lock. A driver does not refer to the Worker: the loop refers to the driver, and a
forgotten worker must be collectable.
"""

from __future__ import annotations

import asyncio
import threading
import time
import typing

from ._native import ffi, lib
from ._requests import Request, Traffic
from ._status import OK, check

Progress = typing.Literal["thread", "polling", "blocking"]

# What an await without a thread may progress before it goes to the loop, and how often in one turn
# of the loop. A reply that is this near costs no turn of the loop.
_SPIN_NS = 20_000
_SPINS = 1


class ThreadDriver:
    """A progress thread; the loop watches the notifier's descriptor."""

    def __init__(self, traffic: Traffic, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._traffic = traffic
        place = ffi.new("int *")
        check(lib.ucxx_notifier_event_fd(traffic.notifier, place))
        self._descriptor = place[0]
        loop.add_reader(self._descriptor, self._readable)
        self._readable()

    def _readable(self) -> None:
        # If it cannot be armed there is more to poll, and the descriptor stays readable: the loop
        # calls again.
        self._traffic.drain(self.loop)
        self._traffic.arm()

    def spin(self, request: Request[typing.Any]) -> None:
        pass

    def kick(self) -> None:
        pass

    def stop(self) -> None:
        if not self.loop.is_closed():
            self.loop.remove_reader(self._descriptor)


class PollingDriver:
    """The loop progresses on every turn: the shortest latency, and one core is busy."""

    # Passes in a turn without anything: the loop's other work waits for so many at most.
    PASSES = 20

    def __init__(self, traffic: Traffic, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._traffic = traffic
        self._events = ffi.new("uint32_t *")
        self._spins = _SPINS
        self._thread = threading.get_ident()
        # Whether the loop's thread calls the worker now, and must not any more.
        self._inside = self._stopped = False
        self._next: asyncio.Handle | None = loop.call_soon(self._turn)

    def _pass(self) -> bool:
        """Progresses until there is something, or for PASSES passes. Whether there was."""
        worker, events = self._traffic.worker, self._events
        found = False
        self._inside = True
        if not self._stopped:
            for _ in range(self.PASSES):
                check(lib.ucxx_worker_progress(worker, events))
                if events[0]:
                    found = True
                    break
        self._inside = False
        return self._traffic.drain(self.loop) or found

    def _turn(self) -> None:
        self._spins = _SPINS
        self._pass()
        # What the pass has called may have closed the worker.
        if not self._stopped:
            self._next = self.loop.call_soon(self._turn)

    def spin(self, request: Request[typing.Any]) -> None:
        if self._spins <= 0:
            return
        self._inside = True
        if not self._stopped:
            lib.ucxx_request_wait(request._handle, _SPIN_NS)
        self._inside = False
        self._traffic.drain(self.loop)
        self.kick()
        if not request.done:
            self._spins -= 1

    def kick(self) -> None:
        pass

    def stop(self) -> None:
        self._stopped = True
        if self._next is not None:
            self._next.cancel()
        while self._inside and threading.get_ident() != self._thread:
            time.sleep(0.0002)


class BlockingDriver(PollingDriver):
    """No thread, and no busy core: the loop progresses while something comes, and for a short time
    after it. Then it watches the worker's descriptor among its others."""

    # How long the loop goes on without anything before it sleeps. A sleep and its end cost tens of
    # microseconds on both sides, so a reply that comes within this time comes sooner.
    IDLE_NS = 50_000

    def __init__(self, traffic: Traffic, loop: asyncio.AbstractEventLoop) -> None:
        place = ffi.new("int *")
        check(lib.ucxx_worker_event_fd(traffic.worker, place))
        self._descriptor = place[0]
        self._last = time.monotonic_ns()
        super().__init__(traffic, loop)
        loop.add_reader(self._descriptor, self._readable)

    def _turn(self) -> None:
        self._spins = _SPINS
        self._next = None
        now = time.monotonic_ns()
        found = self._pass()
        if self._stopped:
            return
        if found:
            self._last = now
        elif now - self._last > self.IDLE_NS:
            if lib.ucxx_worker_arm(self._traffic.worker) == OK:
                return
        self._next = self.loop.call_soon(self._turn)

    def _readable(self) -> None:
        if self._next is None:
            self._last = time.monotonic_ns()
            self._turn()

    def kick(self) -> None:
        # After a pass of this thread the descriptor does not tell what other threads complete,
        # until it is armed again. After arming, UCX may need another pass for newly submitted
        # work, and does not make the descriptor readable for it.
        if self._next is None:
            self._last = time.monotonic_ns()
            self._next = self.loop.call_soon(self._turn)

    def stop(self) -> None:
        super().stop()
        if not self.loop.is_closed():
            self.loop.remove_reader(self._descriptor)


DRIVERS: dict[str, type[ThreadDriver] | type[PollingDriver]] = {
    "thread": ThreadDriver,
    "polling": PollingDriver,
    "blocking": BlockingDriver,
}
MODES: dict[str, int] = {
    "thread": lib.UCXX_PROGRESS_THREAD_ADAPTIVE,
    "polling": lib.UCXX_PROGRESS_MANUAL,
    "blocking": lib.UCXX_PROGRESS_MANUAL,
}
