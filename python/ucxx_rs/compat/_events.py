# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Connection requests and ends of endpoints.

UCXX calls back for them on its progress thread, whatever the program does at that time. Here no
Python code runs on that thread:

- The event loop on which a listener or an endpoint was made calls back.
- Without one, but with a progress thread: a thread of Python does, which waits for events.
- Otherwise `UCXWorker.progress` does, and whatever else makes progress.
"""

from __future__ import annotations

import itertools
import logging
import os
import select
import threading
import typing

from .._native import ffi, lib
from .._status import OK
from .exceptions import check

logger = logging.getLogger("ucx")

#: Called with the handle and the status of an event.
Target = typing.Callable[[int, int], None]
_BATCH = 16
_COMPLETION = ffi.sizeof("ucxx_completion_t")


class Events:
    """The events of one worker, and the thread that waits for them."""

    def __init__(self, context: typing.Any) -> None:
        place = ffi.new("ucxx_notifier_t **")
        check(lib.ucxx_notifier_create(context, place))
        self.notifier = place[0]
        self._targets: dict[int, Target] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._batch = ffi.new("ucxx_completion_t[]", _BATCH)
        self._count = ffi.new("size_t *")
        self._thread: threading.Thread | None = None
        self._stop = -1

    def listen(self, target: Target) -> int:
        """A number to report events by."""
        number = next(self._numbers)
        self._targets[number] = target
        return number

    def forget(self, number: int) -> None:
        self._targets.pop(number, None)

    def drain(self) -> bool:
        """Calls the targets of all events. Whether there was one."""
        found = False
        while True:
            with self._lock:
                count = self._count
                status = lib.ucxx_notifier_poll(
                    self.notifier, self._batch, _COMPLETION, _BATCH, count
                )
                if status != OK or not count[0]:
                    return found
                events = [
                    (
                        int(ffi.cast("uintptr_t", one.user_data)),
                        int(ffi.cast("uintptr_t", one.handle)),
                        one.status,
                    )
                    for one in self._batch[0 : count[0]]
                ]
            found = True
            for number, handle, result in events:
                target = self._targets.get(number)
                if target is not None:
                    try:
                        target(handle, result)
                    except Exception:
                        logger.exception("a callback of UCX has failed")

    @property
    def threaded(self) -> bool:
        return self._thread is not None

    def descriptor(self) -> int:
        """Readable when there is an event, once it is armed."""
        place = ffi.new("int *")
        check(lib.ucxx_notifier_event_fd(self.notifier, place))
        return int(place[0])

    def arm(self) -> bool:
        """Whether the descriptor becomes readable with the next event."""
        return bool(lib.ucxx_notifier_arm(self.notifier) == OK)

    def start(self) -> None:
        if self._thread is None:
            self._stop = os.eventfd(0)
            self._thread = threading.Thread(
                target=self._run, args=(self.descriptor(), self._stop), name="ucxx events",
                daemon=True,
            )  # fmt: skip
            self._thread.start()

    def _run(self, descriptor: int, stop: int) -> None:
        waiting = select.poll()
        waiting.register(descriptor, select.POLLIN)
        waiting.register(stop, select.POLLIN)
        # A callback may stop this thread, and destroy the notifier.
        while self._thread is threading.current_thread():
            self.drain()
            if self._thread is threading.current_thread() and self.arm():
                waiting.poll()
        os.close(stop)

    def stop(self) -> None:
        """Ends the thread. A callback that it runs may call this."""
        thread, self._thread = self._thread, None
        if thread is not None:
            os.eventfd_write(self._stop, 1)
            if thread is not threading.current_thread():
                thread.join()

    def destroy(self) -> None:
        self.stop()
        self._targets.clear()
        with self._lock:
            handle, self.notifier = self.notifier, ffi.NULL
            lib.ucxx_notifier_destroy(handle)
