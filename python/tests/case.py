# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Shared by the tests of the package."""

import asyncio
import faulthandler
import functools
import os
import subprocess
import sys
import time
import unittest

import ucxx_rs
from peer import FEATURES, Peer

TRANSPORTS = {"shm": "posix,cma,self", "tcp": "tcp,self"}
MODES = ["thread", "polling", "blocking"]
# Only a hang takes so long; a hanging call may hold the interpreter's lock.
LIMIT_S = 120


class Buffer(bytearray):
    """A bytearray that can be weakly referenced."""


@functools.cache
def context(tls="tcp,self"):
    """One for all tests."""
    return ucxx_rs.Context({"TLS": tls}, features=FEATURES)


def run_program(text, *arguments, timeout=LIMIT_S / 2):
    """Runs a program in a new interpreter. Its status, output and errors."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path))
    command = [sys.executable, "-X", "faulthandler", "-W", "ignore", "-c", text, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout)
    return done.returncode, done.stdout, done.stderr


class Limited:
    """Ends the process, with the stacks of all threads, if a test hangs."""

    def setUp(self):
        faulthandler.dump_traceback_later(LIMIT_S, exit=True)
        self.addCleanup(faulthandler.cancel_dump_traceback_later)

    def assert_raises(self, names, call, *arguments, **options):
        """The call fails with one of these errors, which is returned."""
        with self.assertRaises(ucxx_rs.Error) as caught:
            call(*arguments, **options)
        self.assertIn(caught.exception.name, [f"UCXX_ERR_{name}" for name in names.split()])
        return caught.exception


class Case(Limited, unittest.TestCase):
    """A test without an event loop."""


class LoopCase(Limited, unittest.IsolatedAsyncioTestCase):
    """Runs on a loop in debug mode, which reports calls on a wrong thread."""

    async def asyncSetUp(self):
        loop = asyncio.get_running_loop()
        loop.slow_callback_duration = LIMIT_S
        # Shows what a test waits for that hangs.
        self._shows = loop.call_later(LIMIT_S * 0.8, self._show_tasks)

    async def asyncTearDown(self):
        self._shows.cancel()

    def _show_tasks(self):
        print(self.id(), file=sys.stderr)
        for task in asyncio.all_tasks():
            task.print_stack(file=sys.stderr)

    async def over_everything(self, test, modes=MODES, transports=TRANSPORTS):
        """Runs a test with another process, in every mode over every transport."""
        for name in transports:
            for mode in modes:
                with self.subTest(transport=name, mode=mode):
                    await self.with_peer(test, TRANSPORTS[name], mode)

    async def with_peer(self, test, tls, mode):
        async with ucxx_rs.Worker(context(tls), mode) as worker:
            peer = await Peer.start(worker, tls)
            try:
                await test(worker, peer)
            except BaseException:
                peer.kill()
                raise
            finally:
                left = await peer.stop()
            # None if the test has killed it.
            self.assertIn(left, [None, {"in_progress": 0}])

    async def assert_fails(self, operation, names):
        """The operation fails with one of these errors, which is returned."""
        with self.assertRaises(ucxx_rs.Error) as caught:
            await operation
        self.assertIn(caught.exception.name, [f"UCXX_ERR_{name}" for name in names.split()])
        return caught.exception


class Pair:
    """Two workers of this process, connected both ways."""

    def __init__(self, mode="thread", other_mode=None, **options):
        self.one = ucxx_rs.Worker(context(), mode)
        self.other = ucxx_rs.Worker(context(), other_mode or mode)
        self.there = self.one.connect(self.other.address, **options)
        self.back = self.other.connect(self.one.address, **options)

    def settle(self):
        """Fails unless all operations end: a reply may arrive before its end is reported where it
        was sent. Not inside an event loop.
        """
        end = time.monotonic() + LIMIT_S / 2
        while self.one.in_progress or self.other.in_progress:
            assert time.monotonic() < end, (self.one.in_progress, self.other.in_progress)
            self.one.progress()
            self.other.progress(0.001)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await asyncio.gather(self.one.aclose(), self.other.aclose())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # Closing one would wait for the other, which makes no progress of its own.
        self.one.abort()
        self.other.abort()
