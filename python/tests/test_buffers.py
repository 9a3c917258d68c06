# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""What may be sent and received, and what may not."""

import array
import ctypes
import gc
import mmap
import unittest
import weakref

import numpy as np

import ucxx_rs
from case import Case, Pair
from ucxx_rs import _buffers


class Interface:
    """Memory by __array_interface__ only."""

    def __init__(self, base, **changes):
        self.base = base
        self.__array_interface__ = {**base.__array_interface__, **changes}


class Cuda:
    """Pretends to be memory of a CUDA device."""

    def __init__(self, base):
        self.base = base
        self.__cuda_array_interface__ = {**base.__array_interface__, "version": 3}


class Dlpack:
    """Memory by DLPack only."""

    def __init__(self, base):
        self.base = base

    def __dlpack__(self, **options):
        return self.base.__dlpack__(**options)


class Buffers(Case):
    def setUp(self):
        super().setUp()
        self.pair = Pair()
        self.addCleanup(self.pair.__exit__)

    def move(self, source, target):
        received = self.pair.other.recv(target, 1)
        self.pair.there.send(source, 1).wait()
        return received.wait().length

    def test_every_kind_is_sent(self):
        numbers = np.arange(1000, dtype="<f8")
        data = numbers.tobytes()
        mapped = mmap.mmap(-1, len(data))
        mapped[:] = data
        for source in (
            data,
            bytearray(data),
            memoryview(data),
            memoryview(bytearray(data)).cast("d"),
            array.array("d", numbers),
            (ctypes.c_double * 1000)(*numbers),
            mapped,
            numbers,
            numbers.reshape(10, 100),
            np.arange(3000.0)[1000:2000] - 1000,
            np.asfortranarray(numbers.reshape(1000, 1)),
            Interface(numbers),
            Interface(numbers, strides=(8,)),
            Interface(numbers.reshape(10, 100), strides=None),
            Dlpack(numbers),
            Dlpack(numbers.reshape(20, 50)),
        ):
            with self.subTest(kind=type(source)):
                target = bytearray(len(data))
                self.assertEqual(self.move(source, target), len(data))
                self.assertEqual(target, data)
        mapped.close()

    def test_every_writable_kind_receives(self):
        data = np.arange(100, dtype="<f8").tobytes()
        zeros = np.zeros(100)
        for target, base in (
            (bytearray(800),) * 2,
            (array.array("d", [0.0] * 100),) * 2,
            ((ctypes.c_double * 100)(),) * 2,
            (zeros.copy(),) * 2,
            (np.zeros((10, 10)),) * 2,
            (Interface(first := zeros.copy()), first),
            (Dlpack(second := zeros.copy()), second),
        ):
            with self.subTest(kind=type(target)):
                self.assertEqual(self.move(data, target), 800)
                self.assertEqual(bytes(memoryview(base).cast("B")), data)

    def test_a_single_number_and_nothing(self):
        single, into = np.array(3.5), np.array(0.0)
        self.assertEqual(self.move(single, into), 8)
        self.assertEqual(float(into), 3.5)
        self.assertEqual(self.move(np.float64(2.5), into), 8)
        self.assertEqual(float(into), 2.5)
        for empty in (b"", bytearray(), memoryview(b""), np.zeros(0), np.zeros((5, 0, 3))):
            self.assertEqual(self.move(empty, bytearray(10)), 0)
            self.assertEqual(self.move(Interface(np.zeros((5, 0))), bytearray(10)), 0)
        self.assertEqual(self.move(b"", bytearray()), 0)
        self.assertEqual(self.move(Dlpack(np.zeros(0)), np.zeros((0, 3))), 0)

    def test_what_is_not_contiguous_is_refused(self):
        square = np.zeros((10, 10))
        for wrong in (
            square.T[:, :5],
            square[:, :5],
            square[::2],
            square[::-1],
            np.asfortranarray(np.zeros((2, 3))),
            memoryview(b"every other one")[::2],
            Interface(square[:, :5]),
            Interface(square[::-1]),
            Interface(np.asfortranarray(np.zeros((2, 3)))),
            Dlpack(square[:, :5]),
        ):
            for call in (self.pair.there.send, self.pair.one.recv, self.pair.there.stream_recv):
                with self.subTest(wrong=type(wrong)), self.assertRaises((ValueError, BufferError)):
                    call(wrong)
        self.assertEqual(self.pair.one.in_progress, 0)

    def test_what_is_read_only_does_not_receive(self):
        frozen = np.zeros(10)
        frozen.flags.writeable = False
        for wrong in (b"bytes", memoryview(b"view"), frozen, Interface(frozen), Dlpack(frozen)):
            for call in (
                self.pair.one.recv,
                self.pair.there.stream_recv,
                lambda buffer: self.pair.one.recv_into([bytearray(5), buffer]),
                lambda buffer: self.pair.there.fetch(1, b"", buffer),
            ):
                with self.subTest(wrong=type(wrong)), self.assertRaises((ValueError, BufferError)):
                    call(wrong)
        self.assertEqual(self.pair.one.in_progress, 0)
        if hasattr(frozen, "__array_interface__"):
            self.assertEqual(self.move(Interface(frozen), bytearray(80)), 80)

    def test_what_is_no_buffer_is_refused(self):
        for wrong in ("text", None, 5, 5.0, [1, 2], (b"",), object(), {}, iter(b"")):
            with self.subTest(wrong=type(wrong)), self.assertRaises(TypeError) as caught:
                self.pair.there.send(wrong)
            self.assertIn(type(wrong).__name__, str(caught.exception))
        for name in ("datetime64[s]", "timedelta64[s]"):
            # Python's buffers have no such element.
            source = np.zeros(4, name)
            self.assertEqual(self.move(source, bytearray(32)), 32)

    @unittest.skipIf(ucxx_rs.Context({"TLS": "tcp,self"}).has_cuda, "CUDA is there")
    def test_memory_of_a_device_is_refused_without_cuda(self):
        source = Cuda(np.zeros(10))
        for call in (
            lambda: self.pair.there.send(source, 1).wait(1),
            lambda: self.pair.there.send_multi([b"host", source], 1).wait(1),
            lambda: self.pair.other.recv(source, 1).wait(1),
        ):
            with self.assertRaises(ucxx_rs.Error) as caught:
                call()
            self.assertTrue(str(caught.exception))
        self.assertEqual(self.move(b"after", bytearray(5)), 5)

    def test_memory_lives_until_the_operation_has_ended(self):
        for make in (lambda base: base, Interface, Dlpack):
            base = np.arange(2_000_000.0)
            watched = weakref.ref(base)
            sent = self.pair.there.send(make(base), 1)
            del base
            gc.collect()
            self.assertFalse(sent.done)
            self.assertIsNotNone(watched())
            target = np.zeros(2_000_000)
            self.pair.other.recv(target, 1).wait()
            sent.wait()
            self.assertEqual(target[-1], 1_999_999)
            del sent
            gc.collect()
            self.assertIsNone(watched())

    def test_lengths_of_foreign_memory(self):
        for base in (np.zeros((3, 4, 5), "<i2"), np.zeros(7, "?"), np.zeros(2, "<c16")):
            for kind in (Interface, Dlpack):
                found = _buffers.region(kind(base), writable=False)
                self.assertEqual((found.length, found.memory_type), (base.nbytes, _buffers.HOST))


if __name__ == "__main__":
    unittest.main(verbosity=2)
