# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Fetches are answered in every mode: at once, later, or not at all."""

import asyncio
import collections
import gc
import threading
import unittest
import weakref
import zlib

import ucxx_rs
from case import MODES, Buffer, LoopCase, context
from peer import Served, content, question
from ucxx_rs._native import lib

ID = 7
NOBODYS = 8
LARGE = 1 << 20
SIZES = [0, 1, 100, 4096, 65536, LARGE]
# A peer has at most 256 questions without an answer here.
MANY = 250
TOO_LONG, CANCELED, NO_ELEM, REJECTED = (
    f"UCXX_ERR_{name}" for name in ("MESSAGE_TRUNCATED", "CANCELED", "NO_ELEM", "REJECTED")
)


def head(what, **arguments):
    return question(what, **arguments).decode()


def checksum(data, capacity):
    """For a buffer of zeros that the data was put into."""
    return zlib.crc32(data.ljust(capacity, b"\0"))


class Fetch(LoopCase):
    async def both_ways(self, test, **options):
        """Runs a test over everything, twice: this process fetches, and then the other one. `asks`
        and `answers` have the methods of Served.
        """

        async def run(worker, peer):
            served = Served(worker, peer.endpoint)

            async def here(what, **arguments):
                return await getattr(served, what)(**arguments)

            for side, asks, answers in (("asks", here, peer.ask), ("answers", peer.ask, here)):
                with self.subTest(this_side=side):
                    await answers("serve", id=ID)
                    await test(asks, answers)
                    self.assertIsNone(await answers("settle"))
                    # A reply may have arrived before its end is reported here.
                    while worker.in_progress:
                        await asyncio.sleep(0)

        await self.over_everything(run, **options)

    async def test_answers_of_every_size_now_and_later(self):
        async def test(asks, answers):
            for size in SIZES:
                expected = [
                    ["OK", size, checksum(content(size, seed), size + 10)] for seed in range(2)
                ]
                headers = [head("reply", size=size, seed=0), head("keep", size=size, seed=1)]
                fetched = asyncio.ensure_future(
                    asks("fetch", id=ID, headers=headers, capacity=size + 10)
                )
                await answers("kept", count=1)
                self.assertEqual(await answers("answer_kept"), ["OK"])
                self.assertEqual(await fetched, expected)

        await self.both_ways(test)

    async def test_many_in_flight_are_answered_in_another_order(self):
        # Debug mode keeps the stack of each future.
        asyncio.get_running_loop().set_debug(False)

        async def test(asks, answers):
            headers = [head("keep", size=at % 50, seed=at) for at in range(MANY)]
            fetched = asyncio.ensure_future(asks("fetch", id=ID, headers=headers, capacity=50))
            await answers("kept", count=MANY)
            self.assertFalse(fetched.done())
            self.assertEqual(set(await answers("answer_kept")), {"OK"})
            self.assertEqual(
                await fetched,
                [["OK", at % 50, checksum(content(at % 50, at), 50)] for at in range(MANY)],
            )

        await self.both_ways(test)

    async def test_large_answers_in_flight(self):
        count = 20

        async def test(asks, answers):
            headers = [head("keep", size=LARGE - at, seed=at) for at in range(count)]
            fetched = asyncio.ensure_future(asks("fetch", id=ID, headers=headers, capacity=LARGE))
            await answers("kept", count=count)
            self.assertEqual(set(await answers("answer_kept")), {"OK"})
            self.assertEqual(
                await fetched,
                [
                    ["OK", LARGE - at, checksum(content(LARGE - at, at), LARGE)]
                    for at in range(count)
                ],
            )

        await self.both_ways(test)

    async def test_an_answer_that_does_not_fit_is_not_sent(self):
        async def test(asks, answers):
            for size in (11, LARGE):
                headers = [head("reply", size=size, seed=1), head("keep", size=size, seed=1)]
                fetched = asyncio.ensure_future(asks("fetch", id=ID, headers=headers, capacity=10))
                await answers("kept", count=1)
                self.assertEqual(await answers("answer_kept"), ["OK"])
                self.assertEqual(await fetched, [[TOO_LONG, size, checksum(b"", 10)]] * 2)

        await self.both_ways(test)

    async def test_rejected_and_unanswered_questions(self):
        async def test(asks, answers):
            own = lib.UCXX_ERR_APPLICATION - 7
            statuses = {
                lib.UCXX_ERR_NO_ELEM: NO_ELEM,
                lib.UCXX_ERR_REJECTED: REJECTED,
                lib.UCXX_ERR_BUSY: "UCXX_ERR_BUSY",
                lib.UCXX_ERR_CANCELED: CANCELED,
                own: "UCXX_ERR_APPLICATION",
            }
            headers = [head("reject", status=status) for status in statuses] + [head("forget")]
            nothing = checksum(b"", 10)
            expected = [[name, None, nothing] for name in (*statuses.values(), REJECTED)]
            self.assertEqual(await asks("fetch", id=ID, headers=headers, capacity=10), expected)
            # Neither without a handler ever, nor after the handler was removed.
            self.assertEqual(
                await asks("fetch", id=NOBODYS, headers=headers, capacity=10),
                [[NO_ELEM, None, nothing]] * 6,
            )
            await answers("serve_no_more", id=ID)
            self.assertEqual(
                await asks("fetch", id=ID, headers=headers, capacity=10),
                [[NO_ELEM, None, nothing]] * 6,
            )
            await answers("serve", id=ID)
            self.assertEqual(
                (await asks("fetch", id=ID, headers=headers, capacity=10))[0],
                [NO_ELEM, None, nothing],
            )

        await self.both_ways(test)

    async def test_a_refused_answer_is_none_and_a_second_one_neither(self):
        async def test(asks, answers):
            headers = [head("refuse_then_answer", status=lib.UCXX_ERR_IO_ERROR)]
            self.assertEqual(
                await asks("fetch", id=ID, headers=headers, capacity=10),
                [["OK", 6, checksum(b"answer", 10)]],
            )
            told = [
                "UCXX_ERR_INVALID_PARAM",
                "OK",
                "UCXX_ERR_ALREADY_EXISTS",
                "UCXX_ERR_ALREADY_EXISTS",
            ]
            self.assertEqual(await answers("told"), told)

        await self.both_ways(test)

    async def test_a_handler_that_raises_rejects_and_is_reported(self):
        self.addCleanup(asyncio.get_running_loop().set_exception_handler, None)

        async def test(asks, answers):
            await answers("note_failures")
            headers = [
                head("fail"),
                head("reply", size=3, seed=1),
                head("fail", first="answer"),
                head("no such thing"),
            ]
            nothing = checksum(b"", 10)
            self.assertEqual(
                await asks("fetch", id=ID, headers=headers, capacity=10),
                [
                    [REJECTED, None, nothing],
                    ["OK", 3, checksum(content(3, 1), 10)],
                    ["OK", 6, checksum(b"answer", 10)],
                    [REJECTED, None, nothing],
                ],
            )
            told = await answers("told")
            self.assertEqual(
                [text.split("(")[0] for text in told],
                ["RuntimeError", "RuntimeError", "AttributeError"],
            )

        await self.both_ways(test)

    async def test_a_handler_that_asks_whoever_asked(self):
        async def test(asks, answers):
            await asks("serve", id=NOBODYS)
            headers = [
                head(
                    "ask_back",
                    id=NOBODYS,
                    header=head("reply", size=size, seed=size),
                    capacity=size,
                )
                for size in SIZES
            ]
            expected = [["OK", size, checksum(content(size, size), LARGE)] for size in SIZES]
            self.assertEqual(await asks("fetch", id=ID, headers=headers, capacity=LARGE), expected)
            await asks("serve_no_more", id=NOBODYS)

        await self.both_ways(test)

    async def test_the_capacity_may_be_less_than_the_buffer(self):
        async def test(worker, peer):
            await peer.ask("serve", id=ID)
            buffer = bytearray(b"." * 100)
            for capacity in (8, 50, 100, None):
                part = memoryview(buffer)[:capacity]
                self.assertEqual(await peer.endpoint.fetch(ID, question("tell_capacity"), part), 8)
                self.assertEqual(int.from_bytes(buffer[:8], "little"), capacity or 100)
            self.assertEqual(buffer[8:], b"." * 92)
            buffer[:] = b"." * 100
            error = await self.assert_fails(
                peer.endpoint.fetch(ID, question("tell_capacity"), memoryview(buffer)[:7]),
                "MESSAGE_TRUNCATED",
            )
            self.assertEqual((error.length, buffer), (8, b"." * 100))
            self.assertEqual(
                await peer.endpoint.fetch(ID, question("reply", size=0, seed=0), bytearray()), 0
            )
            with self.assertRaises((BufferError, TypeError)):
                peer.endpoint.fetch(ID, b"", b"read only")
            with self.assertRaises(ucxx_rs.Error) as caught:
                peer.endpoint.fetch(ID, bytes(LARGE), buffer)
            self.assertNotEqual(str(caught.exception), "")
            self.assertEqual(worker.in_progress, 0)

        await self.over_everything(test)

    async def test_a_cancelled_fetch_gives_its_buffer_back_at_once(self):
        async def test(worker, peer):
            await peer.ask("serve", id=ID)
            for size in (10, LARGE):
                buffer = Buffer(b"." * size)
                watched = weakref.ref(buffer)
                fetched = peer.endpoint.fetch(ID, question("keep", size=size, seed=1), buffer)
                await peer.ask("kept", count=1)
                fetched.cancel()
                await self.assert_fails(fetched, "CANCELED CLOSED")
                self.assertEqual(worker.in_progress, 0)
                # It may be resized again.
                buffer.append(0)
                # The reply arrives too late, and nobody is notified.
                self.assertEqual(await peer.ask("answer_kept"), ["OK"])
                after = bytearray(size)
                self.assertEqual(
                    await peer.endpoint.fetch(ID, question("reply", size=size, seed=2), after), size
                )
                self.assertEqual((after, buffer), (content(size, 2), b"." * size + b"\0"))
                del buffer, fetched
                gc.collect()
                self.assertIsNone(watched())

        await self.over_everything(test)

    async def test_a_timeout_cancels(self):
        async def test(worker, peer):
            await peer.ask("serve", id=ID)
            with self.assertRaises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await peer.endpoint.fetch(ID, question("keep", size=1, seed=1), bytearray(1))
            self.assertEqual(worker.in_progress, 0)

        await self.over_everything(test)

    async def test_a_forgotten_fetch_keeps_its_buffer(self):
        async def test(worker, peer):
            await peer.ask("serve", id=ID)
            buffer = Buffer(LARGE)
            watched = weakref.ref(buffer)
            peer.endpoint.fetch(ID, question("keep", size=LARGE, seed=1), buffer)
            del buffer
            gc.collect()
            await peer.ask("kept", count=1)
            self.assertIsNotNone(watched())
            await peer.ask("answer_kept")
            while worker.in_progress:
                await asyncio.sleep(0)
            gc.collect()
            self.assertIsNone(watched())

        await self.over_everything(test)

    async def test_an_answer_keeps_its_data_and_its_question_until_it_is_there(self):
        async def test(worker, peer):
            come = asyncio.Event()
            watched, answers = [], []

            def handler(question):
                data = Buffer(content(8 * LARGE, 1))
                watched.extend([weakref.ref(data), weakref.ref(question)])
                answers.append(question.reply(data))
                come.set()

            worker.on_fetch(ID, handler)
            fetched = peer.ask("fetch", id=ID, headers=["anything"], capacity=8 * LARGE)
            await come.wait()
            gc.collect()
            # If it completed meanwhile the future has not been notified, as the loop has not run.
            self.assertTrue(answers[0].done or all(each() is not None for each in watched))
            await answers[0]
            self.assertEqual(await fetched, [["OK", 8 * LARGE, checksum(content(8 * LARGE, 1), 0)]])
            gc.collect()
            self.assertTrue(all(each() is None for each in watched))

        await self.over_everything(test)

    async def test_handlers_run_on_the_loop_in_order(self):
        async def test(worker, peer):
            called = []

            def handler(question):
                called.append(
                    (question.header, threading.current_thread(), asyncio.get_running_loop())
                )
                question.reply(question.header)

            worker.on_fetch(ID, handler)
            headers = [str(at) for at in range(300)]
            await peer.ask("fetch", id=ID, headers=headers, capacity=3)
            here = (threading.main_thread(), asyncio.get_running_loop())
            self.assertEqual(called, [(header.encode(), *here) for header in headers])

        await self.over_everything(test)

    async def test_another_handler_takes_over(self):
        async def test(worker, peer):
            for answer in (b"one", b"two"):
                worker.on_fetch(ID, lambda question, answer=answer: question.reply(answer))
                worker.on_fetch(NOBODYS, lambda question, answer=answer: question.reply(answer * 2))
                fetched = await peer.ask("fetch", id=ID, headers=["", "header"], capacity=6)
                self.assertEqual(fetched, [["OK", 3, checksum(answer, 6)]] * 2)
                fetched = await peer.ask("fetch", id=NOBODYS, headers=[""], capacity=6)
                self.assertEqual(fetched, [["OK", 6, checksum(answer * 2, 6)]])
            worker.on_fetch(ID, None)
            worker.on_fetch(ID, None)
            for wrong in (-1, 65536):
                with self.assertRaises(OverflowError):
                    worker.on_fetch(wrong, print)

        await self.over_everything(test)

    async def test_a_peer_that_dies_ends_its_fetches_and_its_questions(self):
        async def test(worker, peer):
            asked = asyncio.Event()
            kept = []

            def handler(question):
                kept.append(question.keep())
                asked.set()

            worker.on_fetch(ID, handler)
            await peer.ask("serve", id=ID)
            buffer = bytearray(b"." * 10)
            fetched = peer.endpoint.fetch(ID, question("keep", size=10, seed=1), buffer)
            await peer.ask("kept", count=1)
            asking = asyncio.ensure_future(
                peer.ask("fetch", id=ID, headers=["left alone"], capacity=1)
            )
            await asked.wait()
            peer.kill()
            error = await self.assert_fails(fetched, "PEER_FAILED")
            self.assertNotEqual(str(error), "")
            self.assertEqual(buffer, b"." * 10)
            with self.assertRaises((EOFError, ConnectionError)):
                await asking
            self.assertEqual(kept[0].header, b"left alone")
            await self.assert_fails(self.late(kept[0].reply, b"late"), "PEER_FAILED")
            self.assert_raises("PEER_FAILED", kept[0].reject, lib.UCXX_ERR_BUSY)

        await self.over_everything(test)

    @staticmethod
    async def late(reply, data):
        await reply(data)

    async def test_the_end_of_a_worker_ends_its_fetches_and_its_questions(self):
        async def test(worker, peer):
            asked = asyncio.Event()
            kept = []

            def handler(question):
                kept.append(question.keep())
                asked.set()

            worker.on_fetch(ID, handler)
            await peer.ask("serve", id=ID)
            fetches = [
                peer.endpoint.fetch(ID, question("keep", size=1, seed=1), bytearray(1))
                for _ in range(100)
            ]
            await peer.ask("kept", count=100)
            asking = asyncio.ensure_future(
                peer.ask("fetch", id=ID, headers=["left alone"] * 100, capacity=1)
            )
            await asked.wait()
            worker.abort()
            for fetched in fetches:
                self.assertTrue(fetched.done)
                await self.assert_fails(fetched, "CANCELED CLOSED")
            # Those that had not been sent yet as well.
            self.assertEqual({name for name, _, _ in await asking}, {"UCXX_ERR_CONNECTION_RESET"})
            self.assertEqual(kept[0].header, b"left alone")
            self.assert_raises("CLOSED", kept[0].reply, b"late")
            self.assert_raises("CLOSED", kept[0].reject, lib.UCXX_ERR_BUSY)
            self.assert_raises("CLOSED", worker.on_fetch, ID, handler)

        await self.over_everything(test)

    async def test_what_handlers_return_is_the_answer(self):
        async def test(asks, answers):
            for what in ("give", "give_later"):
                headers = [head(what, size=size, seed=size) for size in SIZES]
                expected = [["OK", size, checksum(content(size, size), LARGE)] for size in SIZES]
                self.assertEqual(
                    await asks("fetch", id=ID, headers=headers, capacity=LARGE), expected
                )

        await self.both_ways(test)

    async def test_memory_made_for_the_answer_and_data_with_the_question(self):
        async def test(worker, peer):
            await peer.ask("serve", id=ID)
            for size in SIZES:
                answer = await peer.endpoint.fetch(ID, question("give", size=size, seed=size))
                self.assertIsInstance(answer, memoryview)
                self.assertEqual(answer, content(size, size))
                data = content(size, size)
                told = await peer.endpoint.fetch(ID, question("tell_data"), data=data)
                self.assertEqual(int.from_bytes(told, "little"), zlib.crc32(data))
            del answer, told
            gc.collect()
            self.assertEqual(worker.in_progress, 0)

        await self.over_everything(test)

    async def test_handlers_are_replaced_while_questions_arrive(self):
        count = 2000

        async def test(worker, peer):
            worker.on_fetch(ID, lambda question: b"a")
            headers = [""] * count
            asking = asyncio.ensure_future(peer.ask("fetch", id=ID, headers=headers, capacity=1))
            changed = 0
            while not asking.done():
                changed += 1
                worker.on_fetch(ID, lambda question: b"a")
                await asyncio.sleep(0)
            self.assertEqual(
                collections.Counter(status for status, _, _ in await asking), {"OK": count}
            )

        await self.over_everything(test, transports=["tcp"])

    async def test_a_worker_asks_itself(self):
        for mode in MODES:
            with self.subTest(mode=mode):
                async with ucxx_rs.Worker(context(), mode) as worker:
                    worker.on_fetch(ID, lambda question: question.header[::-1])
                    endpoint = worker.connect(worker.address)
                    buffer = bytearray(5)
                    self.assertEqual(await endpoint.fetch(ID, b"olleh", buffer), 5)
                    self.assertEqual(buffer, b"hello")


if __name__ == "__main__":
    unittest.main(verbosity=2)
