# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Received buffers in memory of the library, without a copy."""

from __future__ import annotations

import typing

from ._native import ffi, lib
from ._requests import Request
from ._status import check

_CUDA: int = lib.UCXX_MEMORY_CUDA
_NUMBERS = ffi.typeof("uint64_t[]")

#: What a multi-buffer receive has received: a memoryview each for memory that the CPU can read,
#: a `DeviceFrame` for memory of a GPU.
Frames = typing.List[typing.Any]


class DeviceFrame:
    """Memory of a CUDA device, by `__cuda_array_interface__`: CuPy, Numba and PyTorch take it."""

    def __init__(self, address: int, length: int, keep: typing.Any) -> None:
        self._keep = keep
        self.nbytes = length
        self.__cuda_array_interface__ = {
            "shape": (length,), "typestr": "|u1", "data": (address, False), "version": 3,
        }  # fmt: skip


def taken(handle: typing.Any) -> Frames:
    """The buffers that a request has received."""
    place = ffi.new("ucxx_buffers_t **")
    check(lib.ucxx_request_take_buffers(handle, place))
    # Destroyed with the last frame, and the last view of one.
    buffers = ffi.gc(place[0], lib.ucxx_buffers_destroy)

    def keep(_pointer: typing.Any) -> typing.Any:
        # The destructor of each frame's pointer, so the pointer keeps the buffers; a memoryview
        # keeps the pointer.
        return buffers

    count = lib.ucxx_buffers_count(buffers)
    numbers = ffi.new(_NUMBERS, 3 * count)
    if lib.frames_describe(buffers, count, numbers) < count:
        return [_frame(buffers, index, keep) for index in range(count)]
    # Small frames follow each other in one block: a slice of one view costs a third of a view.
    entries = iter(ffi.unpack(numbers, 3 * count))
    frames: Frames = []
    whole, start = memoryview(bytearray()), 0
    for address, length, run in zip(entries, entries, entries):
        if run:
            pointer = ffi.gc(ffi.cast("char *", address), keep)
            whole, start = memoryview(ffi.buffer(pointer, run)), address
        at = address - start if length else 0
        frames.append(whole[at : at + length])
    return frames


def _frame(
    buffers: typing.Any, index: int, keep: typing.Callable[[typing.Any], typing.Any]
) -> typing.Any:
    got = ffi.new("ucxx_buffer_t *")
    check(lib.ucxx_buffers_get(buffers, index, got))
    length = got.length
    if not length:
        return memoryview(bytearray())
    if got.memory_type == _CUDA:
        return DeviceFrame(int(ffi.cast("uintptr_t", got.data)), length, buffers)
    return memoryview(ffi.buffer(ffi.gc(got.data, keep), length))


class ReceiveFrames(Request[Frames]):
    """A multi-buffer receive in progress. Its result is the list of frames."""

    __slots__ = ("_frames",)

    def _take(self, handle: typing.Any) -> None:
        self._frames = taken(handle)

    def _value(self) -> Frames:
        return self._frames


class FetchFrames(Request[memoryview]):
    """A fetch in progress whose reply the library makes memory for. Its result is the reply."""

    __slots__ = ("_frames",)

    def _take(self, handle: typing.Any) -> None:
        self._frames = taken(handle)

    def _value(self) -> memoryview:
        return typing.cast(memoryview, self._frames[0])
