# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Ends of processes with everything open, fork, Ctrl-C, and memory that must not grow."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import tracemalloc
import unittest
import warnings
import weakref

import ucxx_rs
from case import MODES, Case, LoopCase, Pair, context, run_program

OPEN = """if True:
    import asyncio, sys, threading, ucxx_rs
    kept = []
    mode, how = sys.argv[1:]
    async def main():
        context = ucxx_rs.Context({"TLS": "tcp,self"},
                                  features=["tag", "am", "stream", "rma", "atomic", "wakeup"])
        worker = ucxx_rs.Worker(context, mode)
        endpoint = worker.connect(worker.address)
        received = worker.recv(bytearray(4), 1)
        await endpoint.send(b"self", 1)
        await received
        await endpoint.send_multi([bytes(1000)], 2)
        worker.on_fetch(1, lambda fetch: kept.append(fetch.keep()))
        worker.on_message(1, lambda message: kept.append(message.keep()))
        fetched = endpoint.fetch(1, b"kept", bytearray(1))
        message = endpoint.message(1, bytes(1 << 20))
        while len(kept) < 2:
            await asyncio.sleep(0)
        listener = worker.listen()
        memory = ucxx_rs.Memory(context, size=100)
        hub = ucxx_rs.Hub(context, 100, 4, worker=worker)
        link = hub.produce()
        kept.extend([worker, endpoint, fetched, message, worker.recv(bytearray(4), 1), listener,
                     memory, memory.view, endpoint.remote(memory.packed), hub, link, link.lease_wait()])
        kept.append(await worker.recv_multi(2))
        kept.append(asyncio.ensure_future(worker.recv(bytearray(4), 1)))
        kept.append(asyncio.ensure_future(listener.accept()))
        if how == "thread":
            threading.Thread(target=kept[6].wait, daemon=True).start()
        await asyncio.sleep(0.01)
        if how == "exit":
            sys.exit(3)
        if how == "raise":
            raise RuntimeError("the program's own")
    if how == "loop":
        loop = asyncio.new_event_loop()
        loop.run_until_complete(main())
    else:
        asyncio.run(main())
"""

FORK = """if True:
    import os, sys, ucxx_rs
    worker = ucxx_rs.Worker(ucxx_rs.Context({"TLS": "tcp,self"}), sys.argv[1])
    endpoint = worker.connect(worker.address)
    received = worker.recv(bytearray(4), 1)
    child = os.fork()
    if not child:
        ends = []
        for call in (lambda: endpoint.send(b"x", 1), lambda: worker.recv(bytearray(1), 1),
                     lambda: worker.address):
            try:
                call()
                ends.append("OK")
            except ucxx_rs.Error as error:
                ends.append(error.name)
        print(ends, flush=True)
        # The child may communicate by what it makes itself, where UCX can do that.
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
    sent = endpoint.send(b"self", 1)
    received.wait()
    sent.wait()
    worker.close()
"""

INTERRUPTED = """if True:
    import asyncio, signal, sys, ucxx_rs
    # Ignored in what a shell runs in the background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    worker = ucxx_rs.Worker(ucxx_rs.Context({"TLS": "tcp,self"}), sys.argv[1])
    async def main():
        async with worker:
            received = worker.recv(bytearray(4), 1)
            print("ready", flush=True)
            await received
    try:
        if sys.argv[2] == "loop":
            asyncio.run(main())
        else:
            with worker:
                received = worker.recv(bytearray(4), 1)
                print("ready", flush=True)
                received.wait()
    except KeyboardInterrupt:
        print("interrupted", worker.closed, worker.in_progress, flush=True)
"""


class Endings(Case):
    def test_a_process_that_closes_nothing_ends_well(self):
        for mode in MODES:
            for how, status in (("return", 0), ("exit", 3), ("thread", 0)):
                with self.subTest(mode=mode, how=how):
                    done = run_program(OPEN, mode, how)
                    self.assertEqual(done, (status, "", ""))
            with self.subTest(mode=mode, how="loop"):
                status, _, errors = run_program(OPEN, mode, "loop")
                # Python complains of the tasks alone.
                self.assertEqual((status, errors.count("Exception ignored")), (0, 0), errors)
            with self.subTest(mode=mode, how="raise"):
                status, _, errors = run_program(OPEN, mode, "raise")
                self.assertEqual(status, 1)
                self.assertTrue(errors.endswith("RuntimeError: the program's own\n"), errors)

    def test_a_child_of_fork_gets_an_error_and_ends_well(self):
        for mode in MODES:
            with self.subTest(mode=mode):
                status, output, errors = run_program(FORK, mode)
                self.assertEqual((status, errors), (0, ""))
                self.assertEqual(output, str(["UCXX_ERR_FORKED"] * 3) + "\n")

    def test_ctrl_c_ends_waits(self):
        environment = dict(
            os.environ, PYTHONPATH=os.pathsep.join(each for each in sys.path if each)
        )
        for mode in MODES:
            for how in ("loop", "wait"):
                with self.subTest(mode=mode, how=how):
                    command = [sys.executable, "-c", INTERRUPTED, mode, how]
                    with subprocess.Popen(
                        command, env=environment, stdout=subprocess.PIPE
                    ) as child:
                        self.assertEqual(child.stdout.readline(), b"ready\n")
                        child.send_signal(signal.SIGINT)
                        self.assertEqual(child.stdout.readline(), b"interrupted True 0\n")
                        self.assertEqual(child.wait(20), 0)


class Growth(LoopCase):
    async def test_ten_thousand_messages_leave_nothing(self):
        loop = asyncio.get_running_loop()
        loop.set_debug(False)

        async def round_trips(pair, count):
            into = bytearray(8)
            for _ in range(count):
                received = pair.other.recv(into, 1)
                await pair.there.send(b"12345678", 1)
                await received

        async def others(pair, count):
            for at in range(count):
                frames = pair.other.recv_multi(2)
                await pair.there.send_multi([b"one", b"two"], 2)
                await frames
                await pair.there.fetch(1, b"question")
                unwanted = pair.one.recv(bytearray(8), 3)
                unwanted.cancel()
                with self.assertRaises(ucxx_rs.Canceled):
                    await unwanted
                with self.assertRaises(OverflowError):
                    pair.there.send(b"", -1)
                with self.assertRaises(ucxx_rs.InvalidAddress):
                    pair.one.connect(b"nonsense")

        before_all = self.requests()
        for mode in MODES:
            with self.subTest(mode=mode):
                async with Pair(mode) as pair:
                    pair.other.on_fetch(1, lambda fetch: fetch.header)
                    await round_trips(pair, 200)
                    await others(pair, 20)
                    gc.collect()
                    tracemalloc.start()
                    before = tracemalloc.get_traced_memory()[0]
                    await round_trips(pair, 10_000)
                    await others(pair, 300)
                    # The last reply may have arrived before its end is reported.
                    while pair.other.in_progress:
                        await asyncio.sleep(0)
                    gc.collect()
                    grown = tracemalloc.get_traced_memory()[0] - before
                    tracemalloc.stop()
                    self.assertLess(grown, 50_000)
                    self.assertFalse(any(pair.one.traffic._table))
                    self.assertFalse(any(pair.other.traffic._table))
                    self.assertEqual(self.requests(), before_all)

    @staticmethod
    def requests():
        gc.collect()
        return sum(isinstance(each, ucxx_rs.Request) for each in gc.get_objects())

    async def test_ended_operations_are_freed_without_the_collector(self):
        async with Pair() as pair:
            gc.collect()
            gc.disable()
            self.addCleanup(gc.enable)
            before = self.requests()
            for _ in range(100):
                received = pair.other.recv(bytearray(1), 1)
                await pair.there.send(b"x", 1)
                await received
            del received
            self.assertEqual(
                sum(isinstance(each, ucxx_rs.Request) for each in gc.get_objects()), before
            )


class Forgotten(Case):
    def test_a_worker_that_is_forgotten_with_operations_in_progress(self):
        async def use(mode):
            worker = ucxx_rs.Worker(context(), mode)
            received = worker.recv(bytearray(4), 1)
            endpoint = worker.connect(worker.address)
            endpoint.send(bytes(4 << 20), 2)
            watched = weakref.ref(worker)
            del worker, endpoint
            gc.collect()
            received.cancel()
            with self.assertRaises(ucxx_rs.Canceled):
                await received
            return watched

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for mode in MODES:
                with self.subTest(mode=mode):
                    watched = asyncio.run(use(mode))
                    gc.collect()
                    self.assertIsNone(watched())


if __name__ == "__main__":
    unittest.main(verbosity=2)
