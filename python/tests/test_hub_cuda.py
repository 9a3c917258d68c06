# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Hubs with memory of a GPU, on the stand-in for its driver (tests/cuda/double.c).

test_hub_cuda.py PART       one part, in a process that has the stand-in
"""

import ctypes
import gc
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import unittest

import ucxx_rs
from case import LIMIT_S, Case

SIZE, COUNT = 4096, 50
CUDA_DOUBLE = pathlib.Path(__file__).resolve().parents[2] / "tests" / "cuda" / "double.c"


class Stream:
    """As PyTorch has it."""

    def __init__(self, driver):
        handle = ctypes.c_void_p()
        assert driver.cuStreamCreate(ctypes.byref(handle), 1) == 0
        self.cuda_stream = handle.value


class OtherStream:
    """As CuPy had it in earlier versions, or by the protocol that it has now."""

    def __init__(self, handle, protocol):
        if protocol:
            self.__cuda_stream__ = lambda: (0, handle)
        else:
            self.ptr = handle


def address(memory):
    interface = memory.__cuda_array_interface__
    assert interface["shape"] == (memory.nbytes,)
    return interface["data"][0]


def opened():
    driver = ctypes.CDLL("libcuda.so.1")
    current = ctypes.c_void_p()
    assert driver.cuInit(0) == 0
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(current), 0) == 0
    assert driver.cuCtxPushCurrent_v2(current) == 0
    return driver


def there_and_back():
    """Pinned memory, GPU, another hub's envelope on the GPU, pinned memory; no thread waits."""
    driver, context = opened(), ucxx_rs.Context()
    stream = Stream(driver)
    other = [OtherStream(stream.cuda_stream, each) for each in (False, True)]
    streams = [stream, *other, stream.cuda_stream]
    here, there = ucxx_rs.Hub(context, SIZE), ucxx_rs.Hub(context, SIZE)
    for each in (here, there):
        each.add(3, "pinned")
        each.add(3, 0)
    fill, take = here.produce("pinned"), here.consume(0)
    give, verify = there.produce(0), there.consume("pinned")
    for number in range(COUNT):
        with fill.lease_wait(30) as envelope:
            envelope.data[:] = bytes([number]) * SIZE
            envelope.length = SIZE
        with take.lease_wait(30) as source, give.lease_wait(30) as target:
            for each in (source, target):
                each.use_stream(streams[number % len(streams)])
            copied = driver.cuMemcpyDtoDAsync_v2(
                ctypes.c_uint64(address(target.data)), ctypes.c_uint64(address(source.data)),
                ctypes.c_size_t(SIZE), ctypes.c_void_p(stream.cuda_stream),
            )  # fmt: skip
            assert copied == 0
            target.length = source.length
        with verify.lease_wait(30) as envelope:
            assert bytes(envelope.data) == bytes([number]) * SIZE, number


def without_a_stream():
    """A chunk that a stream still writes: the thread that asks for its memory waits."""
    driver, context = opened(), ucxx_rs.Context()
    stream = Stream(driver)
    with ucxx_rs.Hub(context, SIZE) as made:
        made.add(2, 0)
        source, sink = made.produce(0), made.consume(0)
        for number in range(COUNT):
            with source.lease_wait(30) as envelope:
                envelope.use_stream(stream)
                filled = driver.cuMemsetD8Async(
                    ctypes.c_uint64(address(envelope.data)), ctypes.c_ubyte(number),
                    ctypes.c_size_t(SIZE), ctypes.c_void_p(stream.cuda_stream),
                )  # fmt: skip
                assert filled == 0
                envelope.length = SIZE
            with sink.lease_wait(30) as envelope:
                got = ctypes.create_string_buffer(SIZE)
                where = ctypes.c_uint64(address(envelope.data))
                # On another stream, so only the wait orders the two.
                copying = ctypes.c_void_p(Stream(driver).cuda_stream)
                assert driver.cuMemcpyDtoHAsync_v2(got, where, ctypes.c_size_t(SIZE), copying) == 0
                assert driver.cuStreamSynchronize(copying) == 0
                assert got.raw == bytes([number]) * SIZE
        raised(ucxx_rs.Error, made.produce, 7)


def wrong_arguments():
    driver, context = opened(), ucxx_rs.Context()
    stream = Stream(driver)
    with ucxx_rs.Hub(context, SIZE, 1) as made, made.produce() as source:
        with source.lease_wait(30) as envelope:
            raised(ValueError, envelope.use_stream, 0)
            raised(ValueError, envelope.use_stream, OtherStream(0, False))
            raised(TypeError, envelope.use_stream, "text")
            raised(TypeError, envelope.use_stream, None)
            envelope.abort()
        envelope = source.lease_wait(30)
        envelope.use_stream(stream)
        # The hub has no CUDA memory.
        raised(ucxx_rs.NoDevice, envelope.commit, 1)
        del envelope
        gc.collect()
        envelope = source.lease_wait(30)
        envelope.abort()
        raised(ucxx_rs.Closed, envelope.use_stream, stream)
        for call in (made.produce, made.consume, lambda place: made.add(1, place)):
            raised(ValueError, call, "gpu")


def raised(kinds, call, *arguments):
    try:
        call(*arguments)
    except kinds:
        return
    raise AssertionError(f"{call} did not raise {kinds}")


class OnTheStandIn(Case):
    def test_parts(self):
        with tempfile.TemporaryDirectory() as folder:
            compiler = shlex.split(os.environ.get("CC", "cc"))
            command = [*compiler, "-shared", "-fPIC", "-fvisibility=hidden", "-pthread"]
            command += [str(CUDA_DOUBLE), "-o", f"{folder}/libcuda.so.1"]
            subprocess.run(command, check=True)
            paths = [folder, os.environ.get("LD_LIBRARY_PATH")]
            environment = dict(
                os.environ, UCX_MODULES="^cuda", LD_LIBRARY_PATH=":".join(filter(None, paths))
            )
            for part in (there_and_back, without_a_stream, wrong_arguments):
                with self.subTest(part=part.__name__):
                    program = [sys.executable, "-X", "faulthandler", "-W", "error", __file__]
                    done = subprocess.run(
                        [*program, part.__name__], env=environment, timeout=LIMIT_S / 2
                    )
                    self.assertEqual(done.returncode, 0)


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1] in globals():
        globals()[sys.argv[1]]()
    else:
        unittest.main(verbosity=2)
