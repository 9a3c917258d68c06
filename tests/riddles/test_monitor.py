#!/usr/bin/env python3
"""The debug socket and the watchdog: who gets an answer, and what clients, forks and ends do.

tests/riddles/test_monitor.py PREFIX [unittest's arguments]
"""

import contextlib
import os
import random
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

from programs import LIMIT, attach, build, environment

PREFIX = Path()
WATCHED = Path()
NOBODY = 65534
MOST_CLIENTS = 8  # as in text_server.rs


class Watched:
    """A process that obeys one-letter commands."""

    def __init__(self, *arguments, **variables):
        self.log = []
        self.process = subprocess.Popen(
            [WATCHED, *arguments],
            env=environment(**variables),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.pid = self.process.pid
        # Reading a line has no limit of its own.
        self.limit = threading.Timer(LIMIT, self.kill)
        self.limit.start()
        self.line("ready")

    def kill(self):
        """Its forked children too: they keep its output open."""
        if self.process.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)

    def line(self, beginning):
        for line in self.process.stdout:
            if line.startswith("log "):
                self.log.append(line.strip())
            if line.startswith(beginning):
                return line.strip()
        raise AssertionError(f"ended without a line '{beginning}'; log: {self.log}")

    def logged(self, beginning, number=1):
        """That line of the log. It may have been read while another one was awaited."""
        while len(found := [line for line in self.log if line.startswith(beginning)]) < number:
            self.line(beginning)
        return found[number - 1]

    def tell(self, command, answer="done"):
        self.process.stdin.write(command)
        self.process.stdin.flush()
        return self.line(answer)

    def end(self):
        self.limit.cancel()
        self.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def has_thread(self, name):
        """Whether it has one with this name. A joined thread may be listed for a moment longer."""
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(OSError):
                if (task / "comm").read_text().strip() == name:
                    return True
        return False

    def sleeps(self):
        """Whether its first thread does. It answers a command before it waits for the next."""
        return Path(f"/proc/{self.pid}/stat").read_text().split()[2] == "S"


def driven(ask):
    """What is said of a worker whose thread drives it.

    On a busy machine that thread may not run for as long as the monitor waits: half a second.
    """

    def text():
        said = ask()
        return "has not called the library" not in said and said

    return until(text)


def until(condition):
    """Waits for what nobody tells, and returns it."""
    end = time.monotonic() + LIMIT
    while not (found := condition()):
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.001)
    return found


def connect(path):
    client = socket.socket(socket.AF_UNIX)
    # Waits for a place in the listener's queue, which Python's own time limits would not.
    client.connect(str(path))
    client.settimeout(LIMIT)
    return client


def received_as(user, path):
    """What a process of this user gets first; None if it cannot connect."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            os.write(writing, b"=" + connect(path).recv(1))
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with open(reading, "rb") as result:
        text = result.read()
    return text[1:] if text else None


def everything(client):
    text = b""
    try:
        while part := client.recv(65536):
            text += part
    except ConnectionResetError:  # what was sent to the socket, nobody has read
        pass
    client.close()
    return text.decode()


class Monitor(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir="/tmp")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def start(self, *arguments, **variables):
        variables.setdefault("UCXX_RS_DEBUG_SOCKET", str(self.folder))
        watched = Watched(*arguments, **variables)
        self.addCleanup(watched.end)
        return watched

    def path(self, watched):
        return self.folder / f"ucxx_rs.{watched.pid}.sock"

    def assert_answers(self, watched):
        text = everything(connect(self.path(watched)))
        self.assertIn(f"process {watched.pid} (watched): ucxx_rs ", text)
        return text

    def test_a_thread_that_drives_answers_itself(self):
        watched = self.start()
        watched.tell("r")
        watched.tell("d", "drives")
        text = driven(lambda: attach(PREFIX, watched.pid).stdout)
        self.assertIn('worker "watched"', text)
        self.assertIn("endpoint to this worker itself", text)
        self.assertIn("tag receive: for about ", text)

    def test_a_message_without_a_receive_is_shown(self):
        watched = self.start()
        watched.tell("r")
        watched.tell("u")
        watched.tell("d", "drives")
        text = driven(lambda: attach(PREFIX, watched.pid).stdout)
        self.assertIn("a message has come that no receive takes: 8 bytes, tag 0x6", text)
        self.assertIn("tag receive: for about ", text)
        self.assertIn("no message with its tag has come completely", text)

    def test_a_thread_that_is_elsewhere_is_named(self):
        watched = self.start()
        watched.tell("r")
        until(watched.sleeps)
        text = attach(PREFIX, watched.pid).stdout
        self.assertRegex(text, r"its thread has not called the library for \d+ ms")
        self.assertIn(f'thread {watched.pid} "watched", which sleeps', text)
        self.assertIn("1 in flight", text)

    def test_the_file_is_of_the_user_alone_and_goes_with_the_worker(self):
        watched = self.start()
        self.assertEqual(stat.S_IMODE(self.path(watched).stat().st_mode), 0o600)
        # The thread that answers has its name.
        self.assert_answers(watched)
        self.assertTrue(watched.has_thread("ucxx_monitor"))
        watched.tell("e")
        self.assertFalse(self.path(watched).exists())
        until(lambda: not watched.has_thread("ucxx_monitor"))

    def test_the_file_goes_with_the_process(self):
        watched = self.start()
        self.assertTrue(self.path(watched).exists())
        watched.process.stdin.write("x")
        watched.process.stdin.flush()
        self.assertEqual(watched.process.wait(LIMIT), 0)
        self.assertFalse(self.path(watched).exists())

    def test_nothing_is_there_unless_asked_for(self):
        watched = self.start(UCXX_RS_DEBUG_SOCKET="")
        self.assertFalse(watched.has_thread("ucxx_monitor"))
        self.assertEqual(list(self.folder.iterdir()), [])
        answer = attach(PREFIX, watched.pid)
        self.assertEqual(answer.returncode, 1)
        self.assertIn("was started without UCXX_RS_DEBUG_SOCKET", answer.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "becomes another user")
    def test_another_user_is_refused(self):
        watched = self.start()
        # The file's mode is the first fence; this is about the second.
        self.folder.chmod(0o777)
        self.path(watched).chmod(0o666)
        self.assertEqual(received_as(os.geteuid(), self.path(watched)), b"p")
        self.assertEqual(received_as(NOBODY, self.path(watched)), b"")

    def test_hostile_bytes(self):
        seed = random.randrange(1 << 32)
        print(f"seed {seed}")
        watched = self.start()
        chance = random.Random(seed)
        for _ in range(50):
            client = connect(self.path(watched))
            client.setblocking(False)
            try:
                client.send(chance.randbytes(chance.randrange(1 << 18)))
            except (BlockingIOError, BrokenPipeError):
                pass
            if chance.random() < 0.5:
                client.shutdown(socket.SHUT_WR)
            client.close()
        self.assert_answers(watched)

    def test_many_clients(self):
        watched = self.start()
        watched.tell("d", "drives")
        clients = []
        threads = []
        for _ in range(100):
            thread = threading.Thread(
                target=lambda: clients.append(everything(connect(self.path(watched))))
            )
            threads.append(thread)
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(clients), 100)
        for text in clients:
            self.assertIn('worker "watched"', text)

    def test_slow_clients_keep_nobody_out(self):
        # An answer that the kernel does not take at once.
        watched = self.start("5000")
        watched.tell("d", "drives")
        slow = [connect(self.path(watched)) for _ in range(MOST_CLIENTS)]
        text = driven(lambda: self.assert_answers(watched))
        self.assertEqual(text.count("endpoint to this worker itself"), 5000)
        for client in slow:
            client.close()

    def test_what_an_ended_process_left_is_replaced(self):
        path = self.folder / "one"
        first = self.start(UCXX_RS_DEBUG_SOCKET=str(path))
        first.process.kill()
        first.process.wait()
        self.assertTrue(path.exists())
        answer = attach(PREFIX, path)
        self.assertEqual(answer.returncode, 1)
        self.assertIn("the process that made it has ended", answer.stderr)
        second = self.start(UCXX_RS_DEBUG_SOCKET=str(path))
        self.assertIn(f"process {second.pid} ", everything(connect(path)))
        # A third one does not take it from the second.
        third = self.start(UCXX_RS_DEBUG_SOCKET=str(path))
        self.assertTrue(any("no debug socket" in line for line in third.log), third.log)
        self.assertIn(f"process {second.pid} ", everything(connect(path)))
        third.tell("e")
        self.assertIn(f"process {second.pid} ", everything(connect(path)))

    def test_other_files_stay(self):
        path = self.folder / "precious"
        path.write_text("content")
        watched = self.start(UCXX_RS_DEBUG_SOCKET=str(path))
        self.assertTrue(any("no debug socket" in line for line in watched.log), watched.log)
        watched.tell("e")
        self.assertEqual(path.read_text(), "content")

    def test_the_pid_is_put_into_the_path(self):
        watched = self.start(UCXX_RS_DEBUG_SOCKET=f"{self.folder}/of-%p")
        self.assertTrue((self.folder / f"of-{watched.pid}").is_socket())
        self.assertIn('worker "watched"', attach(PREFIX, watched.pid).stdout)

    def test_a_forked_child_has_its_own(self):
        watched = self.start()
        # Its monitor has allocated then. If a thread maps memory during the fork, the child hangs:
        # docs/known-issues.md, "A forked child uses UCX".
        self.assert_answers(watched)
        child = int(watched.tell("f", "child ").split()[1])
        watched.line("child is ready")
        own = self.folder / f"ucxx_rs.{child}.sock"
        text = everything(connect(own))
        self.assertIn(f"process {child} ", text)
        self.assertNotIn("endpoint", text)
        os.kill(child, signal.SIGKILL)
        watched.tell("d", "drives")
        self.assertIn("endpoint", driven(lambda: self.assert_answers(watched)))

    def test_a_stopped_process_is_recognised(self):
        watched = self.start()
        watched.process.send_signal(signal.SIGSTOP)
        try:
            os.waitpid(watched.pid, os.WUNTRACED)
            for whom in (watched.pid, self.path(watched)):
                answer = attach(PREFIX, whom)
                self.assertEqual(answer.returncode, 0, answer.stderr)
                self.assertIn(f"process {watched.pid} is stopped", answer.stdout)
        finally:
            watched.process.send_signal(signal.SIGCONT)
        self.assert_answers(watched)

    def test_mistakes_are_named(self):
        answer = attach(PREFIX, 2**30)
        self.assertEqual((answer.returncode, answer.stdout), (1, ""))
        self.assertIn("there is no process", answer.stderr)
        answer = attach(PREFIX, "/nowhere")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("/nowhere: No such file", answer.stderr)

    def test_the_watchdog_reports_a_stall_once_and_its_end(self):
        watched = self.start(UCXX_RS_STALL_MS="300")
        watched.tell("r")
        first = watched.logged("log watchdog: no operation has ended for")
        self.assertIn('worker "watched"', first)
        # Its end is a later event than a second report would be.
        watched.tell("s")
        watched.logged('log watchdog: worker "watched" goes on after')
        end = next(at for at, line in enumerate(watched.log) if "goes on after" in line)
        reports = [line for line in watched.log[:end] if "no operation has ended" in line]
        self.assertEqual(len(reports), 1, watched.log)
        self.assertTrue(any("has not called the library" in line for line in watched.log))
        # The next stall is a new one.
        watched.tell("r")
        watched.logged("log watchdog: no operation has ended for", number=2)

    def test_wrong_values_are_named(self):
        watched = self.start(UCXX_RS_STALL_MS="soon")
        self.assertTrue(any("UCXX_RS_STALL_MS=soon" in line for line in watched.log), watched.log)
        self.assert_answers(watched)


if __name__ == "__main__":
    PREFIX = Path(sys.argv.pop(1)).resolve()
    with tempfile.TemporaryDirectory() as built:
        WATCHED = build(PREFIX, "watched", Path(built))
        unittest.main()
