# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""What handlers get: active messages, and peers' fetches."""

from __future__ import annotations

import typing

from ._buffers import Buffer, one
from ._context import made
from ._handle import view_of
from ._native import ffi, lib
from ._requests import Receive, Request
from ._status import check, error

if typing.TYPE_CHECKING:
    from ._endpoint import Endpoint
    from ._worker import Worker


class _Arrived:
    """What a peer has sent to a handler. It is given back when the handler has ended, unless the
    handler keeps it (`keep()`), and then when it is no longer used."""

    _destroy: typing.ClassVar[typing.Callable[[typing.Any], None]]

    def __init__(self, worker: Worker, handle: typing.Any) -> None:
        self._worker = worker
        self.handle = handle
        # Given back with the last view of its data.
        self._owner: typing.Any = ffi.gc(handle, type(self)._destroy)
        self._kept = False

    def keep(self) -> typing.Any:
        """Keeps it beyond the end of its handler. Returns it."""
        self._kept = True
        return self

    def open(self) -> typing.Any:
        if self.handle == ffi.NULL:
            raise error(lib.UCXX_ERR_CLOSED, f"{type(self).__name__}: used after its handler")
        return self.handle

    def close(self) -> None:
        """Gives it back, when no view of its data is left."""
        self.handle, self._owner = ffi.NULL, None

    def handled(self, _failure: BaseException | None) -> None:
        if not self._kept:
            self.close()


class Message(_Arrived):
    """An active message. Its memory is the library's: copy what has to live longer."""

    _destroy = staticmethod(lib.ucxx_am_message_destroy)

    def __init__(self, worker: Worker, handle: int) -> None:
        super().__init__(worker, ffi.cast("ucxx_am_message_t *", handle))

    @property
    def header(self) -> bytes:
        length = ffi.new("size_t *")
        return _bytes(lib.ucxx_am_message_header(self.open(), length), length[0])

    def __len__(self) -> int:
        """Bytes of the data."""
        return int(lib.ucxx_am_message_length(self.open()))

    @property
    def data(self) -> memoryview | None:
        """The data, if it arrived with the message; None if it waits at the sender: `recv` it. The
        view may be used until the handler ends, or `keep` has been called."""
        data = lib.ucxx_am_message_data(self.open())
        if data == ffi.NULL:
            return memoryview(b"") if not len(self) else None
        return view_of(data, len(self), self._owner).toreadonly()

    def recv(self, buffer: Buffer, **options: typing.Any) -> Receive:
        """Receives the data into a buffer, wherever it is."""
        keep, pointer, length = one(buffer, True, options)
        traffic = self._worker.traffic
        request = Receive(traffic, (keep, self))
        self._kept = True
        traffic.submit(
            request, lib.ucxx_am_message_recv, self.open(), pointer, length,
            **options,
        )  # fmt: skip
        return request

    @property
    def reply(self) -> Endpoint | None:
        """An endpoint to the sender, to answer by; None if the sender is gone."""
        from ._endpoint import Endpoint

        borrowed = lib.ucxx_am_message_reply(self.open())
        if borrowed == ffi.NULL:
            return None
        return Endpoint(self._worker, made("endpoint", lib.ucxx_endpoint_retain, borrowed), None)


class Fetch(_Arrived):
    """A peer's question: it waits for a reply, or a rejection."""

    _destroy = staticmethod(lib.ucxx_fetch_destroy)

    def __init__(self, worker: Worker, handle: int) -> None:
        super().__init__(worker, ffi.cast("ucxx_fetch_t *", handle))
        self._answered = False

    @property
    def header(self) -> bytes:
        length = ffi.new("size_t *")
        return _bytes(lib.ucxx_fetch_header(self.open(), length), length[0])

    @property
    def data(self) -> bytes:
        """What went with the question."""
        length = ffi.new("size_t *")
        return _bytes(lib.ucxx_fetch_data(self.open(), length), length[0])

    @property
    def capacity(self) -> int:
        """The largest reply that the peer has a buffer for, in bytes."""
        return int(lib.ucxx_fetch_capacity(self.open()))

    def reply(self, buffer: Buffer, **options: typing.Any) -> Request[None]:
        """Answers. The Request ends when the buffer may be used again."""
        keep, pointer, length = one(buffer, False, options)
        traffic = self._worker.traffic
        request: Request[None] = Request(traffic, (keep, self))
        traffic.submit(request, lib.ucxx_fetch_reply, self.open(), pointer, length, **options)
        self._answered = True
        return request

    def reject(self, status: int = lib.UCXX_ERR_REJECTED) -> None:
        """Refuses: the peer's fetch fails with this status. -1000 and lower are the program's own:
        ApplicationError."""
        check(lib.ucxx_fetch_reject(self.open(), status))
        self._answered = True

    def keep(self) -> Fetch:
        """Keeps it, to be answered later."""
        self._kept = True
        return self

    @property
    def is_handled(self) -> bool:
        """Whether it was replied to, rejected or kept."""
        return self._answered or self._kept

    def handled(self, failure: BaseException | None) -> None:
        if failure is not None and not self._answered and self.handle != ffi.NULL:
            lib.ucxx_fetch_reject(self.handle, lib.UCXX_ERR_REJECTED)
        super().handled(failure)


def _bytes(data: typing.Any, length: int) -> bytes:
    return bytes(ffi.buffer(ffi.cast("char *", data), length)) if length else b""
