# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Active messages: handlers, data that waits at the sender, replies; and connections by port."""

import asyncio
import contextlib
import unittest

import ucxx_rs
from case import MODES, LoopCase, Pair, context
from peer import content

SIZES = [0, 1, 1000, 200_000, 4 << 20]


class Messages(LoopCase):
    async def test_messages_of_every_size_come_back(self):
        async def test(worker, peer):
            for id, kind, sizes in ((10, "plain", SIZES[:3]), (20, "async", SIZES)):
                await peer.ask("echo_messages", id=id, kind=kind)
                arrived = asyncio.Queue()

                async def handler(message, arrived=arrived):
                    buffer = bytearray(len(message))
                    received = await message.recv(buffer)
                    await arrived.put((message.header, received.length, buffer))

                worker.on_message(id + 1, handler)
                for size in sizes:
                    data = content(size, size)
                    await peer.endpoint.message(id, data, b"header %d" % size)
                    self.assertEqual(await arrived.get(), (b"header %d" % size, size, data))
                worker.on_message(id + 1, None)

        await self.over_everything(test)

    async def test_small_data_is_there_and_large_data_waits(self):
        for mode in MODES:
            with self.subTest(mode=mode):
                async with Pair(mode) as pair:
                    arrived = asyncio.Queue()
                    pair.other.on_message(1, lambda message: arrived.put_nowait(message.keep()))
                    small, large = content(100, 1), content(4 << 20, 2)
                    await pair.there.message(1, small)
                    message = await arrived.get()
                    self.assertEqual((bytes(message.data), message.header), (small, b""))
                    self.assertTrue(message.data.readonly)
                    message.close()
                    self.assert_raises("CLOSED", len, message)
                    sent = pair.there.message(1, large, b"large")
                    message = await arrived.get()
                    self.assertIsNone(message.data)
                    self.assert_raises("MESSAGE_TRUNCATED", message.recv, bytearray(5))
                    message.close()
                    # Dropping it does not leave the sender waiting.
                    with contextlib.suppress(ucxx_rs.Error):
                        await sent

    async def test_handlers_that_raise_are_reported_and_the_next_message_arrives(self):
        loop = asyncio.get_running_loop()
        self.addCleanup(loop.set_exception_handler, None)
        for mode in MODES:
            with self.subTest(mode=mode):
                caught = []
                loop.set_exception_handler(lambda _, seen: caught.append(seen["exception"]))
                async with Pair(mode) as pair:
                    done = asyncio.Event()

                    def plain(message):
                        raise RuntimeError("plain")

                    async def later(message):
                        await asyncio.sleep(0)
                        raise RuntimeError("later")

                    pair.other.on_message(1, plain)
                    pair.other.on_message(2, later)
                    pair.other.on_message(3, lambda message: done.set())
                    for id in (1, 2, 1, 3):
                        await pair.there.message(id, b"data")
                    await done.wait()
                    while len(caught) < 3:
                        await asyncio.sleep(0)
                    self.assertEqual(
                        sorted(str(each) for each in caught), ["later", "plain", "plain"]
                    )

    async def test_a_handler_closes_its_own_worker(self):
        for mode in MODES:
            with self.subTest(mode=mode):
                async with Pair(mode) as pair:
                    closed = asyncio.Event()

                    def handler(message):
                        pair.other.abort()
                        closed.set()

                    pair.other.on_message(1, handler)
                    waiting = pair.other.recv(bytearray(1), 1)
                    await pair.there.message(1, b"end")
                    await closed.wait()
                    await asyncio.sleep(0.01)
                    self.assertTrue(pair.other.closed)
                    await self.assert_fails(waiting, "CANCELED")

    async def test_a_message_without_a_handler_is_refused_if_its_data_waits(self):
        async with Pair() as pair:
            await pair.there.message(9, content(100, 1))
            await self.assert_fails(pair.there.message(9, content(1 << 20, 1)), "NO_ELEM")
            received = pair.other.recv(bytearray(1), 1)
            await pair.there.send(b"x", 1)
            await received


class Listeners(LoopCase):
    async def asyncSetUp(self):
        await super().asyncSetUp()
        # Closed with their workers. An endpoint that nobody has any more causes a warning.
        self.endpoints = []

    async def test_accept_by_await_and_by_iteration(self):
        async def test(worker, peer):
            listener = worker.listen()
            self.assertGreater(listener.port, 0)
            self.assertIn(str(listener.port), listener.address)
            self.endpoints = endpoints = []
            for tag in range(3):
                connected = peer.ask("connect", port=listener.port, tag=tag)
                if tag < 2:
                    endpoints.append(await listener.accept())
                else:
                    async for endpoint in listener:
                        endpoints.append(endpoint)
                        break
                self.assertEqual((await worker.recv(bytearray(1), tag)).length, 1)
                await connected
            self.assertEqual(len({id(each) for each in endpoints}), 3)
            listener.close()
            self.assert_raises("CLOSED", getattr, listener, "port")

        await self.over_everything(test, transports=["tcp"])

    async def test_a_handler_accepts_and_refuses(self):
        async def test(worker, peer):
            seen = []

            def handler(request):
                seen.append(request.address)
                if len(seen) == 1:
                    accepted.append(request.accept())
                elif len(seen) == 2:
                    request.reject()
                # The third is forgotten.

            self.endpoints = accepted = []
            # Works without a reference of the program.
            port = worker.listen(handler).port
            await peer.ask("connect", port=port, tag=1)
            await worker.recv(bytearray(1), 1)
            self.assertFalse(accepted[0].closed)
            for _ in range(2):
                self.assertEqual(
                    await peer.ask("connect_to_be_refused", port=port), "UCXX_ERR_REJECTED"
                )
            self.assertEqual(len(seen), 3)
            self.assertTrue(all(each.startswith("127.0.0.1") for each in seen))

        await self.over_everything(test, transports=["tcp"])

    async def test_an_async_handler_and_one_that_raises(self):
        loop = asyncio.get_running_loop()
        self.addCleanup(loop.set_exception_handler, None)

        async def test(worker, peer):
            caught, accepted = [], []
            self.endpoints = accepted
            loop.set_exception_handler(lambda _, seen: caught.append(seen["exception"]))

            async def handler(request):
                await asyncio.sleep(0)
                if accepted:
                    raise RuntimeError("no more")
                accepted.append(request.accept())

            with worker.listen(handler) as listener:
                await peer.ask("connect", port=listener.port, tag=1)
                await worker.recv(bytearray(1), 1)
                refused = await peer.ask("connect_to_be_refused", port=listener.port)
                self.assertEqual(refused, "UCXX_ERR_REJECTED")
                self.assertEqual([str(each) for each in caught], ["no more"])

        await self.over_everything(test, transports=["tcp"])

    async def test_several_wait_for_clients_and_one_gives_up(self):
        async def test(worker, peer):
            with worker.listen() as listener:
                waiting = [asyncio.create_task(listener.accept()) for _ in range(3)]
                await asyncio.sleep(0)
                waiting[0].cancel()
                for _ in range(2):
                    await peer.ask("connect", port=listener.port, tag=1)
                    await worker.recv(bytearray(1), 1)
                self.endpoints = ends = await asyncio.gather(*waiting, return_exceptions=True)
                self.assertEqual(
                    [type(each) for each in ends],
                    [asyncio.CancelledError, ucxx_rs.Endpoint, ucxx_rs.Endpoint],
                )
                waiting = asyncio.create_task(listener.accept())
                await asyncio.sleep(0)
            # Closing it ends the wait.
            await self.assert_fails(waiting, "CLOSED")

        await self.over_everything(test, transports=["tcp"])

    async def test_this_side_connects(self):
        async def test(worker, peer):
            port = await peer.ask("listen")
            async with worker.connect("127.0.0.1", port) as endpoint:
                taken = peer.ask("take", tag=1, size=5)
                await endpoint.send(b"hello", 1)
                await taken
                await endpoint.close(timeout=60)
            async with worker.connect(("127.0.0.1", port), connect_timeout=60) as endpoint:
                self.assertFalse(endpoint.closed)
                await endpoint.close(timeout=60)

        await self.over_everything(test, transports=["tcp"])

    async def test_nobody_listens(self):
        async def test(worker, peer):
            with worker.listen() as listener:
                port = listener.port
            endpoint = worker.connect("127.0.0.1", port)

            async def flush():
                # It may be known already, and then the call itself fails.
                await endpoint.flush()

            await self.assert_fails(
                flush(), "UNREACHABLE REJECTED CONNECTION_RESET PEER_FAILED NOT_CONNECTED"
            )
            self.assertIsInstance(await endpoint.wait_closed(), ConnectionError)

        await self.over_everything(test, transports=["tcp"])

    async def test_a_port_in_use(self):
        with ucxx_rs.Worker(context()) as worker, worker.listen() as listener:
            error = self.assert_raises(
                "BUSY ALREADY_EXISTS IO_ERROR", worker.listen, None, listener.port
            )
            self.assertTrue(str(error))


if __name__ == "__main__":
    unittest.main(verbosity=2)
