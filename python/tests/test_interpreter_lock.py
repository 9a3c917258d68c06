# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""The progress thread never waits for the interpreter's lock.

ctypes.PyDLL calls C without releasing the lock. The call here is system(3), with a shell that
starts the other process's exchange and waits until it is done. So the whole exchange happens while
the lock is held: a progress thread that needed the lock even once would never finish.
"""

import asyncio
import ctypes
import os
import shlex
import sys
import tempfile
import unittest

from case import LIMIT_S, LoopCase

HELD = ctypes.PyDLL(None)
COUNT = 20
# A rendezvous, which needs both sides several times.
LARGE = 1 << 20


def run_with_lock_held(command):
    return os.waitstatus_to_exitcode(
        HELD.system(f"exec timeout {LIMIT_S // 2} sh -c {shlex.quote(command)}".encode())
    )


class InterpreterLock(LoopCase):
    def setUp(self):
        super().setUp()
        # No other thread can take the lock from one that does not release it.
        self.addCleanup(sys.setswitchinterval, sys.getswitchinterval())
        sys.setswitchinterval(10 * LIMIT_S)

    async def test_transfers_begin_and_end_while_python_is_locked_out(self):
        async def test(worker, peer):
            with tempfile.TemporaryDirectory() as folder:
                go, done = f"{folder}/go", f"{folder}/done"
                os.mkfifo(go)
                os.mkfifo(done)
                backs = [bytearray(LARGE) for _ in range(COUNT)]
                receives = [worker.recv(back, 1) for back in backs]
                sends = [peer.endpoint.send(b"\2" * LARGE, 2) for _ in range(COUNT)]
                arguments = {"receive_tag": 2, "send_tag": 1, "size": LARGE, "count": COUNT}
                exchanged = peer.ask("exchange_when_told", go=go, done=done, **arguments)
                status = run_with_lock_held(
                    f"echo go >{go} && read -r answer <{done} && test $answer = done"
                )
                self.assertEqual(status, 0)
                # Python was really locked out: nothing has been drained yet.
                self.assertEqual(worker.in_progress, 2 * COUNT)
                self.assertFalse(any(operation.done for operation in (*receives, *sends)))
                await asyncio.gather(*receives, *sends)
                self.assertTrue(all(back == b"\1" * LARGE for back in backs))
                self.assertTrue(await exchanged)

        await self.over_everything(test, modes=["thread"])

    async def test_questions_are_taken_while_python_is_locked_out(self):
        async def test(worker, peer):
            with tempfile.TemporaryDirectory() as folder:
                go, done = f"{folder}/go", f"{folder}/done"
                os.mkfifo(go)
                os.mkfifo(done)
                headers = []

                def handler(question):
                    headers.append(question.header)
                    question.reply(b"answer")

                worker.on_fetch(1, handler)
                fetched = peer.ask("fetch_when_told", go=go, done=done, served=1, unserved=2)
                # The library itself rejects the others, on the thread on which it delivered the
                # first one before.
                expected = "UCXX_ERR_NO_ELEM,UCXX_ERR_NO_ELEM"
                status = run_with_lock_held(
                    f"echo go >{go} && read -r answer <{done} && test $answer = {expected}"
                )
                self.assertEqual(status, 0)
                self.assertEqual(headers, [])
                self.assertEqual(await fetched, "answer")
                self.assertEqual(headers, [b"served"])

        await self.over_everything(test, modes=["thread"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
