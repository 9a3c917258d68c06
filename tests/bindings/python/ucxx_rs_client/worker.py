# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Workers: they submit operations, and end with `close`."""

import asyncio
import os
import warnings
import weakref

from _ucxx_rs import ffi, lib

from .context import new_struct
from .delivery import MODES
from .endpoint import Endpoint
from .frames import take_frames
from .operation import Operation, Received, received
from .question import Questions
from .status import INPROGRESS, UcxxError, check

NULL = ffi.NULL
EVERY_BIT = 2**64 - 1
NO_RESOURCE = lib.UCXX_ERR_NO_RESOURCE
RECEIVE = lib.ucxx_tag_recv


class Worker:
    """A worker of the running event loop. Use all of it on the loop's thread.

    `mode` is one of delivery.MODES. `async with`, or `await worker.close()`, closes it in an
    orderly way.
    """

    def __init__(self, context, mode="notifier", *, name=None):
        self._loop = asyncio.get_running_loop()
        self._context = context
        self.mode = mode
        kind = MODES[mode]
        params = new_struct("worker_params")
        params.progress_mode = kind.progress_mode
        kept_name = ffi.new("char[]", name.encode()) if name else NULL
        params.name = kept_name
        notifier, worker = ffi.new("ucxx_notifier_t **"), ffi.new("ucxx_worker_t **")
        check(lib.ucxx_notifier_create(context.handle, notifier))
        status = lib.ucxx_worker_create(context.handle, params, worker)
        if status < 0:
            lib.ucxx_notifier_destroy(notifier[0])
            check(status)
        self.handle = worker[0]
        self._has_thread = kind.progress_mode != lib.UCXX_PROGRESS_MANUAL
        self._endpoints = weakref.WeakSet()
        self.fetch_handlers = {}
        self._request = ffi.new("ucxx_request_t **")
        # One for all operations: the library copies them.
        self._params = new_struct("op_params")
        self._params.memory_type = lib.UCXX_MEMORY_HOST
        self._params.notifier = notifier[0]
        self.delivery = kind(self._loop, worker[0], notifier[0])
        self._end = _End(self.delivery)
        self.delivery.start()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.close()

    @property
    def address(self):
        """The bytes by which another process connects to this worker."""
        place = ffi.new("ucxx_address_t **")
        check(lib.ucxx_worker_address(self.handle, place))
        data = ffi.buffer(lib.ucxx_address_data(place[0]), lib.ucxx_address_length(place[0]))[:]
        lib.ucxx_address_destroy(place[0])
        return data

    @property
    def in_flight(self):
        """How many operations have not completed yet."""
        return len(self.delivery.in_flight)

    def connect(self, address):
        """An Endpoint to the worker with this address. The connection is made in the background."""
        self._check_open()
        endpoint = Endpoint(self, address)
        self._endpoints.add(endpoint)
        return endpoint

    def recv(self, buffer, tag, mask=EVERY_BIT, *, source=None):
        """Receives one message into a writable buffer: an awaitable of Received.

        It belongs to no endpoint; with `source` it also ends when that endpoint does.
        """
        view = ffi.from_buffer(buffer, require_writable=True)
        arguments = (RECEIVE, self, view, self.handle, view, len(view), tag, mask)
        if source is None:
            return self.submit(*arguments, result=received)
        return self._submit_from(source, *arguments, result=received)

    def recv_multi(self, tag, mask=EVERY_BIT, *, source=None):
        """Receives the buffers of one Endpoint.send_multi, however many and large they are: an
        awaitable of ReceivedFrames.

        The frames are in memory of the library, which is freed with the last of them, and of the
        views made of them. If several senders use one tag at the same time their buffers get mixed
        up: give each a tag, and receive with a mask.
        """
        arguments = (lib.ucxx_tag_recv_multi, self, None, self.handle, tag, mask, NULL)
        if source is None:
            return self.submit(*arguments, result=take_frames)
        return self._submit_from(source, *arguments, result=take_frames)

    def set_fetch_handler(self, id, handler):
        """Calls `handler(question)` on the loop for peers' fetches with this id; None removes it.

        The handler answers with the methods of Question, or keeps the question for later. If it
        raises, the question is rejected with REJECTED, and the loop's exception handler is called.
        Without a handler a fetch ends with NO_ELEM.
        """
        self._check_open()
        if handler is None:
            check(lib.ucxx_worker_set_fetch_handler(self.handle, id, NULL, NULL, NULL))
            self.fetch_handlers.pop(id, None)
            return
        if self.delivery.questions is None:
            self.delivery.listen(Questions(self))
        if id not in self.fetch_handlers:
            self.delivery.questions.listen(self.handle, id)
        self.fetch_handlers[id] = handler

    def flush(self):
        """Completes after every send submitted before."""
        return self.submit(lib.ucxx_worker_flush, self, None, self.handle)

    def _submit_from(self, source, *arguments, result):
        """As submit, for a receive that also ends with the endpoint `source`."""
        self._params.source = source.open_handle()
        try:
            return self.submit(*arguments, result=result)
        finally:
            self._params.source = NULL

    def submit(self, function, owner, keep, *arguments, result=None):
        """Calls an operation of the library: returns its future. `owner` and `keep` stay alive
        until it has completed.
        """
        self._check_open()
        delivery, params, request = self.delivery, self._params, self._request
        receives = function is RECEIVE
        operation = Operation(owner, keep, result, loop=self._loop)
        number, params.callback_arg, info = delivery.in_flight.add(operation)
        params.recv_info = info if receives else NULL
        status = function(*arguments, params, request)
        while status == NO_RESOURCE and self._has_thread:
            # The submission queue is full. The progress thread empties it without ever waiting for
            # Python, so this ends soon.
            os.sched_yield()
            status = function(*arguments, params, request)
        if status == INPROGRESS:
            operation.accepted(request[0])
            delivery.submitted()
            return operation
        delivery.in_flight.take(number)
        operation.let_go()
        check(status)
        operation.set_result(Received(info.length, info.sender_tag) if receives else None)
        return operation

    async def close(self):
        """Closes the endpoints, which completes all sends, and destroys the worker: everything else
        in flight fails with CANCELED.
        """
        if not self._end.done:
            await asyncio.gather(
                *(endpoint.close() for endpoint in list(self._endpoints)), return_exceptions=True
            )
        self.abort()

    def abort(self):
        """Destroys the worker now, with its endpoints: everything in flight fails with CANCELED.
        Takes at most about a second.
        """
        self._end()
        for endpoint in list(self._endpoints):
            endpoint.let_go()

    @property
    def closed(self):
        return self._end.done

    def progress_soon(self):
        """After giving UCX work that is no operation."""
        if not self.closed:
            self.delivery.submitted()

    def _check_open(self):
        if self._end.done:
            raise UcxxError(lib.UCXX_ERR_CLOSED, "worker: has been closed")

    def __del__(self):
        end = getattr(self, "_end", None)
        if end is None or end.done:
            return
        warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self)
        if self._loop.is_closed():
            end()
        else:
            # The collector runs on any thread; the loop's descriptors belong to its own.
            self._loop.call_soon_threadsafe(end)


class _End:
    """Destroys a worker's native half, once. Separate from Worker, so that it can outlive it."""

    def __init__(self, delivery):
        self._delivery = delivery
        self.done = False

    def __call__(self):
        if self.done:
            return
        self.done = True
        delivery = self._delivery
        delivery.detach()
        lib.ucxx_worker_destroy(delivery.worker)
        lib.ucxx_notifier_stop(delivery.notifier)
        delivery.finish()
        lib.ucxx_notifier_destroy(delivery.notifier)
