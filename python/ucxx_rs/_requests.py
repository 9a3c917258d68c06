# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Operations in progress: what a call returns, and the table that finds it when it completes.

Who touches what:
- A `Slot` belongs to one operation at a time. It has what C reads and writes for that operation:
  parameters, the information on the message, the place of the request's handle.
- `Traffic._lock` is held to end an operation, to cancel one, and to begin or leave a wait. So a
  handle is destroyed once, when the operation has ended and no thread waits with it.
- The memory of an operation is kept alive by its Request, and that by the table, until the library
  has reported the end. Nobody has to keep a Request.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import threading
import time
import typing
from threading import get_ident

from ._native import ffi, lib
from ._status import INPROGRESS, OK, Error, check, error, text

_NULL = ffi.NULL
_BATCH = 256
_FOREVER = 2**64 - 1
# A wait returns to the interpreter this often, so that Ctrl-C is noticed.
_SLICE_NS = 100_000_000
_COMPLETION = ffi.sizeof("ucxx_completion_t")
_NO_RESOURCE: int = lib.UCXX_ERR_NO_RESOURCE
_TRUNCATED: int = lib.UCXX_ERR_MESSAGE_TRUNCATED
# How many operations may complete inside `await` before the loop's other work has its turn.
_TURN = 64

# What an event hands over, by its kind.
_DESTROY: dict[int, tuple[str, typing.Callable[[typing.Any], None]]] = {
    lib.UCXX_EVENT_CONN_REQUEST: ("ucxx_conn_request_t *", lib.ucxx_conn_request_destroy),
    lib.UCXX_EVENT_AM_MESSAGE: ("ucxx_am_message_t *", lib.ucxx_am_message_destroy),
    lib.UCXX_EVENT_FETCH: ("ucxx_fetch_t *", lib.ucxx_fetch_destroy),
}

T = typing.TypeVar("T", covariant=True)


class Received(typing.NamedTuple):
    """What a receive has received."""

    #: Bytes.
    length: int
    #: The sender's tag. 0 for what has no tag.
    tag: int


class Slot:
    """What C uses of one operation. Made once, and used by one operation after another."""

    __slots__ = ("number", "params", "info", "out", "changed")

    def __init__(self, number: int, notifier: typing.Any) -> None:
        self.number = number
        self.info = ffi.new("ucxx_recv_info_t *")
        self.out = ffi.new("ucxx_request_t **")
        self.params = ffi.new("ucxx_op_params_t *")
        self.reset(notifier)

    def reset(self, notifier: typing.Any) -> None:
        lib.ucxx_op_params_init(self.params, ffi.sizeof("ucxx_op_params_t"))
        self.params.memory_type = lib.UCXX_MEMORY_HOST
        self.params.callback_arg = ffi.cast("void *", self.number)
        self.params.notifier = notifier
        self.params.recv_info = self.info
        self.changed = False


class Request(typing.Generic[T]):
    """An operation in progress: `await request`, or `request.wait()`.

    Both return the operation's result, or raise what it failed with. The memory of the operation
    is in use until then. If the awaiting task is cancelled, the operation is cancelled, and the
    task continues when the library is done with the memory: for a receive without a message at
    once, for a message that is being moved after it.
    """

    # Whether it has a length and a tag also when it ends inside its call.
    _receives = False
    __slots__ = ("_traffic", "_keep", "_slot", "_handle", "_status", "_length", "_tag",
                 "_message", "_waiters", "_threads", "__weakref__")  # fmt: skip

    def __init__(self, traffic: Traffic, keep: typing.Any) -> None:
        self._traffic = traffic
        self._keep = keep
        self._slot: Slot | None = None
        self._handle = _NULL
        self._status = INPROGRESS
        self._length = self._tag = 0
        self._message = ""
        self._waiters: list[asyncio.Future[None]] | None = None
        self._threads = 0

    @property
    def done(self) -> bool:
        """Whether it has ended, and its memory is free."""
        if self._status == INPROGRESS and asyncio._get_running_loop() is None:
            # No loop polls.
            self._traffic.drain()
        return self._status != INPROGRESS

    def result(self) -> T:
        """The result, or what it failed with. Error if it is in progress."""
        status = self._status
        if status == OK:
            return self._value()
        if status == INPROGRESS:
            raise error(lib.UCXX_ERR_BUSY, "the operation is in progress")
        failure = error(status, self._message)
        if status == _TRUNCATED:
            failure.length = self._length
        raise failure

    def exception(self) -> Error | None:
        """What it failed with; None if it did not, or is in progress."""
        if self._status in (OK, INPROGRESS):
            return None
        try:
            self.result()
        except Error as failure:
            return failure
        return None

    def cancel(self) -> None:
        """Asks for its end. It ends with Canceled, or in its own time: see ucxx_request_cancel."""
        with self._traffic._lock:
            if self._status == INPROGRESS and self._handle != _NULL:
                check(lib.ucxx_request_cancel(self._handle))
        if self._traffic.needs_kick:
            self._traffic.kick()

    def wait(self, timeout: float | None = None) -> T:
        """Waits on this thread, makes progress if the worker has no thread for it, and returns the
        result. TimeoutError after `timeout` seconds; the operation continues then."""
        if self._status == INPROGRESS:
            self._traffic.wait(self, timeout)
        return self.result()

    def __await__(self) -> typing.Generator[typing.Any, None, T]:
        if self._status == INPROGRESS or self._traffic.turn_is_over():
            yield from self._traffic.suspend(self)
        return self.result()

    def _value(self) -> T:
        """The result of an operation that has succeeded."""
        return None  # type: ignore[return-value]

    def _take(self, handle: typing.Any) -> None:
        """Takes what only the request's handle has, before it is destroyed."""

    def __repr__(self) -> str:
        state = (
            "in progress"
            if self._status == INPROGRESS
            else ("done" if self._status == OK else text(lib.ucxx_status_name(self._status)))
        )
        return f"<{type(self).__name__}: {state}>"


class Receive(Request[Received]):
    """A receive in progress. Its result has the length and the tag of the message."""

    __slots__ = ()
    _receives = True

    def _value(self) -> Received:
        return Received(self._length, self._tag)


#: How an event loop drives a worker: see _progress.py.
class Driver(typing.Protocol):
    loop: asyncio.AbstractEventLoop

    def spin(self, request: Request[typing.Any]) -> None: ...
    def kick(self) -> None: ...
    def stop(self) -> None: ...


#: Called with the handle and the status of an event, and the loop on whose thread this happens.
Target = typing.Callable[[int, int], None]


class Traffic:
    """All operations of one worker, and its events."""

    def __init__(
        self, context: typing.Any, worker: typing.Any, *, has_thread: bool, needs_kick: bool
    ) -> None:
        place = ffi.new("ucxx_notifier_t **")
        check(lib.ucxx_notifier_create(context, place))
        self.notifier = place[0]
        self.worker = worker
        self.has_thread = has_thread
        self.needs_kick = needs_kick
        self.drivers: dict[asyncio.AbstractEventLoop, Driver] = {}
        self.attach: typing.Callable[[asyncio.AbstractEventLoop], Driver]
        self._lock = threading.RLock()
        self._slots: list[Slot] = []
        self._free: list[Slot] = []
        self._table: list[Request[typing.Any] | None] = []
        self._batch = ffi.new("ucxx_completion_t[]", _BATCH)
        self._words = ffi.cast("uint64_t *", self._batch)
        self._count = ffi.new("size_t *")
        self._targets: dict[int, tuple[Target, asyncio.AbstractEventLoop | None]] = {}
        self._numbers = itertools.count(1)
        self._turn = _TURN
        # The threads in calls that must have returned before the worker is destroyed. A thread
        # enters it, and then looks whether the worker is being closed. Lists need no lock for that.
        self._inside: list[int] = []
        self._closing = False

    # Submission.

    def submit(
        self,
        request: Request[T],
        call: typing.Callable[..., int],
        *arguments: typing.Any,
        **options: typing.Any,
    ) -> None:
        """Calls an operation of the library: `call(*arguments, params, request)`."""
        thread = get_ident()
        self._inside.append(thread)
        try:
            if self._closing:
                raise error(lib.UCXX_ERR_CLOSED, "worker: has been closed")
            self._submit(request, call, arguments, options)
        finally:
            self._inside.remove(thread)

    def _submit(
        self,
        request: Request[T],
        call: typing.Callable[..., int],
        arguments: tuple[typing.Any, ...],
        options: dict[str, typing.Any],
    ) -> None:
        try:
            slot = self._free.pop()
        except IndexError:
            slot = self._new_slot()
        self._table[slot.number] = request
        try:
            if options:
                self._set_options(slot, options)
            status = call(*arguments, slot.params, slot.out)
        except Exception:
            # An argument of a wrong type, or out of range: nothing was called.
            self._give_back(slot)
            raise
        while status == _NO_RESOURCE and self.has_thread:
            # The submission queue is full. The progress thread empties it without ever waiting
            # for Python, so this ends soon.
            os.sched_yield()
            status = call(*arguments, slot.params, slot.out)
        if status == INPROGRESS:
            with self._lock:
                if request._status == INPROGRESS:
                    request._handle = slot.out[0]
                    request._slot = slot
                else:
                    # Another thread has polled its end already, and left the slot to this call.
                    self._give_back(slot)
            if self.needs_kick:
                self.kick()
            if not self.drivers and not self.has_thread:
                loop = asyncio._get_running_loop()
                if loop is not None:
                    # The first operation of this loop: it progresses from now on.
                    self.driver(loop)
            return
        if status == OK:
            if request._receives:
                request._length, request._tag = slot.info.length, slot.info.sender_tag
            request._status = OK
            request._keep = None
        self._give_back(slot)
        if status < 0:
            check(status)

    def _give_back(self, slot: Slot) -> None:
        self._table[slot.number] = None
        if slot.changed:
            slot.reset(self.notifier)
        self._free.append(slot)

    def _new_slot(self) -> Slot:
        with self._lock:
            slot = Slot(len(self._slots), self.notifier)
            self._slots.append(slot)
            self._table.append(None)
        return slot

    def _set_options(self, slot: Slot, options: dict[str, typing.Any]) -> None:
        slot.changed = True
        timeout = options.pop("timeout", None)
        if timeout is not None:
            slot.params.timeout_ns = max(1, int(timeout * 1e9))
        for name, value in options.items():
            if not hasattr(slot.params, name):
                raise TypeError(f"{name!r} is no option of an operation")
            setattr(slot.params, name, value)

    # Completion.

    def drain(self, loop: asyncio.AbstractEventLoop | None = None) -> bool:
        """Ends the operations that the notifier reports, and calls the targets of events. `loop`:
        the loop on whose thread this is. Whether there was anything."""
        events: list[tuple[int, int, int, int]] = []
        any_ended = False
        with self._lock:
            # A target may close the worker, and so may another thread.
            while self.notifier != _NULL:
                status = lib.ucxx_notifier_poll(
                    self.notifier, self._batch, _COMPLETION, _BATCH, self._count
                )
                count = self._count[0] if status == OK else 0
                if not count:
                    break
                any_ended = True
                words = ffi.unpack(self._words, count * 8)
                for at in range(0, count * 8, 8):
                    state = words[at + 4]
                    result = state & 0xFFFFFFFF
                    if result & 0x80000000:
                        result -= 1 << 32
                    kind = state >> 32
                    if kind:
                        events.append((kind, words[at], words[at + 5], result))
                    else:
                        self._end(words[at : at + 4], result, loop)
                if count < _BATCH:
                    break
        for event in events:
            self._event(*event, loop)
        return any_ended

    def _end(self, words: list[int], status: int, loop: asyncio.AbstractEventLoop | None) -> None:
        number, pointer, request_length, tag = words
        request = self._table[number]
        assert request is not None
        handle = request._handle
        if handle == _NULL:
            # Its submission has not returned yet, on another thread.
            handle = ffi.cast("ucxx_request_t *", pointer)
        request._length, request._tag = request_length, tag
        if status < 0:
            request._message = text(lib.ucxx_request_error_message(handle))
        else:
            try:
                request._take(handle)
            except Error as failure:
                status, request._message = failure.status, str(failure)
        request._handle = handle if request._threads else _NULL
        if not request._threads:
            lib.ucxx_request_destroy(handle)
        request._status = status
        request._keep = None
        if request._slot is not None:
            self._give_back(request._slot)
            request._slot = None
        waiters, request._waiters = request._waiters, None
        for waiter in waiters or ():
            wake_from(loop, waiter)

    # Events.

    def listen(self, target: Target, number: int | None = None) -> int:
        """A number to report events by: a new one, or one of before for another target. They are
        handled on the loop that runs now, if one does."""
        loop = asyncio._get_running_loop()
        if loop is not None:
            self.driver(loop)
        if number is None:
            number = next(self._numbers)
        self._targets[number] = (target, loop)
        return number

    def forget(self, number: int) -> None:
        self._targets.pop(number, None)

    def _event(
        self,
        kind: int,
        number: int,
        handle: int,
        status: int,
        loop: asyncio.AbstractEventLoop | None,
    ) -> None:
        target, its_loop = self._targets.get(number, (None, None))
        if target is None:
            # Nobody listens any more.
            if kind in _DESTROY:
                type_name, destroy = _DESTROY[kind]
                destroy(ffi.cast(type_name, handle))
            return
        if its_loop is not None and its_loop is not loop:
            try:
                its_loop.call_soon_threadsafe(target, handle, status)
                return
            except RuntimeError:
                # It has been closed. What it listened for is handled here.
                pass
        target(handle, status)

    # Waiting.

    def wait(self, request: Request[typing.Any], timeout: float | None) -> None:
        """Blocks this thread until the operation has ended."""
        deadline = None if timeout is None else time.monotonic_ns() + max(0, int(timeout * 1e9))
        with self._lock:
            if request._status != INPROGRESS:
                return
            request._threads += 1
        try:
            while request._status == INPROGRESS:
                slice_ns = _SLICE_NS
                if deadline is not None:
                    slice_ns = min(slice_ns, max(0, deadline - time.monotonic_ns()))
                # The end is reported before a waiting thread is released, so draining finds it.
                status = self.call(lib.ucxx_request_wait, request._handle, slice_ns)
                if status == lib.UCXX_ERR_FORKED:
                    check(status)
                self.drain()
                if request._status == INPROGRESS and slice_ns == 0:
                    raise TimeoutError("the operation has not ended in time; it continues")
        finally:
            with self._lock:
                request._threads -= 1
                if request._threads == 0 and request._status != INPROGRESS:
                    lib.ucxx_request_destroy(request._handle)
                    request._handle = _NULL

    def call(self, function: typing.Callable[..., int], *arguments: typing.Any) -> int:
        """A call that waits. Another thread that closes the worker waits for its end."""
        thread = get_ident()
        self._inside.append(thread)
        try:
            if not self._closing:
                return function(*arguments)
        finally:
            self._inside.remove(thread)
            loop = asyncio._get_running_loop()
            # Another thread that closes the worker may be clearing them.
            driver = self.drivers.get(loop) if loop is not None else None
            if driver is not None:
                driver.kick()
        # The thread that closes it reports the end of every operation.
        time.sleep(0.001)
        return OK

    def arm(self) -> None:
        """Makes the notifier's descriptor readable for what comes next."""
        with self._lock:
            if self.notifier != _NULL:
                lib.ucxx_notifier_arm(self.notifier)

    def driver(self, loop: asyncio.AbstractEventLoop) -> Driver:
        """What drives this worker on a loop, made by the first use."""
        found = self.drivers.get(loop)
        if found is None:
            if self._closing:
                raise error(lib.UCXX_ERR_CLOSED, "worker: has been closed")
            for old in [old for old in self.drivers if old.is_closed()]:
                del self.drivers[old]
            found = self.drivers[loop] = self.attach(loop)
        return found

    def turn_is_over(self) -> bool:
        """Whether so many awaits have found their operation ended that the loop's other work has
        to have a turn."""
        self._turn -= 1
        return self._turn < 0

    def suspend(self, request: Request[typing.Any]) -> typing.Generator[typing.Any, None, None]:
        """Waits on the running loop until the operation has ended."""
        if request._status != INPROGRESS:
            self._turn = _TURN
            yield
            return
        loop = asyncio.get_running_loop()
        driver = self.driver(loop)
        if not self.turn_is_over():
            driver.spin(request)
            if request._status != INPROGRESS:
                return
        self._turn = _TURN
        canceled: asyncio.CancelledError | None = None
        while request._status == INPROGRESS:
            waiter = loop.create_future()
            waiters = request._waiters
            if waiters is None:
                waiters = request._waiters = []
            waiters.append(waiter)
            if request._status != INPROGRESS:
                # It ended on another thread, which may not have seen the waiter.
                break
            try:
                yield from waiter
            except asyncio.CancelledError as reason:
                canceled = reason
                request.cancel()
        if canceled is not None:
            raise canceled

    def kick(self) -> None:
        """After UCX was given work that no descriptor tells of."""
        running = asyncio._get_running_loop()
        for loop, driver in list(self.drivers.items()):
            if loop is running:
                driver.kick()
            else:
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(driver.kick)

    # The end.

    def stop(self) -> None:
        """Before the worker is destroyed."""
        self._closing = True
        # Wakes threads that wait for it.
        lib.ucxx_notifier_stop(self.notifier)
        for driver in list(self.drivers.values()):
            driver.stop()
        self.drivers.clear()
        # Not for this thread itself: a signal handler may close the worker.
        own = get_ident()
        while any(thread != own for thread in list(self._inside)):
            time.sleep(0.0002)

    def finish(self) -> None:
        """After the worker was destroyed, which ended all operations: reports their ends."""
        self._targets.clear()
        self.drain()
        with self._lock:
            notifier, self.notifier = self.notifier, _NULL
            lib.ucxx_notifier_destroy(notifier)

    def __len__(self) -> int:
        """How many operations are in progress."""
        return len(self._slots) - len(self._free)


def wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def wake_from(loop: asyncio.AbstractEventLoop | None, waiter: asyncio.Future[None]) -> None:
    """Wakes a task of any loop. `loop`: the one on whose thread this is."""
    its_loop = waiter.get_loop()
    if its_loop is loop:
        wake(waiter)
    else:
        # A closed loop has no task that waits. Another thread may close it at this moment.
        with contextlib.suppress(RuntimeError):
            its_loop.call_soon_threadsafe(wake, waiter)
