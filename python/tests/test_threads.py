# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Without an event loop, and with several threads: wait, with, progress, accept_wait."""

import asyncio
import contextlib
import random
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

import ucxx_rs
from case import MODES, Case, Pair, context
from peer import content

THREADS = 8


class Blocking(Case):
    def over_modes(self, test):
        for mode in MODES:
            with self.subTest(mode=mode):
                test(mode)

    def test_messages_without_a_loop(self):
        def test(mode):
            with ucxx_rs.Worker(context(), mode) as worker:
                with worker.connect(worker.address) as endpoint:
                    for size in (0, 1, 100_000, 4 << 20):
                        back = bytearray(size)
                        received = worker.recv(back, size)
                        sent = endpoint.send(content(size, size), size)
                        self.assertEqual(received.wait(), ucxx_rs.Received(size, size))
                        self.assertIsNone(sent.wait())
                        self.assertEqual(back, content(size, size))
                    frames = worker.recv_multi(7)
                    endpoint.send_multi([b"one", bytes(1 << 20)], 7).wait()
                    self.assertEqual([len(each) for each in frames.wait()], [3, 1 << 20])
                self.assertTrue(endpoint.closed)
            self.assertTrue(worker.closed)

        self.over_modes(test)

    def test_limits_of_waits(self):
        def test(mode):
            with ucxx_rs.Worker(context(), mode) as worker:
                endpoint = worker.connect(worker.address)
                received = worker.recv(bytearray(1), 1)
                self.assertIn("in progress", repr(received))
                self.assert_raises("BUSY", received.result)
                for timeout in (0, 0.01, 0.15):
                    with self.assertRaises(TimeoutError) as caught:
                        received.wait(timeout)
                    # It continues.
                    self.assertNotIsInstance(caught.exception, ucxx_rs.Error)
                    self.assertFalse(received.done)
                endpoint.send(b"x", 1).wait()
                self.assertEqual(received.wait().length, 1)
                self.assertEqual(received.wait(0).length, 1)
                self.assertIn("done", repr(received))
                limited = worker.recv(bytearray(1), 1, timeout=0.01)
                self.assert_raises("TIMED_OUT", limited.wait)
                canceled = worker.recv(bytearray(1), 1)
                canceled.cancel()
                self.assert_raises("CANCELED", canceled.wait)
                self.assertIn("CANCELED", repr(canceled))

        self.over_modes(test)

    def test_handlers_and_listeners_without_a_loop(self):
        def test(mode):
            with ucxx_rs.Worker(context(), mode) as server, ucxx_rs.Worker(context()) as client:
                listener = server.listen()
                with self.assertRaises(TimeoutError):
                    listener.accept_wait(0.01)
                endpoint = client.connect("127.0.0.1", listener.port)
                accepted = listener.accept_wait(10)
                seen = []
                server.on_message(1, lambda message: seen.append(bytes(message.data)))
                server.on_fetch(2, lambda fetch: fetch.header[::-1])
                endpoint.message(1, b"message")
                fetched = endpoint.fetch(2, b"abc")
                while not (seen and fetched.done):
                    server.progress(0.1)
                    client.progress()
                self.assertEqual((seen, bytes(fetched.wait())), ([b"message"], b"cba"))
                # The reply may have arrived before its end is reported here.
                while server.in_progress:
                    server.progress(0.01)
                self.assertFalse(server.progress(0))
                self.assertFalse(server.progress(0.01))

                async def later(fetch):
                    return b""

                server.on_fetch(3, later)
                with self.assertLogs("ucxx_rs") as logs:
                    fetched = endpoint.fetch(3)
                    while not fetched.done:
                        server.progress(0.1)
                        client.progress()
                self.assert_raises("REJECTED", fetched.wait)
                self.assertIn("needs a running event loop", logs.output[0])
                accepted.close()
                endpoint.close()

        self.over_modes(test)

    def test_many_threads_use_one_worker(self):
        each_count = 150

        def test(mode):
            with Pair(mode, "thread") as pair:
                stop = threading.Event()
                pair.other.on_fetch(1, lambda fetch: fetch.header)

                def serve():
                    while not stop.is_set():
                        pair.other.progress(0.001)
                        pair.one.progress()

                def use(number):
                    generator = random.Random(number)
                    for at in range(each_count):
                        size = generator.choice((0, 10, 5000, 100_000))
                        data, back = content(size, at), bytearray(size)
                        received = pair.other.recv(back, number)
                        sent = pair.there.send(data, number)
                        kind = at % 4
                        if kind == 0:
                            sent.wait()
                        self.assertEqual(received.wait().length, size)
                        self.assertEqual(back, data)
                        if kind == 1:
                            self.assertEqual(pair.there.fetch(1, b"%d" % at).wait(), b"%d" % at)
                        if kind == 2:
                            unwanted = pair.one.recv(bytearray(1), number)
                            unwanted.cancel()
                            self.assert_raises("CANCELED", unwanted.wait)
                        sent.wait()

                server = threading.Thread(target=serve)
                server.start()
                try:
                    with ThreadPoolExecutor(THREADS) as pool:
                        list(pool.map(use, range(THREADS)))
                finally:
                    stop.set()
                    server.join()
                pair.settle()

        self.over_modes(test)

    def test_many_threads_wait_for_one_operation(self):
        def test(mode):
            with Pair(mode) as pair:
                for _ in range(20):
                    received = pair.other.recv(bytearray(1), 1)
                    with ThreadPoolExecutor(THREADS) as pool:
                        waits = [pool.submit(received.wait) for _ in range(THREADS)]
                        pair.there.send(b"x", 1).wait()
                        self.assertEqual({each.result().length for each in waits}, {1})

        self.over_modes(test)

    def test_threads_that_wait_while_the_worker_is_closed(self):
        def test(mode):
            for _ in range(2):
                pair = Pair(mode)
                receives = [pair.one.recv(bytearray(1), 1) for _ in range(THREADS)]
                with ThreadPoolExecutor(THREADS + 1) as pool:
                    waits = [
                        pool.submit(each.exception_after_wait) for each in map(Waited, receives)
                    ]
                    progress = pool.submit(self.progress_until_closed, pair.one)
                    time.sleep(0.002)
                    pair.one.abort()
                    self.assertEqual({each.result() for each in waits}, {"UCXX_ERR_CANCELED"})
                    progress.result()
                pair.other.abort()

        self.over_modes(test)

    @staticmethod
    def progress_until_closed(worker):
        with contextlib.suppress(ucxx_rs.Closed):
            while True:
                worker.progress(None)

    def test_two_loops_in_two_threads_on_one_worker(self):
        count = 300

        def test(mode):
            with ucxx_rs.Worker(context(), mode) as worker:
                endpoint = worker.connect(worker.address)

                async def use(number):
                    for at in range(count):
                        received = worker.recv(bytearray(8), number)
                        await endpoint.send(at.to_bytes(8, "little"), number)
                        self.assertEqual((await received).length, 8)
                        # Awaited by two tasks, or cancelled.
                        if at % 10 == 0:
                            with self.assertRaises(TimeoutError):
                                await asyncio.wait_for(worker.recv(bytearray(1), 77), 0.001)

                with ThreadPoolExecutor(2) as pool:
                    list(pool.map(lambda number: asyncio.run(use(number)), range(2)))
                self.assertEqual(worker.in_progress, 0)

        self.over_modes(test)

    def test_a_loop_in_another_thread_while_the_worker_is_closed(self):
        def test(mode):
            for _ in range(5):
                worker = ucxx_rs.Worker(context(), mode)
                endpoint = worker.connect(worker.address)
                started = threading.Event()

                async def use():
                    with self.assertRaises(ucxx_rs.Error) as caught:
                        while True:
                            received = worker.recv(bytearray(8), 1)
                            await endpoint.send(b"message.", 1)
                            await received
                            started.set()
                    return caught.exception.name

                with ThreadPoolExecutor(1) as pool:
                    used = pool.submit(asyncio.run, use())
                    started.wait()
                    worker.abort()
                    self.assertIn(used.result(), ("UCXX_ERR_CANCELED", "UCXX_ERR_CLOSED"))

        self.over_modes(test)

    def test_operations_awaited_by_a_loop_end_in_another_thread(self):
        # The other thread makes progress, and takes the ends of the loop's operations.
        def test(mode):
            with Pair(mode) as pair:
                stop = threading.Event()

                def disturb():
                    while not stop.is_set():
                        pair.other.progress(0.001)
                        pair.one.progress(0)

                async def use():
                    for at in range(500):
                        received = pair.other.recv(bytearray(4), 1)
                        await asyncio.gather(pair.there.send(b"data", 1), received)

                thread = threading.Thread(target=disturb)
                thread.start()
                try:
                    asyncio.run(use())
                finally:
                    stop.set()
                    thread.join()

        self.over_modes(test)


class Waited:
    def __init__(self, request):
        self.request = request

    def exception_after_wait(self):
        try:
            self.request.wait()
        except ucxx_rs.Error as error:
            return error.name


if __name__ == "__main__":
    unittest.main(verbosity=2)
