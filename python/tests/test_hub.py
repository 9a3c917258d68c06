# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Hubs: leases in loops and threads, every kind of link, and hubs that are connected."""

import asyncio
import gc
import threading
import unittest

import ucxx_rs
from case import MODES, Case, LoopCase, Pair, context

COUNT = 200


def fill(envelope, number):
    envelope.data[:4] = number.to_bytes(4, "little")
    envelope.length = 4
    envelope.metadata[0] = number % 256


def number_of(envelope):
    number = int.from_bytes(envelope.data[:4], "little")
    assert envelope.metadata[0] == number % 256
    return number


class Loops(LoopCase):
    async def test_a_stream_of_chunks(self):
        with ucxx_rs.Hub(context(), 100, 4) as hub, hub.produce() as source, hub.consume() as sink:

            async def produce():
                for number in range(COUNT):
                    with await source.lease() as envelope:
                        self.assertEqual(envelope.capacity, 100)
                        fill(envelope, number)
                hub.end()

            async def consume():
                got = []
                async for envelope in sink:
                    with envelope:
                        self.assertTrue(envelope.data.readonly)
                        got.append(number_of(envelope))
                return got

            _, got = await asyncio.gather(produce(), consume())
            self.assertEqual(got, list(range(COUNT)))
            self.assertEqual(len(hub), 0)
            await self.assert_fails(source.lease(), "CLOSED")
            await hub.drain(1)

    async def test_competing_tasks_and_a_cancelled_one(self):
        with ucxx_rs.Hub(context(), 100, 8) as hub, hub.produce() as source, hub.consume() as sink:

            async def consume():
                got = []
                async for envelope in sink:
                    with envelope:
                        got.append(number_of(envelope))
                        await asyncio.sleep(0)
                return got

            consumers = [asyncio.create_task(consume()) for _ in range(4)]
            await asyncio.sleep(0)
            consumers[0].cancel()
            for number in range(COUNT):
                with await source.lease() as envelope:
                    fill(envelope, number)
            hub.end()
            ends = await asyncio.gather(*consumers, return_exceptions=True)
            self.assertIsInstance(ends.pop(0), asyncio.CancelledError)
            self.assertEqual(sorted(sum(ends, [])), list(range(COUNT)))

    async def test_a_block_that_raises_gives_its_lease_back(self):
        with ucxx_rs.Hub(context(), 100, 2) as hub, hub.produce() as source, hub.consume() as sink:
            for _ in range(5):
                with self.assertRaises(ZeroDivisionError):
                    with await source.lease() as envelope:
                        fill(envelope, 1)
                        1 / 0  # noqa: B018
            self.assertEqual(len(hub), 0)
            with await source.lease() as envelope:
                fill(envelope, 7)
                view = envelope.data
            with self.assertRaises(ValueError):
                bytes(view)
            self.assert_raises("CLOSED", envelope.commit)
            with self.assertRaises(ZeroDivisionError):
                with await sink.lease() as envelope:
                    1 / 0  # noqa: B018
            # The chunk is there again.
            with await sink.lease() as envelope:
                self.assertEqual(number_of(envelope), 7)
            # Forgotten leases come back.
            for _ in range(10):
                await source.lease()
                gc.collect()

    async def test_connected_hubs(self):
        for mode in MODES:
            with self.subTest(mode=mode):
                async with Pair(mode) as pair:
                    here = ucxx_rs.Hub(context(), 1000, 4, worker=pair.one)
                    there = ucxx_rs.Hub(context(), 1000, 4, worker=pair.other)
                    source, out = here.produce(), here.consume()
                    into, sink = there.produce(), there.consume()
                    out.connect(pair.there, 3)
                    into.connect(pair.back, 3)

                    async def produce(source=source, here=here):
                        for number in range(COUNT):
                            with await source.lease() as envelope:
                                fill(envelope, number)
                        here.end()
                        await here.drain()

                    producing = asyncio.create_task(produce())
                    got = []
                    async for envelope in sink:
                        with envelope:
                            got.append(number_of(envelope))
                    await producing
                    self.assertEqual(got, list(range(COUNT)))
                    for each in (source, out, into, sink, here, there):
                        each.close()

    async def test_chunks_as_messages(self):
        for mode in MODES:
            with self.subTest(mode=mode):
                async with Pair(mode) as pair:
                    here = ucxx_rs.Hub(context(), 1000, 4, worker=pair.one)
                    there = ucxx_rs.Hub(context(), 1000, 4, worker=pair.other)
                    with here.produce() as source, here.consume() as out:
                        with there.produce() as into, there.consume() as sink:
                            for number in range(20):
                                with await source.lease() as envelope:
                                    fill(envelope, number)
                                received = into.recv(5)
                                await asyncio.gather(out.send(pair.there, 5), received)
                                with await sink.lease() as envelope:
                                    self.assertEqual(
                                        int.from_bytes(envelope.data, "little"), number
                                    )
                    here.close()
                    there.close()


class Threads(Case):
    def test_threads_produce_and_consume(self):
        with ucxx_rs.Hub(context(), 100, 4, max_chunks=3) as hub:
            source, got = hub.produce(), []
            sinks = [hub.consume(broadcast=True) for _ in range(2)]

            def consume(sink):
                for envelope in sink:
                    with envelope:
                        got.append(number_of(envelope))

            threads = [threading.Thread(target=consume, args=[each]) for each in sinks]
            for thread in threads:
                thread.start()
            for number in range(COUNT):
                with source.lease_wait(10) as envelope:
                    fill(envelope, number)
            hub.end()
            for thread in threads:
                thread.join()
            self.assertEqual(sorted(got), sorted([*range(COUNT), *range(COUNT)]))
            self.assertTrue(hub.stats())
            for each in (source, *sinks):
                each.close()

    def test_peek_modify_and_limits(self):
        with ucxx_rs.Hub(context(), 100, 2) as hub, hub.produce() as source, hub.consume() as sink:
            with hub.modify() as change, hub.peek() as look:
                self.assert_raises("TIMED_OUT NO_RESOURCE", sink.lease_wait, 0.01)
                with source.lease_wait() as envelope:
                    fill(envelope, 1)
                with change.lease_wait(1) as envelope:
                    self.assertFalse(envelope.data.readonly)
                    envelope.data[0] = 9
                with look.lease_wait(1) as envelope:
                    self.assertEqual(envelope.data[0], 9)
                with sink.lease_wait(1) as envelope:
                    self.assertEqual(envelope.data[0], 9)
            self.assert_raises("INVALID_PARAM", source.recv)
            with source.lease_wait() as envelope:
                self.assert_raises("INVALID_PARAM", envelope.commit)
                self.assert_raises("INVALID_PARAM", envelope.commit, 101)
                envelope.abort()
        for call in (hub.produce, hub.end, hub.stats):
            self.assert_raises("CLOSED", call)
        self.assert_raises("CLOSED", source.lease_wait)

    def test_closing_in_any_order(self):
        for order in range(6):
            pair = Pair()
            hub = ucxx_rs.Hub(context(), 100, 4, worker=pair.one)
            link = hub.produce()
            link.connect(pair.there, 1)
            consumer = hub.consume()
            ends = [hub.close, link.close, pair.one.abort, pair.other.abort, consumer.close]
            for end in ends[order % 5 :] + ends[: order % 5]:
                end()
            self.assert_raises("CLOSED", link.lease_wait)
            self.assert_raises("CLOSED", hub.produce)


if __name__ == "__main__":
    unittest.main(verbosity=2)
