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

HERE = Path(__file__).resolve().parent
LIMIT = 60  # seconds; only a hang of the test itself takes so long
PREFIX = Path()
NODE = Path()


def build(folder):
    """Builds the program, under a name that tells nothing."""
    program = folder / "node"
    library = PREFIX / "lib"
    subprocess.run(
        ["cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", HERE / "node.c", "-o", program]
        + [f"-I{PREFIX / 'include'}", f"-L{library}", f"-Wl,-rpath,{library}"]
        + ["-lucxx_rs", "-pthread"],
        check=True,
    )
    return program


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

    def environment(self, **more):
        own = {k: v for k, v in os.environ.items() if not k.startswith(("UCX_", "UCXX_"))}
        return {**own, "UCXX_RS_DEBUG_SOCKET": self.sockets.name, **more}

    def start(self, number, sides=2, environments=({}, {})):
        """Starts the sides, and waits until they are ready to hang."""
        ends = socket.socketpair()
        for side in range(sides):
            self.nodes.append(
                subprocess.Popen(
                    [NODE, str(number), str(side), str(ends[side].fileno())],
                    env=self.environment(**environments[side]),
                    pass_fds=[ends[side].fileno()],
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
        for end in ends:
            end.close()
        for node in self.nodes:
            self.assertEqual(node.stdout.readline(), f"{node.pid}\n")

    def ask(self, node):
        """The one command."""
        return subprocess.run(
            [PREFIX / "bin" / "ucxx_rs_info", "--attach", str(node.pid)],
            env={k: v for k, v in os.environ.items() if not k.startswith("UCXX_")},
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )

    def assert_named(self, node, *causes):
        """Asks until the program hangs where it will, which its output cannot tell."""
        deadline = time.monotonic() + LIMIT
        while True:
            answer = self.ask(node)
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
        try:
            self.assert_named(asked, f"process {stopped.pid} ", "the peer's process is stopped")
            self.assertIn("is stopped", self.ask(stopped).stdout)
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

    def test_5(self):
        """A window lock whose holder sleeps."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        group = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        group["UCXX_RS_GROUP_SECRET"] = "riddle"
        self.start(5, environments=({**group, "RANK": "0"}, {**group, "RANK": "1"}))
        asked, holder = self.nodes
        self.assert_named(
            asked,
            "a call waits for the lock of rank 0",
            f"is held exclusively by rank 1 (process {holder.pid}, which sleeps",
        )


if __name__ == "__main__":
    PREFIX = Path(sys.argv.pop(1)).resolve()
    with tempfile.TemporaryDirectory() as built:
        NODE = build(Path(built))
        unittest.main()
