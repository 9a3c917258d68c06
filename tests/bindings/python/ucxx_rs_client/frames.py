# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""The frames of a multi-buffer message, in memory allocated by the library."""

import typing

from _ucxx_rs import ffi, lib

from .status import check


class ReceivedFrames(typing.NamedTuple):
    """The result of a multi-buffer receive. The frames are writable memoryviews."""

    frames: list
    tag: int


class _Memory:
    """The library's buffers of one message. Each frame's pointer refers to this object, so they are
    freed with the last frame.
    """

    __slots__ = ("_buffers",)

    def __init__(self, request):
        place = ffi.new("ucxx_buffers_t **")
        check(lib.ucxx_request_take_buffers(request, place))
        self._buffers = ffi.gc(place[0], lib.ucxx_buffers_destroy)

    def __call__(self, pointer):
        """ffi.gc needs something to call when a pointer is freed; the reference until then is all
        that is needed.
        """

    def frames(self):
        buffer = ffi.new("ucxx_buffer_t *")
        for index in range(lib.ucxx_buffers_count(self._buffers)):
            check(lib.ucxx_buffers_get(self._buffers, index, buffer))
            if buffer.length:
                yield memoryview(ffi.buffer(ffi.gc(buffer.data, self), buffer.length))
            else:
                yield memoryview(bytearray())


def take_frames(request, _length, tag):
    return ReceivedFrames(list(_Memory(request).frames()), tag)


def described(views):
    """A list for the library of pointers from ffi.from_buffer, which must stay alive as long as the
    library uses them.
    """
    return ffi.new("ucxx_buffer_t[]", [(view, len(view), lib.UCXX_MEMORY_HOST) for view in views])
