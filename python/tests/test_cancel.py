# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Cancelled operations end, and buffers live until the library is done with them."""

import asyncio
import gc
import unittest
import weakref
import zlib

from case import Buffer, LoopCase

LARGE = 8 << 20


class Cancel(LoopCase):
    async def test_a_cancelled_task_takes_its_receive_along(self):
        async def test(worker, peer):
            received = worker.recv(bytearray(8), 1)
            waiting = asyncio.create_task(self.wait_for(received))
            await asyncio.sleep(0)
            self.assertTrue(waiting.cancel())
            with self.assertRaises(asyncio.CancelledError):
                await waiting
            self.assertTrue(received.done)
            self.assertEqual(received.exception().name, "UCXX_ERR_CANCELED")
            stats = worker.stats()
            self.assertEqual((worker.in_progress, stats["canceled"], stats["in_flight"]), (0, 1, 0))
            # The cancelled receive takes no later message.
            after = worker.recv(bytearray(8), 1)
            await peer.ask("give", tag=1, size=8)
            self.assertEqual((await after).length, 8)

        await self.over_everything(test)

    @staticmethod
    async def wait_for(operation):
        return await operation

    async def test_every_form_of_a_timeout_cancels(self):
        async def within_timeout(operation):
            async with asyncio.timeout(0.01):
                await operation

        forms = [within_timeout, lambda operation: asyncio.wait_for(operation, 0.01)]

        async def test(worker, peer):
            for count, form in enumerate(forms, 1):
                received = worker.recv(bytearray(8), 1)
                with self.assertRaises(TimeoutError):
                    await form(received)
                self.assertTrue(received.done)
                self.assertEqual((worker.in_progress, worker.stats()["canceled"]), (0, count))

        await self.over_everything(test)

    async def test_the_operations_own_timeout(self):
        async def test(worker, peer):
            for start in (
                lambda: worker.recv(bytearray(8), 1, timeout=0.01),
                lambda: worker.recv_multi(1, timeout=0.01),
                lambda: peer.endpoint.stream_recv(bytearray(8), timeout=0.01),
            ):
                error = await self.assert_fails(start(), "TIMED_OUT")
                self.assertIsInstance(error, TimeoutError)

        await self.over_everything(test, transports=["tcp"])

    async def test_a_shielded_operation_goes_on(self):
        async def test(worker, peer):
            received = worker.recv(bytearray(8), 1)
            with self.assertRaises(TimeoutError):
                await asyncio.wait_for(asyncio.shield(received), 0.01)
            self.assertFalse(received.done)
            await peer.ask("give", tag=1, size=8)
            self.assertEqual((await received).length, 8)

        await self.over_everything(test, transports=["tcp"])

    async def test_several_tasks_await_one_operation(self):
        async def test(worker, peer):
            received = worker.recv(bytearray(8), 1)
            tasks = [asyncio.create_task(self.wait_for(received)) for _ in range(5)]
            await asyncio.sleep(0)
            await peer.ask("give", tag=1, size=8)
            self.assertEqual({each.length for each in await asyncio.gather(*tasks)}, {8})
            received = worker.recv(bytearray(8), 1)
            tasks = [asyncio.create_task(self.wait_for(received)) for _ in range(5)]
            await asyncio.sleep(0)
            # Cancelling one of them ends the operation for all.
            tasks[2].cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            self.assertIsInstance(ends.pop(2), asyncio.CancelledError)
            self.assertEqual({each.name for each in ends}, {"UCXX_ERR_CANCELED"})

        await self.over_everything(test, transports=["tcp"])

    async def test_gather_and_as_completed(self):
        async def test(worker, peer):
            receives = [worker.recv(bytearray(8), 1) for _ in range(20)]
            await peer.ask("give", tag=1, size=8, count=20)
            self.assertEqual({each.length for each in await asyncio.gather(*receives)}, {8})
            receives = [worker.recv(bytearray(8), tag) for tag in range(20)]
            for tag in reversed(range(20)):
                await peer.ask("give", tag=tag, size=8)
            tags = [(await each).tag for each in asyncio.as_completed(receives)]
            self.assertEqual(sorted(tags), list(range(20)))

        await self.over_everything(test, transports=["tcp"])

    async def test_the_buffer_lives_until_the_request_is_complete(self):
        async def test(worker, peer):
            buffer = Buffer(8)
            watched = weakref.ref(buffer)
            received = worker.recv(buffer, 1)
            del buffer
            gc.collect()
            self.assertIsNotNone(watched())
            with self.assertRaises(BufferError):
                watched().append(0)
            received.cancel()
            await self.assert_fails(received, "CANCELED")
            gc.collect()
            self.assertIsNone(watched())

        await self.over_everything(test)

    async def test_a_forgotten_request_keeps_its_buffer(self):
        async def test(worker, peer):
            buffer = Buffer(8)
            watched = weakref.ref(buffer)
            worker.recv(buffer, 1)
            del buffer
            gc.collect()
            self.assertIsNotNone(watched())
            await peer.ask("give", tag=1, size=8)
            while worker.in_progress:
                await asyncio.sleep(0)
            gc.collect()
            self.assertIsNone(watched())

        await self.over_everything(test)

    async def test_a_send_that_cannot_be_cancelled_any_more_ends_when_the_peer_has_it(self):
        async def test(worker, peer):
            payload = Buffer(b"\x5a" * LARGE)
            checksum = zlib.crc32(payload)
            watched = weakref.ref(payload)
            # A rendezvous that nobody receives yet. When the next message has arrived, UCX has
            # announced it.
            sent = peer.endpoint.send(payload, 1)
            waiting = asyncio.create_task(self.wait_for(sent))
            del payload
            after = peer.endpoint.send(b"after", 2)
            await peer.ask("take", tag=2, size=5)
            await after
            waiting.cancel()
            await peer.endpoint.send(b"after", 2)
            await peer.ask("take", tag=2, size=5)
            self.assertFalse(sent.done)
            self.assertIsNotNone(watched())
            self.assertEqual(await peer.ask("take", tag=1, size=LARGE), [LARGE, checksum])
            with self.assertRaises(asyncio.CancelledError):
                await waiting
            self.assertTrue(sent.done)
            gc.collect()
            self.assertIsNone(watched())

        await self.over_everything(test)

    async def test_cancelling_what_is_done_does_nothing(self):
        async def test(worker, peer):
            await peer.ask("give", tag=1, size=8)
            received = worker.recv(bytearray(8), 1)
            await received
            received.cancel()
            self.assertEqual(received.result().length, 8)
            self.assertIsNone(received.exception())

        await self.over_everything(test)

    async def test_cancelling_everything(self):
        async def test(worker, peer):
            receives = [worker.recv(bytearray(8), 1) for _ in range(100)]
            self.assertEqual(worker.cancel_all(), 100)
            for received in receives:
                await self.assert_fails(received, "CANCELED")
            self.assertEqual(peer.endpoint.cancel_all(), 0)

        await self.over_everything(test, transports=["tcp"])

    async def test_a_cancelled_operation_frees_its_number_for_the_next(self):
        # Cancelled while messages arrive: each receive ends once, one way or the other.
        count = 100

        async def test(worker, peer):
            given = peer.ask("give", tag=1, size=8, count=count)
            got = 0
            while got < count:
                received = worker.recv(bytearray(8), 1)
                task = asyncio.create_task(self.wait_for(received))
                await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
                got += received.exception() is None
            await given
            self.assertEqual(worker.in_progress, 0)

        await self.over_everything(test)


if __name__ == "__main__":
    unittest.main(verbosity=2)
