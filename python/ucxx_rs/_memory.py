# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Registered memory, and the memory of peers: put, get and atomics."""

from __future__ import annotations

import struct
import typing

from ._buffers import Buffer, one, region
from ._context import Context, constant, made
from ._handle import view_of
from ._native import ffi, lib
from ._requests import Request
from ._status import check, error

if typing.TYPE_CHECKING:
    from ._endpoint import Endpoint


class Memory:
    """Memory that peers may read and write: a buffer of the program, or `size` bytes of the
    library's. The bytes of `packed` give a peer access: `endpoint.remote(packed)`."""

    def __init__(self, context: Context, buffer: Buffer = None, *, size: int | None = None) -> None:
        if (buffer is None) == (size is None):
            raise TypeError("either a buffer or a size")
        self._context = context
        self._keep: typing.Any = None
        if size is not None:
            self.handle = made(
                "memory", lib.ucxx_memory_allocate, context.handle, size, lib.UCXX_MEMORY_HOST
            )
        else:
            memory = region(buffer, writable=True)
            self._keep = memory.keep
            self.handle = made(
                "memory", lib.ucxx_memory_register, context.handle, memory.pointer, memory.length,
                memory.memory_type,
            )  # fmt: skip

    def __len__(self) -> int:
        return int(lib.ucxx_memory_length(self.handle))

    @property
    def view(self) -> memoryview:
        """The memory, if the CPU can use it."""
        return view_of(lib.ucxx_memory_base(self.handle), len(self), self)

    @property
    def packed(self) -> bytes:
        """Access to this memory, for a peer."""
        length = ffi.new("size_t *")
        status = lib.ucxx_memory_pack(self.handle, ffi.NULL, length)
        if status != lib.UCXX_ERR_BUFFER_TOO_SMALL:
            check(status)
        place = ffi.new("char[]", length[0])
        check(lib.ucxx_memory_pack(self.handle, place, length))
        return bytes(ffi.buffer(place, length[0]))

    def __del__(self) -> None:
        handle, self.handle = getattr(self, "handle", ffi.NULL), ffi.NULL
        if handle != ffi.NULL:
            lib.ucxx_memory_destroy(handle)


_FORMATS = {4: ("<i", "<I"), 8: ("<q", "<Q")}


class Atomic(Request[int]):
    """An atomic operation in progress. Its result is the value before."""

    __slots__ = ("_place", "_format")
    _place: typing.Any
    _format: str

    def _value(self) -> int:
        return int(struct.unpack(self._format, ffi.buffer(self._place))[0])


class RemoteMemory:
    """Memory of a peer. `endpoint.remote` makes it. Offsets are in bytes from its start."""

    def __init__(self, endpoint: Endpoint, packed: bytes) -> None:
        self._endpoint = endpoint
        self.handle = ffi.NULL
        self.handle = made("rkey", lib.ucxx_rkey_unpack, endpoint.open(), packed, len(packed))

    def __len__(self) -> int:
        return int(lib.ucxx_rkey_length(self.open()))

    def open(self) -> typing.Any:
        """The handle for calls of C. It may not be used after the endpoint's worker."""
        self._endpoint.open()
        return self.handle

    def put(self, buffer: Buffer, offset: int = 0, **options: typing.Any) -> Request[None]:
        """Writes. It ends when the buffer may be used again; flush the endpoint to know that it
        has arrived."""
        return self._move(lib.ucxx_rma_put, buffer, False, offset, options)

    def get(self, buffer: Buffer, offset: int = 0, **options: typing.Any) -> Request[None]:
        """Reads as many bytes as the buffer has."""
        return self._move(lib.ucxx_rma_get, buffer, True, offset, options)

    def _move(
        self, call: typing.Callable[..., int], buffer: Buffer, writable: bool, offset: int,
        options: dict[str, typing.Any],
    ) -> Request[None]:  # fmt: skip
        keep, pointer, length = one(buffer, writable, options)
        traffic = self._endpoint.traffic
        request: Request[None] = Request(traffic, (keep, self))
        traffic.submit(request, call, self.open(), pointer, length, offset, **options)
        return request

    def atomic(
        self,
        op: typing.Literal["add", "and", "or", "xor", "swap", "cswap"],
        operand: int,
        offset: int = 0,
        *,
        compare: int | None = None,
        size: int = 8,
        **options: typing.Any,
    ) -> Atomic:
        """One atomic operation on an integer of 4 or 8 bytes. The result is the value before it."""
        if size not in _FORMATS:
            raise error(lib.UCXX_ERR_INVALID_PARAM, "atomic: size: 4 or 8 bytes")
        if (op == "cswap") != (compare is not None):
            raise TypeError('atomic: `compare` goes with "cswap", and only with it')
        which = _FORMATS[size][0 if operand < 0 or (compare or 0) < 0 else 1]
        place = ffi.new("char[]", size)
        values = [
            ffi.from_buffer(struct.pack(which, value)) if value is not None else ffi.NULL
            for value in (operand, compare)
        ]
        traffic = self._endpoint.traffic
        request = Atomic(traffic, (values, self))
        request._place, request._format = place, which
        traffic.submit(
            request, lib.ucxx_rma_atomic, self.open(), constant("ATOMIC", op), size, *values,
            place, offset, **options,
        )  # fmt: skip
        return request

    def __del__(self) -> None:
        handle, self.handle = self.handle, ffi.NULL
        if handle != ffi.NULL and self._endpoint.handle != ffi.NULL:
            lib.ucxx_rkey_destroy(handle)
