# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Event loops: several one after the other, loops that are closed first, uvloop, and fairness."""

import asyncio
import gc
import importlib.util
import unittest

import ucxx_rs
from case import MODES, Case, Pair, context
from peer import content


async def exchange(pair, size=1000):
    """Messages, fetches, and a cancelled receive."""
    # A loop progresses a worker without a thread once something of it is awaited there.
    received = pair.other.recv(bytearray(size), 1)
    got, _ = await asyncio.gather(received, pair.there.send(bytes(size), 1))
    assert got.length == size
    sent = pair.back.send_multi([content(size, 1), b"", bytes(300_000)], 2)
    frames, _ = await asyncio.gather(pair.one.recv_multi(2), sent)
    assert [len(each) for each in frames] == [size, 0, 300_000]
    assert await pair.there.fetch(1, b"question") == b"question"
    try:
        await asyncio.wait_for(pair.one.recv(bytearray(1), 3), 0.001)
    except asyncio.TimeoutError:
        pass


class Loops(Case):
    def over_modes(self, test):
        for mode in MODES:
            with self.subTest(mode=mode):
                test(mode)

    def test_one_loop_after_the_other(self):
        def test(mode):
            with Pair(mode) as pair:
                pair.other.on_fetch(1, lambda fetch: fetch.header)
                for _ in range(5):
                    asyncio.run(exchange(pair))
                pair.settle()
                self.assertLessEqual(len(pair.one.traffic.drivers), 1)

        self.over_modes(test)

    def test_handlers_and_ends_of_a_closed_loop(self):
        def test(mode):
            with Pair(mode) as pair:
                ends = []

                async def first():
                    # Made in a loop that will be closed.
                    endpoint = pair.one.connect(
                        pair.other.address, on_close=lambda *seen: ends.append(seen)
                    )
                    back = pair.other.connect(pair.one.address)
                    pair.other.on_fetch(1, lambda fetch: fetch.header)
                    received = pair.other.recv(bytearray(1), 1)
                    await asyncio.gather(received, endpoint.send(b"x", 1))
                    return endpoint, back

                endpoint, back = asyncio.run(first())

                async def second():
                    await exchange(pair)
                    await back.close(timeout=60)
                    reason = await asyncio.wait_for(endpoint.wait_closed(), 10)
                    self.assertIsInstance(reason, ucxx_rs.ConnectionReset)

                asyncio.run(second())
                self.assertEqual([each[0] for each in ends], [endpoint])

        self.over_modes(test)

    def test_a_loop_that_is_closed_with_everything_in_progress(self):
        def test(mode):
            pair = Pair(mode)
            kept = []

            async def leave():
                pair.other.on_fetch(1, lambda fetch: kept.append(fetch.keep()))
                kept.append(pair.there.fetch(1, b"question"))
                kept.append(pair.other.recv(bytearray(1), 1))
                kept.append(pair.there.send(bytes(4 << 20), 2))
                task = asyncio.ensure_future(pair.other.recv(bytearray(1), 1))
                await asyncio.sleep(0.01)
                return task

            self.assertTrue(asyncio.run(leave()).cancelled())
            received = pair.other.recv(bytearray(4 << 20), 2)
            while not received.done:
                pair.one.progress()
                pair.other.progress()
            self.assertEqual(received.wait().length, 4 << 20)
            pair.one.close()
            pair.other.close()
            self.assertEqual((pair.one.in_progress, pair.other.in_progress), (0, 0))

        self.over_modes(test)

    def test_a_loop_that_was_never_closed_is_forgotten(self):
        def test(mode):
            with Pair(mode) as pair:
                pair.other.on_fetch(1, lambda fetch: fetch.header)
                loop = asyncio.new_event_loop()
                loop.run_until_complete(exchange(pair))
                # It does not run any more, but may still be there.
                pair.other.on_fetch(1, lambda fetch: fetch.header)
                asyncio.run(exchange(pair))
                loop.close()

        self.over_modes(test)

    def test_a_long_row_of_ended_operations_leaves_the_loop_its_turn(self):
        async def use(mode):
            turns = 0

            async def count():
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            async with Pair(mode) as pair:
                counting = asyncio.create_task(count())
                for _ in range(2000):
                    await pair.there.send(b"small", 1)
                counting.cancel()
            self.assertGreater(turns, 10)

        def test(mode):
            asyncio.run(use(mode))

        self.over_modes(test)

    def test_a_long_row_of_awaits_that_end_soon_leaves_the_loop_its_turn(self):
        async def main(mode):
            turns = 0

            async def other():
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            async with ucxx_rs.Worker(context(), mode) as worker:
                endpoint, place = worker.connect(worker.address), bytearray(1)
                beside = asyncio.create_task(other())
                for _ in range(1280):
                    # It is in progress when it is awaited, and ends in the first pass.
                    received = worker.recv(place, 1)
                    endpoint.send(b"a", 1)
                    await received
                beside.cancel()
            return turns

        def test(mode):
            self.assertGreaterEqual(asyncio.run(main(mode)), 15)

        self.over_modes(test)

    def test_what_another_thread_has_progressed_reaches_the_loop(self):
        # A call that waits in another thread, as those of groups do, takes the loop's events.
        async def use(pair):
            received = pair.other.recv(bytearray(4), 1)
            waiting = asyncio.ensure_future(received)
            unwanted = pair.other.recv(bytearray(4), 9)
            for _ in range(200):
                slow = asyncio.create_task(asyncio.to_thread(self.wait_briefly, unwanted))
                await asyncio.sleep(0.0005)
                await pair.there.send(b"data", 1)
                await asyncio.wait_for(waiting, 5)
                await slow
                waiting = asyncio.ensure_future(pair.other.recv(bytearray(4), 1))
                await asyncio.sleep(0)
            waiting.cancel()
            unwanted.cancel()
            await asyncio.wait([waiting])

        def test(mode):
            with Pair(mode, "thread" if mode == "thread" else mode) as pair:
                asyncio.run(use(pair))

        self.over_modes(test)

    def test_a_loop_that_has_polled_arms_again(self):
        # Otherwise what another thread completes from then on does not wake it.
        async def use(pair, polls):
            received = pair.other.recv(bytearray(4), 1)
            driver = pair.other.traffic.driver(asyncio.get_running_loop())
            while driver._next is not None:
                await asyncio.sleep(0.001)
            waiting = await polls(received)
            self.assertIsNotNone(driver._next, "it sleeps, and is not armed")
            await pair.there.send(b"data", 1)
            await asyncio.wait_for(waiting, 5)

        async def by_await(received):
            waiting = asyncio.ensure_future(received)
            # Its first step polls.
            await asyncio.sleep(0)
            return waiting

        async def by_wait(received):
            with self.assertRaises(TimeoutError):
                received.wait(0.001)
            return received

        for polls in by_await, by_wait:
            with Pair("blocking", "blocking") as pair:
                asyncio.run(use(pair, polls))

    @staticmethod
    def wait_briefly(request):
        # As a call of C does that waits: it does not drain.
        pair_lib = ucxx_rs._native.lib
        pair_lib.ucxx_request_wait(request._handle, 2_000_000)

    @unittest.skipUnless(importlib.util.find_spec("uvloop"), "uvloop is not installed")
    def test_uvloop(self):
        import uvloop

        async def use(mode):
            async with Pair(mode) as pair:
                pair.other.on_fetch(1, lambda fetch: fetch.header)
                listener = pair.other.listen()
                endpoint = pair.one.connect("127.0.0.1", listener.port)
                accepted = await listener.accept()
                for _ in range(20):
                    await exchange(pair)
                await endpoint.close(timeout=60)
                self.assertIsInstance(await accepted.wait_closed(), ucxx_rs.ConnectionReset)

        def test(mode):
            loop = uvloop.new_event_loop()
            try:
                loop.run_until_complete(use(mode))
                loop.run_until_complete(loop.shutdown_asyncgens())
            finally:
                loop.close()
            gc.collect()

        self.over_modes(test)

    def test_worker_made_outside_of_any_loop(self):
        def test(mode):
            worker = ucxx_rs.Worker(context(), mode)
            endpoint = worker.connect(worker.address)

            async def use():
                async with worker, endpoint:
                    received = worker.recv(bytearray(2), 1)
                    await endpoint.send(b"ab", 1)
                    self.assertEqual((await received).length, 2)

            asyncio.run(use())
            self.assertTrue(worker.closed)

        self.over_modes(test)


if __name__ == "__main__":
    unittest.main(verbosity=2)
