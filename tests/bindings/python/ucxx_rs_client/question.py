# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Questions of fetches: how they reach the event loop, and how they are answered."""

import os
import weakref

from _ucxx_rs import ffi, lib

from .status import OK, check

NULL = ffi.NULL


class Question:
    """A peer's fetch, given to its handler: answered once, now or later. A forgotten question is
    rejected with CANCELED.
    """

    __slots__ = ("__weakref__", "_answered", "_handle", "capacity", "header", "worker")

    def __init__(self, worker, handle):
        self._handle = handle
        self._answered = False
        self.worker = worker
        length = ffi.new("size_t *")
        header = lib.ucxx_fetch_header(handle, length)
        # Copied: the header may outlive the question.
        self.header = ffi.buffer(header, length[0])[:] if length[0] else b""
        self.capacity = lib.ucxx_fetch_capacity(handle)

    @property
    def delivery(self):
        return self.worker.delivery

    def reply(self, buffer):
        """Replies with data: an awaitable that completes when the buffer may be reused.

        A reply longer than `capacity` is not sent: the other side gets MESSAGE_TRUNCATED, and its
        length.
        """
        view = ffi.from_buffer(buffer)
        operation = self.worker.submit(
            lib.ucxx_fetch_reply, self, view, self._handle, view, len(view)
        )
        self._answered = True
        return operation

    def reject(self, status):
        """Rejects with NO_ELEM, REJECTED, BUSY, CANCELED, or a status of the application:
        UCXX_ERR_APPLICATION and below.
        """
        check(lib.ucxx_fetch_reject(self._handle, status))
        self._answered = True
        self.worker.progress_soon()

    def give_up(self, status):
        """As reject, but ignores failures: it was answered already, or nobody waits any more."""
        if lib.ucxx_fetch_reject(self._handle, status) == OK:
            self._answered = True
            self.worker.progress_soon()

    def __del__(self):
        lib.ucxx_fetch_destroy(self._handle)
        loop = self.worker.delivery.loop
        if self._answered or loop.is_closed():
            return
        try:
            # The collector runs on any thread.
            loop.call_soon_threadsafe(self.worker.progress_soon)
        except RuntimeError:
            # Closed meanwhile.
            pass


class Questions:
    """A worker's questions before they reach the loop's thread, where `deliver` gives them to their
    handlers.

    Must not refer to the Worker: the loop refers to this object, and a forgotten worker must be
    collectable. The worker owns the handlers.
    """

    def __init__(self, worker):
        self._worker = weakref.ref(worker)
        self.stopped = False
        self.descriptor = os.eventfd(0, os.EFD_CLOEXEC)
        self._queue = lib.client_questions_create(self.descriptor)
        if self._queue == NULL:
            os.close(self.descriptor)
            raise MemoryError

    def listen(self, worker, id):
        check(lib.client_questions_listen(self._queue, worker, id))

    def wait(self):
        """Sleeps until there may be questions; false when stopped. On a thread of its own, or where
        the descriptor is readable.
        """
        if not self.stopped:
            os.eventfd_read(self.descriptor)
        return not self.stopped

    def stop(self):
        """Wakes the waiting thread for the last time."""
        self.stopped = True
        os.eventfd_write(self.descriptor, 1)

    def deliver(self):
        """On the loop's thread."""
        if self.stopped:
            return
        entry = lib.client_questions_take(self._queue)
        while entry != NULL:
            handle, id = entry.fetch, entry.id
            entry = lib.client_question_next(entry)
            worker = self._worker()
            if worker is None:
                lib.ucxx_fetch_destroy(handle)
            else:
                # One turn of the loop later, so that a handler that raises affects no other, and
                # the loop reports it.
                worker.delivery.loop.call_soon(hand_over, Question(worker, handle), id)

    def end(self):
        """After the worker has been destroyed, when nobody waits any more."""
        self.stopped = True
        lib.client_questions_destroy(self._queue)
        self._queue = NULL
        os.close(self.descriptor)


def hand_over(question, id):
    worker = question.worker
    if worker.closed:
        return
    handler = worker.fetch_handlers.get(id)
    if handler is None:
        question.give_up(lib.UCXX_ERR_NO_ELEM)
        return
    try:
        handler(question)
    except BaseException:
        question.give_up(lib.UCXX_ERR_REJECTED)
        raise
