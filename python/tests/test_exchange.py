# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Messages between two processes arrive whole, in every mode, over shared memory and TCP."""

import asyncio
import random
import unittest
import zlib

from case import LoopCase
from peer import content
from ucxx_rs import Received

SIZES = [0, 1, 8, 1000, 65536, 1 << 20, (4 << 20) + 1]
MANY = 10_000


class Exchange(LoopCase):
    async def test_every_size_comes_back_as_it_was(self):
        seed = random.randrange(2**32)
        print(f"seed {seed}")
        generator = random.Random(seed)

        async def test(worker, peer):
            for tag, size in enumerate(SIZES):
                sent, back = generator.randbytes(size), bytearray(size)
                echoed = peer.ask("echo", tag=tag, size=size)
                received = worker.recv(back, tag)
                await peer.endpoint.send(sent, tag)
                self.assertEqual(await received, Received(size, tag))
                self.assertEqual(back, sent)
                await echoed
            self.assertEqual(worker.in_progress, 0)

        await self.over_everything(test)

    async def test_a_shorter_message_with_masked_tag_tells_length_and_tag(self):
        async def test(worker, peer):
            buffer = bytearray(b"." * 10)
            received = worker.recv(buffer, 0x10, mask=0xF0)
            await peer.ask("give", tag=0x17, size=4)
            self.assertEqual(await received, Received(4, 0x17))
            self.assertEqual(buffer, b"\x17" * 4 + b"." * 6)

        await self.over_everything(test)

    async def test_ten_thousand_operations_in_progress(self):
        # Debug mode keeps the stack of each future.
        asyncio.get_running_loop().set_debug(False)

        async def test(worker, peer):
            backs = [bytearray(4) for _ in range(MANY)]
            receives = [worker.recv(back, 1) for back in backs]
            # The peer sends nothing before it has received.
            self.assertEqual(worker.in_progress, MANY)
            echoed = peer.ask("echo", tag=1, size=4, count=MANY)
            sends = [peer.endpoint.send(number.to_bytes(4, "little"), 1) for number in range(MANY)]
            results = {await received for received in receives}
            for sent in sends:
                await sent
            self.assertEqual(results, {Received(4, 1)})
            self.assertEqual([int.from_bytes(back, "little") for back in backs], list(range(MANY)))
            self.assertEqual(worker.in_progress, 0)
            await echoed

        await self.over_everything(test)

    async def test_several_buffers_as_one_message(self):
        async def test(worker, peer):
            parts = [content(size, size) for size in (0, 1, 70_000, 3)]
            whole = b"".join(parts)
            taken = peer.ask("take", tag=1, size=len(whole))
            await peer.endpoint.send_from(parts, 1)
            self.assertEqual(await taken, [len(whole), zlib.crc32(whole)])
            places = [bytearray(10), bytearray(0), bytearray(len(whole))]
            echoed = peer.ask("echo", tag=2, size=len(whole))
            received = worker.recv_into(places, 2)
            await peer.endpoint.send(whole, 2)
            self.assertEqual(await received, Received(len(whole), 2))
            self.assertEqual(b"".join(places)[: len(whole)], whole)
            await echoed

        await self.over_everything(test)

    async def test_a_synchronous_send_ends_with_the_receive(self):
        async def test(worker, peer):
            sent = peer.endpoint.send(b"small", 1, sync=True)
            await peer.endpoint.send(b"other", 2)
            await peer.ask("take", tag=2, size=5)
            self.assertFalse(sent.done)
            await peer.ask("take", tag=1, size=5)
            await sent

        await self.over_everything(test)

    async def test_a_stream_has_no_borders(self):
        async def test(worker, peer):
            sizes = [1, 10, 65_536, 300_000]
            data = content(sum(sizes), 7)
            echoed = peer.ask("stream_echo", sizes=sizes)
            half = len(data) // 2
            sends = [
                peer.endpoint.stream_send(part)
                for part in (data[:5], data[5:half], b"", data[half:])
            ]
            back = bytearray(len(data))
            self.assertEqual((await peer.endpoint.stream_recv(back)).length, len(data))
            self.assertEqual(back, data)
            for sent in sends:
                await sent
            await echoed
            self.assertEqual(worker.in_progress, 0)

        await self.over_everything(test)

    async def test_a_partial_stream_receive_takes_what_is_there(self):
        async def test(worker, peer):
            size = 100_000
            given = peer.ask("stream_give", size=size, seed=1)
            back, buffer = b"", bytearray(3 * size)
            while len(back) < size:
                received = await peer.endpoint.stream_recv(buffer, partial=True)
                self.assertGreater(received.length, 0)
                back += buffer[: received.length]
            self.assertEqual(back, content(size, 1))
            await given

        await self.over_everything(test)

    async def test_a_flush_ends_after_the_sends(self):
        async def test(worker, peer):
            taken = peer.ask("take", tag=1, size=1 << 20)
            sent = peer.endpoint.send(b"\5" * (1 << 20), 1)
            await peer.endpoint.flush()
            self.assertTrue(sent.done)
            await worker.flush()
            await taken

        await self.over_everything(test)

    async def test_counters_and_descriptions(self):
        async def test(worker, peer):
            await peer.endpoint.send(b"12345", 1)
            await peer.ask("take", tag=1, size=5)
            self.assertGreaterEqual(worker.stats()["completed"], 1)
            self.assertIn("endpoint to process", worker.dump())
            self.assertTrue(peer.endpoint.query())
            self.assertTrue(peer.endpoint.writable)
            self.assertIn("0 in progress", repr(worker))
            self.assertIn("open", repr(peer.endpoint))

        await self.over_everything(test, transports=["tcp"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
