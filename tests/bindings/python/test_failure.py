# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Failures become exceptions with status and message; the end of an endpoint ends its futures."""

import asyncio
import unittest

from client_case import ClientCase
from ucxx_rs_client import Context, Status, UcxxError, Worker

LARGE = 8 << 20


class Failure(ClientCase):
    async def test_a_message_too_long_for_its_buffer(self):
        async def test(worker, peer):
            received = worker.recv(bytearray(3), 1)
            await peer.ask("give", tag=1, size=4)
            error = await self.assert_fails(received, "MESSAGE_TRUNCATED")
            self.assertEqual(error.status, Status.ERR_MESSAGE_TRUNCATED)
            self.assertIn("4 bytes", error.message)
            self.assertIn(error.message, str(error))

        await self.over_everything(test)

    async def test_what_cannot_be_started_raises_at_once(self):
        with self.assertRaises(UcxxError) as caught:
            Worker(Context({"NO_SUCH_VARIABLE": "1"}), "blocking")
        self.assertEqual(caught.exception.status, Status.ERR_INVALID_PARAM)
        async with Worker(Context(), "blocking") as worker:
            with self.assertRaises(UcxxError) as caught:
                worker.connect(b"not an address at all")
            self.assertEqual(caught.exception.status, Status.ERR_INVALID_ADDR)
            self.assertNotEqual(caught.exception.message, "")
            self.assertEqual(worker.in_flight, 0)

    async def test_a_peer_that_dies_ends_its_futures(self):
        async def test(worker, peer):
            send = peer.endpoint.send(bytes(LARGE), 2)
            watched = worker.recv(bytearray(1), 3, source=peer.endpoint)
            anyone = worker.recv(bytearray(1), 3)
            # When the next message has arrived, the large message has been announced to the peer.
            await peer.endpoint.send(b"x", 1)
            await peer.ask("take", tag=1, size=1)
            peer.kill()
            for operation in (send, watched):
                error = await self.assert_fails(operation, "PEER_FAILED")
                self.assertNotEqual(error.message, "")
            await self.assert_fails(self.call(peer.endpoint.send, b"late", 2), "PEER_FAILED")
            self.assertFalse(anyone.done())
            anyone.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await anyone

        await self.over_everything(test)

    @staticmethod
    async def call(function, *arguments):
        return await function(*arguments)

    async def test_an_endpoint_closed_by_force_ends_its_futures(self):
        async def test(worker, peer):
            await peer.ask("give", tag=1, size=1)
            await worker.recv(bytearray(1), 1)
            sends = [peer.endpoint.send(bytes(LARGE), 2) for _ in range(3)]
            watched = worker.recv(bytearray(1), 3, source=peer.endpoint)
            await peer.endpoint.close(force=True)
            for operation in (*sends, watched):
                await self.assert_fails(operation, "CANCELED", "CLOSED")
            self.assertEqual(worker.in_flight, 0)
            with self.assertRaises(UcxxError) as caught:
                peer.endpoint.send(b"late", 2)
            self.assertEqual(caught.exception.status, Status.ERR_CLOSED)

        await self.over_everything(test)

    async def test_an_orderly_close_lets_the_futures_end_well(self):
        async def test(worker, peer):
            taken = peer.ask("take", tag=1, size=LARGE)
            sent = peer.endpoint.send(b"\1" * LARGE, 1)
            await peer.endpoint.close()
            self.assertIsNone(await sent)
            self.assertEqual((await taken)[0], LARGE)

        await self.over_everything(test)

    async def test_the_end_of_a_worker_ends_every_future(self):
        async def test(worker, peer):
            await peer.ask("give", tag=1, size=1)
            await worker.recv(bytearray(1), 1)
            receives = [worker.recv(bytearray(1), 3) for _ in range(1000)]
            send = peer.endpoint.send(bytes(LARGE), 2)
            worker.abort()
            for operation in (*receives, send):
                self.assertTrue(operation.done())
                await self.assert_fails(operation, "CANCELED")
            with self.assertRaises(UcxxError) as caught:
                worker.recv(bytearray(1), 3)
            self.assertEqual(caught.exception.status, Status.ERR_CLOSED)

        await self.over_everything(test)


if __name__ == "__main__":
    unittest.main(verbosity=2)
