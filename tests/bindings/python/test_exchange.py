# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Messages between two processes arrive whole, in every mode, over shared memory and TCP."""

import array
import asyncio
import random
import threading
import unittest

from _ucxx_rs import lib
from client_case import ClientCase
from ucxx_rs_client import Received
from ucxx_rs_client.context import new_struct

SIZES = [0, 1, 8, 1000, 65536, 1 << 20, (4 << 20) + 1]
MANY = 10_000


class Exchange(ClientCase):
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
            self.assertEqual(worker.in_flight, 0)

        await self.over_everything(test)

    async def test_a_shorter_message_with_masked_tag_tells_length_and_tag(self):
        async def test(worker, peer):
            buffer = bytearray(b"." * 10)
            received = worker.recv(buffer, 0x10, mask=0xF0)
            await peer.ask("give", tag=0x17, size=4)
            self.assertEqual(await received, Received(4, 0x17))
            self.assertEqual(buffer, b"\x17" * 4 + b"." * 6)

        await self.over_everything(test)

    async def test_ten_thousand_operations_in_flight(self):
        # Debug mode keeps the stack of each future.
        asyncio.get_running_loop().set_debug(False)

        async def test(worker, peer):
            backs = [bytearray(4) for _ in range(MANY)]
            receives = [worker.recv(back, 1) for back in backs]
            # The peer sends nothing before it has received.
            self.assertEqual(worker.in_flight, MANY)
            echoed = peer.ask("echo", tag=1, size=4, count=MANY)
            sends = [peer.endpoint.send(number.to_bytes(4, "little"), 1) for number in range(MANY)]
            results = await asyncio.gather(*receives)
            await asyncio.gather(*sends)
            self.assertEqual(set(results), {Received(4, 1)})
            self.assertEqual([int.from_bytes(back, "little") for back in backs], list(range(MANY)))
            self.assertEqual(worker.in_flight, 0)
            await echoed

        await self.over_everything(test)

    async def test_any_contiguous_buffer_will_do_and_no_other(self):
        async def test(worker, peer):
            numbers = array.array("d", [0.0] * 8)
            echoed = peer.ask("echo", tag=2, size=64)
            received = worker.recv(memoryview(numbers), 2)
            await peer.endpoint.send(memoryview(array.array("d", range(8))), 2)
            await received
            self.assertEqual(list(numbers), [float(n) for n in range(8)])
            with self.assertRaises((BufferError, TypeError)):
                worker.recv(b"read only", 2)
            with self.assertRaises((BufferError, ValueError)):
                peer.endpoint.send(memoryview(b"every other one")[::2], 2)
            self.assertEqual(worker.in_flight, 0)
            await echoed

        await self.over_everything(test, modes=["blocking"])

    async def test_only_the_modes_that_say_so_have_threads(self):
        async def test(worker, peer):
            await peer.ask("give", tag=3, size=1)
            await worker.recv(bytearray(1), 3)
            attr = new_struct("worker_attr")
            lib.ucxx_worker_query(worker.handle, attr)
            names = {thread.name for thread in threading.enumerate()}
            found = (bool(attr.progress_thread_running), "ucxx notifier" in names)
            self.assertEqual(
                found,
                {
                    "polling": (False, False),
                    "blocking": (False, False),
                    "thread": (True, False),
                    "notifier": (True, True),
                }[worker.mode],
            )

        await self.over_everything(test)


if __name__ == "__main__":
    unittest.main(verbosity=2)
