# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Endpoints: the way to one peer."""

import asyncio
import warnings

from _ucxx_rs import ffi, lib

from .status import UcxxError, check

NULL = ffi.NULL


class Endpoint:
    """Made by Worker.connect."""

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
        """Sends a message: an awaitable that ends when the buffer may be used again."""
        view = ffi.from_buffer(buffer)
        return self.worker.submit(lib.ucxx_tag_send, self, view, self.open_handle(), view, len(view), tag)

    def flush(self):
        """Completes after every send submitted to this endpoint before."""
        return self.worker.submit(lib.ucxx_endpoint_flush, self, None, self.open_handle())

    async def close(self, *, force=False):
        """Closes the endpoint: after what was sent has left, or by force, which cuts it short with CANCELED.

        When the task that closes is cancelled, the close goes on by force.
        """
        if self.handle == NULL:
            return
        try:
            if self._closing is None:
                how = lib.UCXX_CLOSE_FORCE if force else lib.UCXX_CLOSE_FLUSH
                self._closing = self.worker.submit(lib.ucxx_endpoint_close, self, None, self.handle, how)
            elif force:
                self._closing.hasten()
            await asyncio.shield(self._closing)
        except asyncio.CancelledError:
            self._closing.hasten()
            raise
        except UcxxError as error:
            # CLOSED: it had ended already, by its peer's death or with its worker. CANCELED: it was closed by force meanwhile.
            if error.status not in (lib.UCXX_ERR_CLOSED, lib.UCXX_ERR_CANCELED):
                raise
        finally:
            self.let_go()

    def open_handle(self):
        if self.handle == NULL:
            raise UcxxError(lib.UCXX_ERR_CLOSED, "endpoint: has been closed")
        return self.handle

    def let_go(self):
        """Waits until it has ended, if it has not yet."""
        handle, self.handle = self.handle, NULL
        lib.ucxx_endpoint_destroy(handle)

    def __del__(self):
        if self.handle != NULL:
            warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self)
            self.let_go()
