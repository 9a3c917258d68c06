"""The processes of a round: starts, commands, reads and kills them."""

import os
import re
import resource
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import ucx_ends
from pulse import Pulse

WATCHDOG = 20  # seconds; only a hang takes so long

TRANSPORTS = {
    "shm": "posix,cma,self",
    "tcp": "tcp,self",
    "default": None,
    "link": "tcp,self",
    "hosts": "tcp,self",
}


class Violation(Exception):
    """An invariant does not hold, and the round cannot continue."""

    def __init__(self, invariant, text, actor=None):
        super().__init__(f"{invariant}: {text}")
        self.invariant = invariant
        self.actor = actor


class KnownAbort(Exception):
    """UCX ended the process in a known way."""

    def __init__(self, what, actor):
        super().__init__(f"{what} in {actor.name}")
        self.what = what

    def label(self):
        return self.what


def parse(words):
    return dict(word.split("=", 1) for word in words if "=" in word)


def keep_core():
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def stacks(*arguments):
    """gdb's backtraces of a process or a core, if gdb is installed."""
    if not shutil.which("gdb"):
        return ""
    done = subprocess.run(
        ["gdb", "-q", "-batch", *arguments, "-ex", "thread apply all bt 40"],
        capture_output=True,
        text=True,
        check=False,
    )
    return "\n".join(
        line[:200]
        for line in done.stdout.splitlines()
        if line.startswith(("#", "Thread", "Program"))
    )


def cores(home, pid):
    """Core files of a process that ran in the folder; see core(5) for the name pattern."""
    pattern = Path("/proc/sys/kernel/core_pattern").read_text(encoding="utf-8").strip()
    folder, name = os.path.split(pattern)
    if pattern.startswith("|") or "%" in folder:
        return []
    # In some patterns the number is the thread's, in others the process's; it may be appended to
    # the name.
    numbered = re.search("%[pPiI]", name) is not None
    found = Path(home, folder).glob(re.sub("%.", "*", name) + "*")
    return [
        path
        for path in found
        if folder in ("", ".") or (numbered and str(pid) in re.split(r"\D+", path.name))
    ]


class Field:
    """All actors, and the one place that waits for them."""

    def __init__(self, program, environment, folder, watchdog=WATCHDOG):
        self.program = program
        self.environment = environment
        self.folder = Path(folder)
        self.ucx = ""
        self.watchdog = watchdog
        self.selector = selectors.DefaultSelector()
        self.pulse = Pulse()
        self.count = 0
        self.actors = []

    def start(self, name, transports, prefix=(), **worker):
        """A process with a worker. `prefix` precedes the command, to start it in a namespace."""
        actor = Actor(self, name, transports, prefix)
        self.actors.append(actor)
        actor.mode = worker.get("mode", "single")
        actor.drive = worker.pop("drive", "sleep")
        if actor.drive != "sleep":
            actor.call("drive", how=actor.drive)
        actor.address = actor.call("worker", **worker)["address"]
        return actor

    def pump(self, limit):
        for key, _ in self.selector.select(max(0, limit)):
            key.data.read()

    def until(self, condition, limit=WATCHDOG):
        """Whether the condition held in time. Standstills of the machine do not count."""
        begin = time.monotonic()
        while not condition():
            now = time.monotonic()
            left = begin + limit + self.pulse.stood_still(begin, now) - now
            if left <= 0:
                return False
            self.pump(left)
        return True

    def remove(self, actor):
        actor.kill()
        if actor in self.actors:
            self.actors.remove(actor)

    def clear(self):
        for actor in list(self.actors):
            self.remove(actor)


class Actor:
    def __init__(self, field, name, transports, prefix=()):
        field.count += 1
        self.field = field
        self.name = name
        self.transports = transports
        self.number = field.count
        environment = dict(field.environment, UCXX_RS_LOG="warn")
        if TRANSPORTS[transports]:
            environment["UCX_TLS"] = TRANSPORTS[transports]
        self.log = field.folder / f"{self.number:05}-{name}.log"
        # A folder of its own, for its core: several may crash at once.
        self.home = field.folder / f"{self.number:05}"
        self.home.mkdir()
        with open(self.log, "wb") as errors:
            self.process = subprocess.Popen(
                [*prefix, field.program],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,
                cwd=self.home,
                preexec_fn=keep_core,
            )
        self.events = []
        self.waiting = deque()  # commands without an answer yet
        self.posted = deque()  # commands whose answer nobody has taken
        self.partial = b""
        self.ended = False  # its output has ended
        self.killed = False  # by the harness
        self.violations = []
        self.dropping = set()  # endpoints that their own on_close destroys
        self.kept = set()  # leftovers of UCX found in it
        self.ids = 0
        field.selector.register(self.process.stdout, selectors.EVENT_READ, self)

    # ---------------------------------------------------------------- commands

    def read(self):
        data = os.read(self.process.stdout.fileno(), 65536)
        if not data:
            self.ended = True
            self.field.selector.unregister(self.process.stdout)
            return
        *lines, self.partial = (self.partial + data).split(b"\n")
        for line in lines:
            words = line.decode(errors="replace").split()
            if words[0] in ("ok", "no"):
                token = self.waiting.popleft()
                assert token["verb"] == words[1], (token, line)
                token["answer"] = parse(words[2:])
                if words[0] == "no":
                    token["answer"]["failed"] = " ".join(words[2:])
                continue
            event = parse(words[2:])
            event["what"] = words[1]
            self.events.append(event)
            if words[1] == "violation":
                self.violations.append(f"{self.name}: " + " ".join(words[2:]))

    def post(self, verb, **values):
        """Sends a command; `result` returns its answer, in the order of the posts."""
        self.posted.append(self.send(verb, values))

    def send(self, verb, values):
        text = " ".join([verb] + [f"{name}={value}" for name, value in values.items()]) + "\n"
        token = {"verb": verb, "text": text[:200].strip(), "answer": None}
        try:
            self.process.stdin.write(text.encode())
        except OSError:
            raise self.gone(verb) from None
        self.waiting.append(token)
        return token

    def result(self, limit=None, token=None):
        """The answer to the oldest post: its values, with "failed" if the answer is no."""
        token = token or self.posted.popleft()
        self.field.until(
            lambda: token["answer"] is not None or self.ended, limit or self.field.watchdog
        )
        if token["answer"] is None:
            if self.ended:
                raise self.gone(token["text"])
            raise Violation(
                "bound", f"{self.name} hangs in: {token['text']}\n{self.backtrace()}", self
            )
        return token["answer"]

    def call(self, verb, limit=None, **values):
        values = self.result(limit, self.send(verb, values))
        if "failed" in values:
            raise Violation("completion", f"{self.name}: {verb} failed: {values['failed']}", self)
        return values

    def find(self, what, **match):
        for event in self.events:
            if event["what"] == what and all(
                event.get(key) == str(value) for key, value in match.items()
            ):
                return event
        return None

    def wait(self, what, limit=None, **match):
        """The event, or None if it did not arrive in time."""
        self.field.until(
            lambda: self.find(what, **match) or self.ended, limit or self.field.watchdog
        )
        event = self.find(what, **match)
        if event is None and self.ended:
            raise self.gone(f"waiting for {what} {match}")
        return event

    def next_id(self):
        self.ids += 1
        return self.ids

    # ---------------------------------------------------------------- life and death

    def said(self):
        return self.log.read_text(errors="replace")

    def crashed(self):
        """Was it ended by a signal that nobody sent?"""
        return (self.process.poll() or 0) < 0 and not self.killed

    def gone(self, doing):
        """Raises the reason why the process has ended."""
        status = self.process.wait()
        self.killed = True  # reported once
        text = self.said()
        line = ucx_ends.abort(text, self.field.ucx) if status == -signal.SIGABRT else None
        if line:
            return KnownAbort(f"UCX abort at {line}", self)
        core = self.core()
        if status in (-signal.SIGSEGV, -signal.SIGABRT):
            name = ucx_ends.crash(
                core.rpartition("Thread 1 ")[2], self.field.ucx, status == -signal.SIGABRT
            )
            if name:
                return KnownAbort(f"UCX crash: {name}", self)
        return Violation(
            "survivors",
            f"{self.name} ended with {status} in: {doing}\n{text[-2000:]}\n{core}",
            self,
        )

    def core(self):
        """The backtrace of its core, if the system writes cores to files."""
        for path in cores(self.home, self.process.pid):
            return stacks(str(self.field.program), str(path))
        return ""

    def backtrace(self):
        """For a process that hangs: its output and its backtrace."""
        text = f"log of {self.name}:\n{self.said()[-2000:]}"
        return (
            text + "\n" + stacks("-p", str(self.process.pid))
            if self.process.poll() is None
            else text
        )

    def send_signal(self, number):
        """Sends it; returns the time just before, on the clock that actors use as well.

        For SIGKILL it is the time of the end: a process that waits for a disk ends after that wait.
        """
        self.killed = self.killed or number == signal.SIGKILL
        at = time.monotonic()
        os.kill(self.process.pid, number)
        if number == signal.SIGKILL:
            os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)
            at = time.monotonic()
        if number == signal.SIGSTOP:
            # Its threads stop one after the other, a busy one some time after the first.
            os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)
        return at

    def kill(self):
        if self.process.poll() is None:
            self.killed = True
            self.process.kill()
            self.process.wait()
        if not self.ended:
            self.field.selector.unregister(self.process.stdout)
            self.ended = True
        self.process.stdin.close()
        self.process.stdout.close()
        shutil.rmtree(self.home)
