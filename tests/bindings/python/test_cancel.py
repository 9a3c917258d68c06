# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Cancelled futures cancel their requests, and buffers live until the library is done with them."""

import asyncio
import gc
import unittest
import weakref
import zlib

from _ucxx_rs import lib
from client_case import ClientCase
from ucxx_rs_client.context import new_struct

LARGE = 8 << 20


class Buffer(bytearray):
    """A bytearray that can be weakly referenced."""


def stats(worker):
    value = new_struct("worker_stats")
    lib.ucxx_worker_query_stats(worker.handle, value)
    return value


class Cancel(ClientCase):
    async def test_a_cancelled_receive_takes_its_request_along(self):
        async def test(worker, peer):
            received = worker.recv(bytearray(8), 1)
            waiting = asyncio.create_task(self.wait_for(received))
            await asyncio.sleep(0)
            self.assertTrue(waiting.cancel())
            with self.assertRaises(asyncio.CancelledError):
                await waiting
            self.assertTrue(received.cancelled())
            self.assertEqual(
                (worker.in_flight, stats(worker).canceled, stats(worker).in_flight), (0, 1, 0)
            )
            # The cancelled receive takes no later message.
            after = worker.recv(bytearray(8), 1)
            await peer.ask("give", tag=1, size=8)
            self.assertEqual((await after).length, 8)

        await self.over_everything(test)

    @staticmethod
    async def wait_for(operation):
        return await operation

    async def test_a_timeout_cancels(self):
        async def test(worker, peer):
            with self.assertRaises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await worker.recv(bytearray(8), 1)
            self.assertEqual((worker.in_flight, stats(worker).canceled), (0, 1))

        await self.over_everything(test)

    async def test_the_buffer_lives_until_the_request_is_complete(self):
        async def test(worker, peer):
            buffer = Buffer(8)
            watched = weakref.ref(buffer)
            received = worker.recv(buffer, 1)
            del buffer
            received.cancel()
            gc.collect()
            # Nothing has run on the loop since: the completion cannot have been delivered.
            self.assertFalse(received.done())
            self.assertIsNotNone(watched())
            with self.assertRaises(BufferError):
                watched().append(0)
            with self.assertRaises(asyncio.CancelledError):
                await received
            gc.collect()
            self.assertIsNone(watched())

        await self.over_everything(test)

    async def test_a_forgotten_future_keeps_its_buffer(self):
        async def test(worker, peer):
            buffer = Buffer(8)
            watched = weakref.ref(buffer)
            ended = asyncio.Event()
            worker.recv(buffer, 1).add_done_callback(lambda _: ended.set())
            del buffer
            gc.collect()
            self.assertIsNotNone(watched())
            await peer.ask("give", tag=1, size=8)
            await ended.wait()
            gc.collect()
            self.assertIsNone(watched())

        await self.over_everything(test)

    async def test_a_send_that_cannot_be_cancelled_any_more_ends_when_the_peer_has_it(self):
        async def test(worker, peer):
            payload = Buffer(b"\x5a") * LARGE
            checksum = zlib.crc32(payload)
            payload = Buffer(payload)
            watched = weakref.ref(payload)
            # A rendezvous that nobody receives yet. When the next message has arrived, UCX has
            # announced it.
            sent = peer.endpoint.send(payload, 1)
            del payload
            after = peer.endpoint.send(b"after", 2)
            await peer.ask("take", tag=2, size=5)
            await after
            sent.cancel()
            await peer.endpoint.send(b"after", 2)
            await peer.ask("take", tag=2, size=5)
            self.assertFalse(sent.done())
            self.assertIsNotNone(watched())
            self.assertEqual(await peer.ask("take", tag=1, size=LARGE), [LARGE, checksum])
            with self.assertRaises(asyncio.CancelledError):
                await sent
            gc.collect()
            self.assertIsNone(watched())

        await self.over_everything(test)

    async def test_cancelling_what_is_done_does_nothing(self):
        async def test(worker, peer):
            await peer.ask("give", tag=1, size=8)
            received = worker.recv(bytearray(8), 1)
            await received
            self.assertFalse(received.cancel())
            self.assertEqual(received.result().length, 8)

        await self.over_everything(test)


if __name__ == "__main__":
    unittest.main(verbosity=2)
