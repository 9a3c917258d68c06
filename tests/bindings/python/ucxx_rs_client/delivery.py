# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""The four ways in which progress is made and completions reach the event loop.

    mode        who progresses                  how completions arrive
    polling     the loop, on every turn         the notifier is polled after each pass
    blocking    the loop, when the worker's     the notifier is polled after each pass
                descriptor is readable
    thread      the library's progress thread   the notifier's descriptor is readable
    notifier    the library's progress thread   a Python thread sleeps in ucxx_notifier_wait, and
                                                wakes the loop once a batch

In each mode completions are taken from one notifier, and futures end on the loop's thread. No
Python code runs on the library's progress thread, which therefore never waits for the interpreter's
lock. Peers' questions are put into a queue by a handler written in C (questions.c). A descriptor
wakes the loop for them; in notifier mode a second Python thread does.
"""

import collections
import threading

from _ucxx_rs import ffi, lib

from .operation import InFlight
from .status import OK, check

BATCH = 256
COMPLETION_SIZE = ffi.sizeof("ucxx_completion_t")
BATCH_TYPE = ffi.typeof("ucxx_completion_t[]")
FOREVER = 2**64 - 1


class Delivery:
    """The parts common to all modes. Must not refer to the Worker: the loop refers to this object,
    and a forgotten worker must be collectable.
    """

    progress_mode = lib.UCXX_PROGRESS_MANUAL

    def __init__(self, loop, worker, notifier):
        self.loop = loop
        self.worker = worker
        self.notifier = notifier
        self.in_flight = InFlight()
        self._batch = ffi.new(BATCH_TYPE, BATCH)
        self._count = ffi.new("size_t *")
        self.questions = None

    def start(self):
        """Before the first operation."""

    def listen(self, questions):
        """From now on peers' questions are delivered as well."""
        self.questions = questions
        self.loop.add_reader(questions.descriptor, self._asked)

    def _asked(self):
        if self.questions.wait():
            self.questions.deliver()

    def submitted(self):
        """After an operation in progress has been submitted, or cancelled."""

    def detach(self):
        """Before the worker is destroyed: nothing here touches it any more."""
        if self.questions is not None:
            self.loop.remove_reader(self.questions.descriptor)

    def finish(self):
        """After the worker has been destroyed, with all operations in flight, and the notifier was
        stopped: delivers what is left.
        """
        if self.loop.is_closed():
            self.in_flight.abandon()
        else:
            self.drain()
        if self.questions is not None:
            self.questions.end()

    def drain(self):
        """Delivers the notifier's completions."""
        while (
            lib.ucxx_notifier_poll(self.notifier, self._batch, COMPLETION_SIZE, BATCH, self._count)
            == OK
        ):
            count = self._count[0]
            self.in_flight.settle(self._batch, count)
            if count < BATCH:
                return


class Polling(Delivery):
    """Fastest, and keeps one core busy."""

    # Between two turns of the loop: its other work waits for at most so many empty passes.
    PASSES = 50

    def start(self):
        self._events = ffi.new("uint32_t *")
        self._next = self.loop.call_soon(self._turn)

    def _turn(self):
        for _ in range(self.PASSES):
            check(lib.ucxx_worker_progress(self.worker, self._events))
            if self._events[0]:
                break
        self.drain()
        self._next = self.loop.call_soon(self._turn)

    def detach(self):
        super().detach()
        self._next.cancel()


class Blocking(Delivery):
    """No thread: the loop watches the worker's descriptor among its others."""

    # After so many passes with events the loop's other work has its turn.
    PASSES = 100

    def start(self):
        self._events = ffi.new("uint32_t *")
        self._next = None
        descriptor = ffi.new("int *")
        check(lib.ucxx_worker_event_fd(self.worker, descriptor))
        self._descriptor = descriptor[0]
        self.loop.add_reader(self._descriptor, self._turn)
        self.submitted()

    def submitted(self):
        # After arming, UCX may need another pass for newly submitted work, and does not make the
        # descriptor readable for it.
        if self._next is None:
            self._next = self.loop.call_soon(self._turn)

    def _turn(self):
        if self._next is not None:
            self._next.cancel()
            self._next = None
        for _ in range(self.PASSES):
            check(lib.ucxx_worker_progress(self.worker, self._events))
            if self._events[0]:
                continue
            self.drain()
            if lib.ucxx_worker_arm(self.worker) == OK:
                return
        self.drain()
        self.submitted()

    def detach(self):
        super().detach()
        self.loop.remove_reader(self._descriptor)
        if self._next is not None:
            self._next.cancel()


class NotifierDescriptor(Delivery):
    """A progress thread; the loop watches the notifier's descriptor."""

    progress_mode = lib.UCXX_PROGRESS_THREAD_ADAPTIVE

    def start(self):
        descriptor = ffi.new("int *")
        check(lib.ucxx_notifier_event_fd(self.notifier, descriptor))
        self._descriptor = descriptor[0]
        self.loop.add_reader(self._descriptor, self._readable)
        self._readable()

    def _readable(self):
        # If it cannot be armed there is more to poll, and the descriptor stays readable: the loop
        # calls again.
        self.drain()
        lib.ucxx_notifier_arm(self.notifier)

    def detach(self):
        super().detach()
        self.loop.remove_reader(self._descriptor)


class NotifierThread(Delivery):
    """A progress thread, and a Python thread that sleeps in the library without the interpreter's
    lock; another one for questions.
    """

    progress_mode = lib.UCXX_PROGRESS_THREAD_ADAPTIVE

    def start(self):
        self._batches = collections.deque()
        self.wakeups = 0
        self._threads = []
        self._start_thread("ucxx notifier", self._run)

    def _start_thread(self, name, function):
        # A daemon: a worker that was never closed does not keep the interpreter from exiting.
        thread = threading.Thread(target=function, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def listen(self, questions):
        self.questions = questions
        self._start_thread("ucxx questions", self._run_questions)

    def _run_questions(self):
        while self.questions.wait():
            try:
                self.loop.call_soon_threadsafe(self.questions.deliver)
            except RuntimeError:
                # The loop has been closed; nobody answers any more.
                return

    def detach(self):
        # The loop watches nothing.
        pass

    def _run(self):
        polled, count = ffi.new(BATCH_TYPE, BATCH), ffi.new("size_t *")
        while lib.ucxx_notifier_wait(self.notifier, FOREVER) == OK:
            if lib.ucxx_notifier_poll(self.notifier, polled, COMPLETION_SIZE, BATCH, count) != OK:
                return
            batch = ffi.new(BATCH_TYPE, count[0])
            ffi.memmove(batch, polled, count[0] * COMPLETION_SIZE)
            self._batches.append(batch)
            self.wakeups += 1
            try:
                self.loop.call_soon_threadsafe(self._deliver)
            except RuntimeError:
                # The loop has been closed; nobody waits for these futures any more.
                return

    def _deliver(self):
        while self._batches:
            batch = self._batches.popleft()
            self.in_flight.settle(batch, len(batch))

    def finish(self):
        if self.questions is not None:
            self.questions.stop()
        for thread in self._threads:
            # The garbage collector may have called this on the thread itself.
            if thread is not threading.current_thread():
                thread.join()
        if not self.loop.is_closed():
            self._deliver()
        super().finish()


MODES = {
    "polling": Polling,
    "blocking": Blocking,
    "thread": NotifierDescriptor,
    "notifier": NotifierThread,
}
