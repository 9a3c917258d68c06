# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""What may be sent and received: memory of this process or of a GPU, without a copy.

Anything with the buffer protocol (bytes, bytearray, memoryview, array.array, numpy arrays), with
`__cuda_array_interface__` (CuPy, Numba, RMM, PyTorch on CUDA), with `__array_interface__`, or with
DLPack. It has to be contiguous in C order. Received data needs memory that may be written.
"""

from __future__ import annotations

import typing

from ._native import ffi, lib

HOST: int = lib.UCXX_MEMORY_HOST
CUDA: int = lib.UCXX_MEMORY_CUDA
_from_buffer = ffi.from_buffer
_CHARS = ffi.typeof("char[]")
_PLAIN = (bytes, bytearray)
_LIST = ffi.typeof("ucxx_buffer_t[]")
_ADDRESSES = ffi.typeof("char *[]")
_LENGTHS = ffi.typeof("size_t[]")
#: Any object of the kinds that this module's text names.
Buffer = typing.Any

# The device types of DLPack, and what UCX calls their memory.
_DLPACK_MEMORY = {
    1: HOST,
    2: CUDA,
    3: lib.UCXX_MEMORY_CUDA_PINNED,
    10: lib.UCXX_MEMORY_ROCM,
    11: HOST,
    13: lib.UCXX_MEMORY_CUDA_MANAGED,
}


class Region(typing.NamedTuple):
    """Memory as C has it. `keep` keeps it alive."""

    pointer: typing.Any
    length: int
    memory_type: int
    device_id: int
    keep: typing.Any


def _chars(buffer: Buffer, writable: bool) -> typing.Any:
    """The bytes of an object with the buffer protocol. TypeError if it has none."""
    if type(buffer) not in _PLAIN and _has_objects(buffer):
        raise ValueError("an array of objects has no data to send: pickle it, or give it a dtype")
    return _from_buffer(_CHARS, buffer, writable)


def _has_objects(buffer: Buffer) -> bool:
    dtype = getattr(buffer, "dtype", None)
    if dtype is not None:
        return bool(getattr(dtype, "hasobject", False))
    return isinstance(buffer, memoryview) and "O" in buffer.format


def region(buffer: Buffer, *, writable: bool) -> Region:
    """The memory of a buffer. TypeError if it is none; ValueError or BufferError if it is not
    contiguous or may not be written."""
    try:
        view = _chars(buffer, writable)
    except TypeError:
        return _foreign(buffer, writable)
    return Region(view, len(view), HOST, 0, view)


def one(
    buffer: Buffer, writable: bool, options: dict[str, typing.Any]
) -> tuple[typing.Any, typing.Any, int]:
    """The buffer of an operation: what keeps it alive, its address and its length. Memory of
    another type is added to the options."""
    try:
        view = _chars(buffer, writable)
    except TypeError:
        found = _foreign(buffer, writable)
        options["memory_type"] = found.memory_type
        return found.keep, found.pointer, found.length
    return view, view, len(view)


def _foreign(buffer: Buffer, writable: bool) -> Region:
    interface = getattr(buffer, "__cuda_array_interface__", None)
    memory_type = CUDA
    if interface is None:
        interface = getattr(buffer, "__array_interface__", None)
        memory_type = HOST
    if interface is not None:
        return _array_interface(buffer, interface, memory_type, writable)
    if hasattr(buffer, "__dlpack__"):
        return _dlpack(buffer, writable)
    raise TypeError(
        f"a buffer is expected (bytes, bytearray, memoryview, a numpy or CUDA array, DLPack), "
        f"not {type(buffer).__name__}"
    )


def _array_interface(
    buffer: Buffer, interface: dict[str, typing.Any], memory_type: int, writable: bool
) -> Region:
    shape = interface["shape"]
    item = int(interface["typestr"][2:])
    _check_contiguous(shape, interface.get("strides"), item)
    address, read_only = interface["data"]
    if read_only and writable:
        raise ValueError("the array is read-only")
    length = item
    for extent in shape:
        length *= extent
    return Region(ffi.cast("char *", address), length, memory_type, 0, buffer)


def _check_contiguous(shape: tuple[int, ...], strides: tuple[int, ...] | None, item: int) -> None:
    if strides is None or 0 in shape:
        return
    expected = item
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent != 1 and stride != expected:
            raise ValueError("the array is not contiguous in C order; make a copy that is")
        expected *= extent


def _dlpack(buffer: Buffer, writable: bool) -> Region:
    # The fields of a DLManagedTensor, by dlpack.h: the capsule is the only way to them.
    import ctypes

    class Tensor(ctypes.Structure):
        _fields_ = [
            ("data", ctypes.c_void_p),
            ("device_type", ctypes.c_int32),
            ("device_id", ctypes.c_int32),
            ("dimensions", ctypes.c_int32),
            ("code", ctypes.c_uint8),
            ("bits", ctypes.c_uint8),
            ("lanes", ctypes.c_uint16),
            ("shape", ctypes.POINTER(ctypes.c_int64)),
            ("strides", ctypes.POINTER(ctypes.c_int64)),
            ("offset", ctypes.c_uint64),
        ]

    capsule = buffer.__dlpack__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = Tensor.from_address(pointer(capsule, b"dltensor"))
    memory_type = _DLPACK_MEMORY.get(tensor.device_type)
    if memory_type is None:
        raise TypeError(f"DLPack's device type {tensor.device_type} is not supported")
    shape = tuple(tensor.shape[: tensor.dimensions])
    item = tensor.bits * tensor.lanes // 8
    if tensor.strides:
        strides = tuple(stride * item for stride in tensor.strides[: tensor.dimensions])
        _check_contiguous(shape, strides, item)
    length = item
    for extent in shape:
        length *= extent
    address = (tensor.data or 0) + tensor.offset
    # The capsule is not consumed: its own destructor gives the tensor back when it goes.
    return Region(ffi.cast("char *", address), length, memory_type, tensor.device_id, capsule)


class BufferList:
    """Buffers as an array of ucxx_buffer_t."""

    __slots__ = ("array", "count", "keep")

    def __init__(self, buffers: typing.Iterable[Buffer], *, writable: bool) -> None:
        buffers = list(buffers)
        self.count = len(buffers)
        try:
            views = [
                _from_buffer(_CHARS, buffer, writable)
                if type(buffer) in _PLAIN
                else _chars(buffer, writable)
                for buffer in buffers
            ]
        except TypeError:
            regions = [region(buffer, writable=writable) for buffer in buffers]
            self.array = ffi.new(_LIST, [found[:4] for found in regions])
            self.keep = [found.keep for found in regions]
            return
        self.array = ffi.new(_LIST, self.count or 1)
        lengths = ffi.new(_LENGTHS, list(map(len, views)))
        lib.buffers_fill(self.array, self.count, ffi.new(_ADDRESSES, views), lengths)
        self.keep = views
