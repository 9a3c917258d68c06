# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""UCXX's `ucxx._lib.arr`: memory of this process or of a GPU, and its layout."""

from __future__ import annotations

import typing

from .._native import ffi, lib

_HOST: int = lib.UCXX_MEMORY_HOST
_CUDA: int = lib.UCXX_MEMORY_CUDA


class Array:
    """The memory of an object: of the buffer protocol, `__cuda_array_interface__` or
    `__array_interface__`. No copy is made.

    Unlike UCXX, transfers refuse memory that is not contiguous, and receives refuse memory that is
    read-only.
    """

    __slots__ = ("obj", "cuda", "readonly", "itemsize", "ndim", "shape", "strides", "_view",
                 "_pointer", "_nbytes_")  # fmt: skip

    def __init__(self, obj: typing.Any) -> None:
        self.obj = obj
        self._pointer: typing.Any = None
        interface = getattr(obj, "__cuda_array_interface__", None)
        self.cuda = interface is not None
        if interface is None:
            try:
                view = memoryview(obj)
            except (TypeError, ValueError):
                interface = getattr(obj, "__array_interface__", None)
                if interface is None:
                    raise
            else:
                self._view: typing.Any = view
                self.readonly = view.readonly
                self.itemsize = view.itemsize
                self.ndim = view.ndim
                self.shape = view.shape or ()
                self.strides = view.strides or ()
                self._nbytes_ = view.nbytes
                return
        self._view = obj
        address, self.readonly = interface["data"]
        self._pointer = ffi.cast("char *", address or 0)
        self.itemsize = int(interface["typestr"][2:].partition("[")[0])
        self.shape = tuple(interface["shape"])
        self.ndim = len(self.shape)
        strides = interface.get("strides")
        self.strides = _packed(self.shape, self.itemsize) if strides is None else tuple(strides)
        self._nbytes_ = self.itemsize
        for extent in self.shape:
            self._nbytes_ *= extent

    @property
    def nbytes(self) -> int:
        return self._nbytes_

    @property
    def c_contiguous(self) -> bool:
        """Whether the last dimension is the closest in memory, without gaps."""
        return _follows(self.shape, self.strides, self.itemsize)

    @property
    def f_contiguous(self) -> bool:
        """Whether the first dimension is the closest in memory, without gaps."""
        return _follows(self.shape[::-1], self.strides[::-1], self.itemsize)

    @property
    def contiguous(self) -> bool:
        return self.c_contiguous or self.f_contiguous

    @property
    def ptr(self) -> int:
        """The address of the first byte."""
        return int(ffi.cast("uintptr_t", self._pointer or self._address()))

    def _address(self) -> typing.Any:
        view = self._view
        if not view.c_contiguous:
            if not view.f_contiguous:
                raise ValueError("the array is not contiguous; make a copy that is")
            # The same memory in the other order, which the interface to C takes.
            import numpy

            view = numpy.asarray(view).T
        return ffi.from_buffer("char[]", view)

    def memory(self, writable: bool) -> tuple[typing.Any, int, int]:
        """What C needs: address, length in bytes, type of memory. The object keeps it alive."""
        if writable and self.readonly:
            raise ValueError("the buffer is read-only")
        pointer = self._pointer
        if pointer is None:
            pointer = self._pointer = self._address()
        elif self.cuda and not self.contiguous:
            raise ValueError("the array is not contiguous; make a copy that is")
        return pointer, self._nbytes_, _CUDA if self.cuda else _HOST


def asarray(obj: typing.Any) -> Array:
    """The Array of an object, or the object if it is one."""
    return obj if isinstance(obj, Array) else Array(obj)


def _packed(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """The strides of an array in C order without gaps."""
    strides: list[int] = []
    for extent in reversed(shape):
        strides.append(itemsize)
        itemsize *= extent
    return tuple(reversed(strides))


def _follows(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent > 1 and stride != itemsize:
            return False
        itemsize *= extent
    return True
