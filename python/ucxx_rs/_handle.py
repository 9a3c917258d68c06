# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""What objects with a handle of C have in common, and views of C's memory."""

from __future__ import annotations

import typing

from ._native import ffi, lib
from ._status import error

Own = typing.TypeVar("Own", bound="Closable")


class Closable:
    """An object with a handle until it is closed: by `close`, by the end of a `with` block, or
    when it is forgotten."""

    #: What errors call it.
    _what: typing.ClassVar[str]
    handle: typing.Any = ffi.NULL

    def open(self) -> typing.Any:
        """The handle for calls of C, while there is one."""
        if self.handle == ffi.NULL:
            raise error(lib.UCXX_ERR_CLOSED, f"{self._what}: has been closed")
        return self.handle

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self: Own) -> Own:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if self.handle != ffi.NULL:
            self.close()


def view_of(data: typing.Any, size: int, owner: typing.Any) -> memoryview:
    """Memory of C as bytes. The view, and what is made of it, keeps `owner` alive."""
    if not size:
        return memoryview(bytearray())
    pointer = ffi.gc(ffi.cast("char *", data), lambda _pointer: owner)
    return memoryview(ffi.buffer(pointer, size)).cast("B")
