# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Closed objects leave nothing behind, and forgotten ones are collected."""

import asyncio
import collections
import gc
import os
import unittest
import warnings
import weakref

import ucxx_rs
from case import MODES, LoopCase
from ucxx_rs._native import lib

CYCLES = 4


def descriptors():
    """Open descriptors by their targets: numbers are reused."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:
            # The one that listed the folder.
            continue
        found.append("/dev/shm" if target.startswith("/dev/shm/") else target.split(":")[0])
    return collections.Counter(found)


def threads():
    return len(os.listdir("/proc/self/task"))


async def use(mode, end):
    """Two workers, messages, buffers and fetches both ways, and an end; returns weak references to
    them.
    """
    context = ucxx_rs.Context({"TLS": "posix,cma,tcp,self"})
    one, other = ucxx_rs.Worker(context, mode), ucxx_rs.Worker(context, mode)
    there, back = one.connect(other.address), other.connect(one.address)
    for receiver, endpoint in ((other, there), (one, back)):
        received = receiver.recv(bytearray(100_000), 1)
        await endpoint.send(bytes(100_000), 1)
        await received
        received = receiver.recv_multi(2)
        await endpoint.send_multi([bytes(100_000), b"", b"frame"], 2)
        await received
        receiver.on_fetch(1, lambda question: question.header)
        receiver.on_message(1, print)
        await endpoint.fetch(1, b"question", bytearray(8))
    await end(one, other)
    return weakref.ref(one), weakref.ref(other)


async def close(*workers):
    for worker in workers:
        await worker.aclose()


async def abort(*workers):
    waiting = [worker.recv(bytearray(1), 2) for worker in workers]
    for worker in workers:
        worker.abort()
    await asyncio.gather(*waiting, return_exceptions=True)


async def forget(*workers):
    pass


class Shutdown(LoopCase):
    async def leaves_nothing(self, mode, end):
        # Once before: objects that UCX and Python keep for good do not count.
        counts, before = [], threads()
        for _ in range(CYCLES):
            workers = await use(mode, end)
            gc.collect()
            # A reply that is still being sent keeps its worker until its completion has reached the
            # loop.
            while any(worker() for worker in workers):
                await asyncio.sleep(0.001)
                gc.collect()
            # Work that the collector leaves to the loop.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            gc.collect()
            # A thread that was joined may be listed for a moment longer.
            while threads() > before:
                await asyncio.sleep(0.001)
            counts.append(descriptors())
        self.assertEqual(counts[1:], [counts[1]] * (CYCLES - 1))

    async def test_closed_workers_leave_neither_threads_nor_descriptors(self):
        for mode in MODES:
            with self.subTest(mode=mode):
                await self.leaves_nothing(mode, close)

    async def test_aborted_workers_leave_neither_threads_nor_descriptors(self):
        for mode in MODES:
            with self.subTest(mode=mode):
                await self.leaves_nothing(mode, abort)

    async def test_forgotten_workers_and_endpoints_are_collected_with_a_warning(self):
        for mode in MODES:
            with self.subTest(mode=mode), warnings.catch_warnings():
                # Not recorded by the warnings module, which would keep the objects alive.
                caught = []
                warnings.showwarning = lambda message, *_: caught.append(str(message))
                warnings.simplefilter("always", ResourceWarning)
                await self.leaves_nothing(mode, forget)
                self.assertEqual(sum("Worker" in text for text in caught), 2 * CYCLES)
                # Not one whose peer has ended it before.
                self.assertGreaterEqual(sum("Endpoint" in text for text in caught), CYCLES)

    async def test_a_worker_with_operations_in_flight_is_not_collected(self):
        for mode in MODES:
            with self.subTest(mode=mode):
                worker = ucxx_rs.Worker(ucxx_rs.Context(), mode)
                endpoint = worker.connect(worker.address)
                received = worker.recv(bytearray(4), 1)
                watched = weakref.ref(worker)
                del worker
                gc.collect()
                self.assertIsNotNone(watched())
                await endpoint.send(b"self", 1)
                self.assertEqual((await received).length, 4)
                await watched().aclose()
                del endpoint, received
                gc.collect()
                self.assertIsNone(watched())

    async def test_what_is_closed_says_so_and_may_be_closed_again(self):
        worker = ucxx_rs.Worker()
        endpoint = worker.connect(worker.address)
        await asyncio.gather(endpoint.close(), endpoint.close())
        await endpoint.close()
        await worker.aclose()
        await worker.aclose()
        worker.abort()
        for call in (
            lambda: worker.recv(bytearray(1), 1),
            lambda: worker.connect(b""),
            lambda: endpoint.send(b"", 1),
        ):
            with self.assertRaises(ucxx_rs.Error) as caught:
                call()
            self.assertEqual(caught.exception.status, lib.UCXX_ERR_CLOSED)


if __name__ == "__main__":
    unittest.main(verbosity=2)
