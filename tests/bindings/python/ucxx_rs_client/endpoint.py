# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Endpoints: connections to one peer."""

import asyncio
import warnings

from _ucxx_rs import ffi, lib

from .frames import described
from .operation import received_length
from .status import UcxxError, check

NULL = ffi.NULL


class Endpoint:
    """Created by Worker.connect."""

    def __init__(self, worker, address):
        self.handle = NULL
        self._closing = None
        self.worker = worker
        place, endpoint = ffi.new("ucxx_address_t **"), ffi.new("ucxx_endpoint_t **")
        check(lib.ucxx_address_from_bytes(ffi.from_buffer(address), len(address), place))
        status = lib.ucxx_endpoint_create(worker.handle, place[0], NULL, endpoint)
        lib.ucxx_address_destroy(place[0])
        check(status)
        self.handle = endpoint[0]

    @property
    def delivery(self):
        return self.worker.delivery

    def send(self, buffer, tag):
        """Sends a message: an awaitable that completes when the buffer may be reused."""
        view = ffi.from_buffer(buffer)
        return self.worker.submit(
            lib.ucxx_tag_send, self, view, self.open_handle(), view, len(view), tag
        )

    def send_multi(self, buffers, tag):
        """Sends several buffers for one Worker.recv_multi: an awaitable that completes when all of
        them may be reused.
        """
        views = [ffi.from_buffer(buffer) for buffer in buffers]
        return self.worker.submit(
            lib.ucxx_tag_send_multi,
            self,
            views,
            self.open_handle(),
            described(views),
            len(views),
            tag,
        )

    def fetch(self, id, header, buffer, capacity=None):
        """Fetches data from the peer's handler with this id: an awaitable of the reply's length,
        which completes when the data is in the buffer.

        The header, which is copied, is the question. The reply may be as long as the buffer, or
        as `capacity`; the rest of the buffer stays unchanged. A longer one fails with
        MESSAGE_TRUNCATED, with its length in the error, and leaves the buffer unchanged.
        """
        view, question = ffi.from_buffer(buffer, require_writable=True), ffi.from_buffer(header)
        room = len(view) if capacity is None else capacity
        if not 0 <= room <= len(view):
            raise ValueError(f"capacity {room} of a buffer of {len(view)} bytes")
        arguments = (self.open_handle(), id, question, len(question), view, room)
        return self.worker.submit(lib.ucxx_am_fetch, self, view, *arguments, result=received_length)

    def flush(self):
        """Completes after every send submitted to this endpoint before."""
        return self.worker.submit(lib.ucxx_endpoint_flush, self, None, self.open_handle())

    async def close(self, *, force=False):
        """Closes the endpoint: after all sends have completed, or by force, which ends them with
        CANCELED.

        If the closing task is cancelled, the close continues by force.
        """
        if self.handle == NULL:
            return
        try:
            if self._closing is None:
                how = lib.UCXX_CLOSE_FORCE if force else lib.UCXX_CLOSE_FLUSH
                self._closing = self.worker.submit(
                    lib.ucxx_endpoint_close, self, None, self.handle, how
                )
            elif force:
                self._closing.hasten()
            await asyncio.shield(self._closing)
        except asyncio.CancelledError:
            self._closing.hasten()
            raise
        except UcxxError as error:
            # CLOSED: already closed, by its peer's death or with its worker. CANCELED: closed by
            # force meanwhile.
            if error.status not in (lib.UCXX_ERR_CLOSED, lib.UCXX_ERR_CANCELED):
                raise
        finally:
            self.let_go()

    def open_handle(self):
        if self.handle == NULL:
            raise UcxxError(lib.UCXX_ERR_CLOSED, "endpoint: has been closed")
        return self.handle

    def let_go(self):
        """Waits until it has closed, if necessary."""
        handle, self.handle = self.handle, NULL
        lib.ucxx_endpoint_destroy(handle)

    def __del__(self):
        if self.handle != NULL:
            warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self)
            self.let_go()
