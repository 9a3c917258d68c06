#!/usr/bin/env python3
"""Five programs that hang, each for a reason of its own. One command has to name the reason:
ucxx_rs_info --attach PID.

tests/riddles/test_riddles.py PREFIX [unittest's arguments]
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from programs import LIMIT, attach, build, environment, free_port

PREFIX = Path()
NODE = Path()


class Riddle(unittest.TestCase):
    def setUp(self):
        self.sockets = tempfile.TemporaryDirectory(dir="/tmp")
        self.addCleanup(self.sockets.cleanup)
        self.nodes = []
        self.addCleanup(self.end)

    def end(self):
        for node in self.nodes:
            node.kill()
            node.wait()
            node.stdout.close()

    def start(self, number, sides=2, environments=({}, {})):
        """Starts the sides, and waits until they are ready to hang."""
        ends = socket.socketpair()
        for side in range(sides):
            self.nodes.append(
                subprocess.Popen(
                    [NODE, str(number), str(side), str(ends[side].fileno())],
                    env=environment(UCXX_RS_DEBUG_SOCKET=self.sockets.name, **environments[side]),
                    pass_fds=[ends[side].fileno()],
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
        for end in ends:
            end.close()
        for node in self.nodes:
            self.assertEqual(node.stdout.readline(), f"{node.pid}\n")

    def assert_named(self, node, *causes):
        """Asks until the program hangs where it will, which its output cannot tell."""
        deadline = time.monotonic() + LIMIT
        while True:
            answer = attach(PREFIX, node.pid)
            self.assertEqual(answer.returncode, 0, answer.stderr)
            if all(cause in answer.stdout for cause in causes):
                if os.environ.get("RIDDLES_SHOW"):
                    print(answer.stdout)
                return answer.stdout
            if time.monotonic() > deadline:
                self.fail(f"{causes} in\n{answer.stdout}")

    def test_1(self):
        """A receiver that keeps its messages."""
        self.start(1)
        asked, keeper = self.nodes
        self.assert_named(
            asked,
            f"endpoint to process {keeper.pid} on this host",
            "1 message waits for credit: the peer has not yet destroyed 256 active messages",
        )
        self.assert_named(keeper, "this process keeps 256 active messages of the peer")

    def test_2(self):
        """A peer that is stopped."""
        self.start(2)
        asked, stopped = self.nodes
        stopped.send_signal(signal.SIGSTOP)
        os.waitpid(stopped.pid, os.WUNTRACED)
        try:
            self.assert_named(asked, f"process {stopped.pid} ", "the peer's process is stopped")
            self.assertIn("is stopped", attach(PREFIX, stopped.pid).stdout)
        finally:
            stopped.send_signal(signal.SIGCONT)

    def test_3(self):
        """TCP where shared memory was expected."""
        self.start(3, environments=({}, {"UCX_TLS": "tcp,self"}))
        asked, other = self.nodes
        self.assert_named(
            asked,
            "over tcp/",
            "no shared memory, although the peer is on this host: UCX_TLS=tcp,self, in the "
            f"environment of process {other.pid}",
        )
        self.assert_named(other, "no shared memory", "TLS=tcp,self, set in the environment, here")

    def test_4(self):
        """A hub without a free envelope."""
        self.start(4, sides=1)
        self.assert_named(
            self.nodes[0],
            "hub: 4 envelopes of 4096 bytes, 0 free",
            "1 thread waits for a free envelope to produce into",
            "no envelope is free: 4 are leased",
            "a link that consumes on the host: holds 4 leases",
        )

    def start_group(self, number):
        group = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        group["UCXX_RS_GROUP_SECRET"] = "riddle"
        self.start(number, environments=({**group, "RANK": "0"}, {**group, "RANK": "1"}))

    def test_5(self):
        """A window lock whose holder sleeps."""
        self.start_group(5)
        asked, holder = self.nodes
        self.assert_named(
            asked,
            "a call waits for the lock of rank 0",
            f"is held exclusively by rank 1 (process {holder.pid}, which sleeps",
        )

    def test_6(self):
        """A collective call that one member does not make."""
        self.start_group(6)
        asked, other = self.nodes
        self.assert_named(
            asked,
            f"a collective call waits for rank 1 (process {other.pid}, which sleeps",
            "to make the same call",
        )


if __name__ == "__main__":
    PREFIX = Path(sys.argv.pop(1)).resolve()
    with tempfile.TemporaryDirectory() as built:
        NODE = build(PREFIX, "node", Path(built))
        unittest.main()
