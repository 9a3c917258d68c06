#!/usr/bin/env python3
"""scripts/group.sh: its members get their environment, its exit status reports theirs, and none of
them is left running.

tests/tools/test_group.py [unittest's arguments]
"""

import os
import signal
import subprocess
import threading
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "group.sh"
LIMIT = 60  # seconds; only a hang takes so long


def heed_interrupts():
    """A background process ignores interrupts, and a shell that ignores them from the start cannot
    change that.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def end_session(leader):
    """The members have process groups of their own."""
    subprocess.run(["pkill", "-KILL", "-s", str(leader)], check=False)


class Group(unittest.TestCase):
    def start(self, size, command):
        """In its own process group, as a shell starts it. Its output ends when all processes that
        inherited it have ended.
        """
        environment = {
            name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")
        }
        process = subprocess.Popen(
            [SCRIPT, str(size), "bash", "-c", command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
            preexec_fn=heed_interrupts,
        )
        limit = threading.Timer(LIMIT, end_session, [process.pid])
        limit.start()
        self.addCleanup(limit.cancel)
        return process

    def test_members_find_who_they_are(self):
        said, _ = (
            process := self.start(
                5, "echo $RANK $WORLD_SIZE $MASTER_ADDR $MASTER_PORT $UCXX_RS_GROUP_SECRET"
            )
        ).communicate()
        self.assertEqual(process.returncode, 0)
        ranks, *common = zip(*(line.split() for line in said.splitlines()))
        self.assertEqual(sorted(ranks), list("01234"))
        self.assertTrue(all(len(set(each)) == 1 for each in common), common)
        self.assertEqual((common[0][0], common[1][0]), ("5", "127.0.0.1"))
        self.assertGreaterEqual(len(common[3][0]), 40)

    def test_the_first_that_fails_ends_the_others(self):
        # One member has a child process, one takes its time.
        command = "case $RANK in 0) echo; sleep 1000 & wait;; 1) trap 'exit 3' TERM; echo; while :; do sleep 0.01; done;; 2) exit 9;; esac"
        said, errors = (process := self.start(3, command)).communicate()
        self.assertEqual(process.returncode, 9, said + errors)
        self.assertIn("rank 2 has ended with status 9", errors)

    def test_who_ignores_the_request_is_killed(self):
        process = self.start(2, "trap '' TERM; echo here; while :; do sleep 1; done")
        for _ in range(2):
            self.assertEqual(process.stdout.readline(), "here\n")
        process.send_signal(signal.SIGTERM)
        process.communicate()
        self.assertEqual(process.returncode, 128 + signal.SIGTERM)

    def test_an_interrupt_ends_all(self):
        process = self.start(3, "echo here; sleep 1000 & wait")
        for _ in range(3):
            self.assertEqual(process.stdout.readline(), "here\n")
        process.send_signal(signal.SIGINT)
        process.communicate()
        self.assertEqual(process.returncode, 128 + signal.SIGINT)

    def test_usage(self):
        for size, program in (("0", "true"), ("x", "true"), ("2", "no-such-program")):
            done = subprocess.run(
                [SCRIPT, size, program], capture_output=True, text=True, timeout=LIMIT, check=False
            )
            self.assertEqual(done.returncode, 1)
            self.assertIn("group.sh: ", done.stderr)


if __name__ == "__main__":
    unittest.main()
