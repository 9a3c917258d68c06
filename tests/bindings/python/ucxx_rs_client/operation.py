# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Operations as futures, and the table that finds them when they complete."""

import asyncio
import typing

from _ucxx_rs import ffi, lib

from .status import OK, UcxxError, text

NULL = ffi.NULL
TRUNCATED = lib.UCXX_ERR_MESSAGE_TRUNCATED


class Received(typing.NamedTuple):
    """The result of a receive."""

    length: int
    tag: int


def received(_request, length, tag):
    return Received(length, tag)


def received_length(_request, length, _tag):
    return length


class Operation(asyncio.Future):
    """The future of one operation. It exists before the operation is submitted, so no completion
    can arrive too early.

    `result` makes the future's result from the request, which still exists then, and the
    reported length and tag; None for an operation without a result.

    It is done when the library is done with the buffer, never earlier. So a cancel is only a
    request: the future ends as cancelled when the library's request has ended. For a receive
    without a match that is at once; for a message that UCX is already moving it takes as long as
    without the cancel. Until then the buffer is kept alive, and must not be changed.
    """

    __slots__ = ("_keep", "_owner", "_result", "request", "_asked")

    def __init__(self, owner, keep, result, *, loop):
        super().__init__(loop=loop)
        self._owner = owner
        self._keep = keep
        self._result = result
        self.request = NULL
        self._asked = False

    def accepted(self, request):
        """The library has accepted it, and will report its completion."""
        self.request = request

    def cancel(self, msg=None):
        if self.done():
            return False
        self._asked = True
        self.hasten()
        return True

    def hasten(self):
        """Asks the library to end it early; the future reports the result."""
        if self.request != NULL:
            lib.ucxx_request_cancel(self.request)
            self._owner.delivery.submitted()

    def settle(self, status, length, tag):
        """The operation has completed. On the loop's thread."""
        value = error = None
        if status != OK:
            message = (
                text(lib.ucxx_request_error_message(self.request)) if self.request != NULL else ""
            )
            error = UcxxError(status, message, length if status == TRUNCATED else None)
        elif self._result is not None and not self._asked:
            try:
                value = self._result(self.request, length, tag)
            except Exception as failure:
                # Such as no memory. The other operations of the batch must end, too.
                error = failure
        self.let_go()
        if self.done():
            return
        if self._asked:
            super().cancel()
        elif error is None:
            self.set_result(value)
        else:
            self.set_exception(error)

    def let_go(self):
        """The library is done with the buffer, and nobody uses the request any more."""
        lib.ucxx_request_destroy(self.request)
        self.request = NULL
        self._keep = self._owner = None


class InFlight:
    """Operations in flight, by the number passed through the library as `callback_arg`.

    Only the loop's thread uses it, so it needs no lock. It keeps alive the operations, their
    buffers, and the objects that submitted them.
    """

    def __init__(self):
        self._operations = []
        self._free = []
        # Created once for each number: the number as a pointer, and the recv_info of a receive that
        # completes inside its call.
        self._slots = []

    def add(self, operation):
        """Its number, the pointer to pass, and the recv_info."""
        if self._free:
            number = self._free.pop()
            self._operations[number] = operation
        else:
            number = len(self._operations)
            self._operations.append(operation)
            self._slots.append((number, ffi.cast("void *", number), ffi.new("ucxx_recv_info_t *")))
        return self._slots[number]

    def take(self, number):
        operation = self._operations[number]
        self._operations[number] = None
        self._free.append(number)
        return operation

    def __len__(self):
        return len(self._operations) - len(self._free)

    def settle(self, completions, count):
        """Ends the futures of a batch of ucxx_completion_t."""
        for completion in completions[0:count]:
            number = int(ffi.cast("uintptr_t", completion.user_data))
            self.take(number).settle(completion.status, completion.length, completion.sender_tag)

    def abandon(self):
        """Ends them without notifying anyone, when there is no loop any more."""
        for number, operation in enumerate(self._operations):
            if operation is not None:
                self.take(number).let_go()
