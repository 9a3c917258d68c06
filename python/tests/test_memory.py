# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Memory of peers: put, get and atomics. Groups and windows are in test_group.py."""

import contextlib
import gc
import struct
import unittest
import zlib

import ucxx_rs
from case import LoopCase, Pair, context
from peer import content

SIZE = 1 << 20


class Memory(LoopCase):
    async def test_put_and_get(self):
        async def test(worker, peer):
            packed = bytes.fromhex(await peer.ask("offer", size=SIZE, seed=1))
            remote = peer.endpoint.remote(packed)
            self.assertEqual(len(remote), SIZE)
            expected = bytearray(content(SIZE, 1))
            for offset, size in ((0, SIZE), (5, 1), (SIZE - 1, 1), (100, 0), (77, 70_000)):
                got = bytearray(size)
                await remote.get(got, offset)
                self.assertEqual(got, expected[offset : offset + size])
                data = content(size, offset)
                await remote.put(data, offset)
                expected[offset : offset + size] = data
                await peer.endpoint.flush()
                self.assertEqual(await peer.ask("memory_checksum"), zlib.crc32(expected))
            for offset, size in ((SIZE, 1), (SIZE - 1, 2), (0, SIZE + 1)):
                await self.assert_fails(self.call(remote.put, bytes(size), offset), "OUT_OF_RANGE")
            with self.assertRaises(OverflowError):
                remote.get(bytearray(1), -1)
            with self.assertRaises((BufferError, ValueError)):
                remote.get(b"read only")

        await self.over_everything(test)

    @staticmethod
    async def call(function, *arguments):
        await function(*arguments)

    async def test_atomics(self):
        for mode in ("thread", "polling", "blocking"):
            with self.subTest(mode=mode):
                async with Pair(mode) as pair:
                    memory = ucxx_rs.Memory(context(), size=64)
                    self.assertEqual(len(memory), 64)
                    memory.view[:] = bytes(64)
                    remote = pair.there.remote(memory.packed)
                    self.assertEqual(await remote.atomic("add", 5), 0)
                    self.assertEqual(await remote.atomic("add", -2), 5)
                    self.assertEqual(await remote.atomic("swap", 12), 3)
                    self.assertEqual(await remote.atomic("and", 6), 12)
                    self.assertEqual(await remote.atomic("or", 3), 4)
                    self.assertEqual(await remote.atomic("xor", 1), 7)
                    self.assertEqual(await remote.atomic("cswap", 99, compare=6), 6)
                    self.assertEqual(await remote.atomic("cswap", 1, compare=6), 99)
                    self.assertEqual(await remote.atomic("add", 1, 8, size=4), 0)
                    self.assertEqual(await remote.atomic("add", 2**32 - 1, 8, size=4), 1)
                    await pair.there.flush()
                    self.assertEqual(struct.unpack("<qi", memory.view[:12]), (99, 0))
                    for wrong, call in (
                        (TypeError, lambda: remote.atomic("cswap", 1)),
                        (TypeError, lambda: remote.atomic("add", 1, compare=1)),
                        (ValueError, lambda: remote.atomic("add", 1, size=3)),
                        (ValueError, lambda: remote.atomic("nand", 1)),
                        (struct.error, lambda: remote.atomic("add", 2**64)),
                        (ValueError, lambda: remote.atomic("add", 1, 60)),
                    ):
                        with self.assertRaises(wrong):
                            await call()

    async def test_memory_lives_as_long_as_a_view(self):
        memory = ucxx_rs.Memory(context(), size=4096)
        view = memory.view
        view[:] = b"x" * 4096
        del memory
        gc.collect()
        self.assertEqual(bytes(view), b"x" * 4096)
        for arguments in ({}, {"buffer": bytearray(1), "size": 1}):
            with self.assertRaises(TypeError):
                ucxx_rs.Memory(context(), **arguments)
        with self.assertRaises((BufferError, ValueError)):
            ucxx_rs.Memory(context(), b"read only")

    async def test_what_is_no_key(self):
        async with Pair() as pair:
            for wrong in (b"", b"nonsense", bytes(1000)):
                with self.assertRaises(ucxx_rs.Error):
                    pair.there.remote(wrong)
            packed = ucxx_rs.Memory(context(), size=64).packed
            for at in range(0, len(packed), 7):
                # A key that was cut off, or damaged: refused, or it fails when it is used.
                with contextlib.suppress(ucxx_rs.Error):
                    pair.there.remote(packed[:at])

    async def test_a_key_may_outlive_everything(self):
        async with Pair() as pair:
            memory = ucxx_rs.Memory(context(), size=64)
            remote = pair.there.remote(memory.packed)
            await remote.put(b"12345678")
        self.assert_raises("CLOSED", remote.put, b"12345678")
        self.assert_raises("CLOSED", remote.atomic, "add", 1)
        self.assert_raises("CLOSED", len, remote)
        del remote
        gc.collect()


if __name__ == "__main__":
    unittest.main(verbosity=2)
