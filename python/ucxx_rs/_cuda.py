# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Streams and events of CUDA, as the handles of its driver."""

from __future__ import annotations

import functools
import typing

#: A CUDA stream: PyTorch's, CuPy's, what has `__cuda_stream__`, or the number of a handle.
Stream = typing.Any


def stream_handle(stream: Stream) -> int:
    """TypeError if it is no stream; ValueError for the default stream, which has no handle."""
    if hasattr(stream, "__cuda_stream__"):
        handle = stream.__cuda_stream__()[1]
    else:
        handle = getattr(stream, "cuda_stream", getattr(stream, "ptr", stream))
    if not isinstance(handle, int):
        raise TypeError(f"a CUDA stream is expected, not {type(stream).__name__}")
    if handle == 0:
        raise ValueError("the default stream cannot be given: use a stream of your own")
    return handle


@functools.lru_cache(maxsize=None)
def _driver() -> typing.Any:
    import ctypes

    driver = ctypes.CDLL("libcuda.so.1")
    driver.cuStreamWaitEvent.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint]
    driver.cuEventSynchronize.argtypes = [ctypes.c_void_p]
    return driver


def wait_for(event: int, stream: int | None) -> None:
    """Work that is put on the stream from now on waits for the event. Without a stream this
    thread waits."""
    if stream is None:
        code = _driver().cuEventSynchronize(event)
    else:
        code = _driver().cuStreamWaitEvent(stream, event, 0)
    if code != 0:
        raise RuntimeError(f"CUDA's driver returned {code} for the event of an envelope")
