# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Shared by the tests of the client."""

import asyncio
import faulthandler
import signal
import unittest

from peer import Peer
from ucxx_rs_client import Context, UcxxError, Worker

TRANSPORTS = {"shm": "posix,cma,self", "tcp": "tcp,self"}
MODES = ["polling", "blocking", "thread", "notifier"]
# The modes with a progress thread.
THREADED = ["thread", "notifier"]
# Only a hang takes so long; a hanging call may hold the interpreter's lock.
LIMIT_S = 300


class ClientCase(unittest.IsolatedAsyncioTestCase):
    """Runs on a loop in debug mode, which reports calls on a wrong thread."""

    def setUp(self):
        faulthandler.dump_traceback_later(LIMIT_S, exit=True)
        self.addCleanup(faulthandler.cancel_dump_traceback_later)

    async def asyncSetUp(self):
        asyncio.get_running_loop().slow_callback_duration = LIMIT_S

    async def over_everything(self, test, modes=MODES):
        """Runs a test with another process, in every mode over every transport."""
        for name, tls in TRANSPORTS.items():
            for mode in modes:
                with self.subTest(transport=name, mode=mode):
                    await self.with_peer(test, tls, mode)

    async def with_peer(self, test, tls, mode):
        async with Worker(Context({"TLS": tls}), mode) as worker:
            peer = await Peer.start(worker, tls)
            try:
                await test(worker, peer)
            except BaseException:
                peer.kill()
                raise
            finally:
                status = await peer.stop()
            self.assertIn(status, [0, -signal.SIGKILL])

    async def assert_fails(self, operation, *names):
        """The operation fails with one of these errors, whose name is returned."""
        with self.assertRaises(UcxxError) as caught:
            await operation
        self.assertIn(caught.exception.name, [f"UCXX_ERR_{name}" for name in names])
        return caught.exception
