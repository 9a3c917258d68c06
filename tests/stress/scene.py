"""A scene: some tests at a time, and the disturbances around them."""

import ctypes
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import cases
import stuck

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import clean_environment
import ucx_ends

SKIPPED = 77
STOPPED, RUNNING = 0.075, 0.025  # seconds, alternating
CARDS = 40  # the most tests of a scene
LONGEST = 90  # seconds in which a scene starts tests
SLOWEST = 240  # the longest expected time of a test in a scene, in seconds
# The tests' own guards: they never end a test here, as the harness examines a hang first.
GUARD = "1000000"
# Programs that are no test, but start one.
STARTERS = re.compile(
    r"^(\S*/)?(cmake|bash|sh|python3?|sleep|env|taskset|setpriv|timeout|mktemp)\b"
)


def begin(cores):
    """Runs in the new process: restricts it to these cores, and ends it when the harness is killed.
    Its own children are not ended.
    """

    def prepare():
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        os.sched_setaffinity(0, cores)

    return prepare


class Scene:
    """A scene, derived from a seed and a number."""

    def __init__(self, seed, number, deck, releases):
        draw = random.Random(f"{seed}:{number}")
        self.number = number
        self.release = draw.choice(sorted(releases))
        self.at_a_time = draw.randint(2, 6)
        self.busy_loops = draw.choice((0, 0, 1, 2, 3))
        self.one_core = draw.random() < 0.3
        self.stops = draw.random() < 0.3
        self.without_keepalive = draw.random() < 0.2
        self.test_seed = draw.getrandbits(63)
        # Each test runs once before any runs again; the seed gives the order.
        order = [
            card
            for turn in range(1 + (number + 1) * CARDS // len(deck))
            for card in random.Random(f"{seed}:deck:{turn}").sample(range(len(deck)), len(deck))
        ]
        self.cards = order[number * CARDS : (number + 1) * CARDS]

    def slowness(self):
        """About how much longer a test takes than alone."""
        cores = 1 if self.one_core else len(os.sched_getaffinity(0))
        return max(1, (self.at_a_time + self.busy_loops) / cores) * (3 if self.stops else 1)

    def told(self):
        return (
            f"UCX {self.release}, {self.at_a_time} at a time, {self.busy_loops} busy loops"
            + (", one core" if self.one_core else "")
            + (", stops" if self.stops else "")
            + (", UCX_KEEPALIVE_INTERVAL=inf" if self.without_keepalive else "")
        )


class Run:
    """A running test, in a session of its own."""

    def __init__(self, scene, case, card, stage):
        self.case = case
        stage.runs += 1
        self.log = stage.logs / f"{stage.runs:05}-{case.name}.log"
        self.began = time.monotonic()
        environment = clean_environment.environment(**case.environment)
        environment.update(
            LD_PRELOAD=str(stage.dump) if case.is_dumped else "",
            UCXX_TEST_SECONDS=GUARD,
            EXAMPLE_TIMEOUT=GUARD,
            UCXX_TEST_SEED=hex(scene.test_seed + card),
            LD_LIBRARY_PATH=stage.releases[scene.release],
        )
        if scene.without_keepalive and not cases.NEEDS_KEEPALIVE.match(case.name):
            environment["UCX_KEEPALIVE_INTERVAL"] = "inf"
        command = list(case.command)
        if case.name == "faults":
            command += ["--seed", f"{scene.test_seed + card:x}"]
            if stage.releases[scene.release]:
                command += ["--ucx", stage.releases[scene.release]]
        cores = {min(os.sched_getaffinity(0))} if scene.one_core else os.sched_getaffinity(0)
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                command,
                env=environment,
                cwd=case.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=begin(cores),
            )

    def pids(self):
        return stuck.session(self.process.pid)

    def said(self):
        return self.log.read_text(encoding="utf-8", errors="replace")

    def give_all_cores(self, cores):
        threads = [thread for pid in self.pids() for thread in Path(f"/proc/{pid}/task").glob("*")]
        for thread in threads:
            try:
                os.sched_setaffinity(int(thread.name), cores)
            except OSError:
                pass

    def end(self):
        for pid in self.pids():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        self.process.wait()


class Stopper(threading.Thread):
    """Stops a process of each running test for three quarters of the time, a new one each time."""

    def __init__(self, runs, draw):
        super().__init__(daemon=True)
        self.runs = runs
        self.draw = draw
        self.over = threading.Event()

    def run(self):
        while not self.over.is_set():
            stopped = []
            for run in list(self.runs):
                pids = (
                    [pid for pid in run.pids() if not STARTERS.match(stuck.command(pid))]
                    if run.case.may_be_stopped
                    else []
                )
                if pids:
                    stopped.append(self.draw.choice(pids))
            self.tell(stopped, signal.SIGSTOP)
            self.over.wait(STOPPED)
            self.tell(stopped, signal.SIGCONT)
            self.over.wait(RUNNING)

    @staticmethod
    def tell(pids, number):
        for pid in pids:
            try:
                os.kill(pid, number)
            except OSError:
                pass


class Verdicts:
    """The results of the tests, and where the output of failed ones is."""

    def __init__(self):
        self.passed = self.skipped = 0
        self.by_ucx = []
        self.failed = []

    def take(self, scene, run):
        status = run.process.returncode
        if status in (0, SKIPPED):
            self.passed += status == 0
            self.skipped += status == SKIPPED
            run.log.unlink()
            return
        text = run.said()
        line = ucx_ends.in_test(run.case.name, text, scene.release)
        if line:
            self.by_ucx.append(run.case.name)
            print(f"ended by UCX: {line}: {run.case.name} on {scene.release}", flush=True)
        else:
            self.fault(scene, run, f"ended with {status}")

    def fault(self, scene, run, what):
        self.failed.append(run.case.name)
        print(
            f"FAILED {run.case.name}: {what}; scene {scene.number}: {scene.told()}; {run.log}",
            flush=True,
        )
        for line in run.said().splitlines()[-12:]:
            print(f"  | {line[:200]}")
        sys.stdout.flush()

    def stands_still(self, scene, run):
        text = stuck.evidence(run.process.pid)
        run.log.with_suffix(".stuck").write_text(text, encoding="utf-8")
        self.fault(
            scene,
            run,
            f"HANGS after {time.monotonic() - run.began:.0f} s, {run.log.with_suffix('.stuck')}",
        )


def play(scene, deck, stage, verdicts, until):
    """Plays the scene, and leaves nothing running when interrupted."""
    runs = []
    try:
        disturb_and_judge(scene, runs, deck, stage, verdicts, until)
    finally:
        for run in runs:
            run.end()


def disturb_and_judge(scene, runs, deck, stage, verdicts, until):
    """Runs the scene's tests. All disturbances end with the scene, so a test that then hangs does
    so by itself.
    """
    cores = os.sched_getaffinity(0)
    used = {min(cores)} if scene.one_core else cores
    loops = [
        subprocess.Popen(["sh", "-c", "while :; do :; done"], preexec_fn=begin(used))
        for _ in range(scene.busy_loops)
    ]
    stopper = Stopper(runs, random.Random(scene.test_seed)) if scene.stops else None
    if stopper:
        stopper.start()
    began = time.monotonic()
    cards = [card for card in scene.cards if deck[card].cost * scene.slowness() < SLOWEST]
    try:
        while (cards or runs) and time.monotonic() < min(until, began + LONGEST):
            while cards and len(runs) < scene.at_a_time:
                card = cards.pop(0)
                runs.append(Run(scene, deck[card], card, stage))
            reap(scene, runs, verdicts)
    finally:
        if stopper:
            stopper.over.set()
            stopper.join()
        for loop in loops:
            loop.kill()
            loop.wait()
        for run in runs:
            run.give_all_cores(cores)
    calm = time.monotonic()
    while runs:
        reap(scene, runs, verdicts)
        for run in list(runs):
            if run.process.poll() is None and time.monotonic() > calm + run.case.patience:
                verdicts.stands_still(scene, run)
                run.end()
                runs.remove(run)


def reap(scene, runs, verdicts):
    for run in list(runs):
        if run.process.poll() is not None:
            # No process may be left; detecting a death takes a moment.
            limit = time.monotonic() + 10 * scene.slowness()
            while run.pids() and time.monotonic() < limit:
                time.sleep(0.05)
            if run.pids():
                print(
                    f"{run.case.name} has ended with {run.process.returncode}, and left processes"
                )
                verdicts.stands_still(scene, run)
            else:
                verdicts.take(scene, run)
            run.end()
            runs.remove(run)
    time.sleep(0.02)


class Stage:
    """Folders and files."""

    def __init__(self, prefix, logs, releases):
        self.logs = logs
        self.runs = 0
        self.releases = releases  # name: folder of its libraries, "" for the system's
        self.dump = logs / "dump.so"
        shutil.rmtree(logs, ignore_errors=True)
        logs.mkdir(parents=True)
        subprocess.run(
            [
                "gcc",
                "-O1",
                "-g",
                "-shared",
                "-fPIC",
                f"-I{prefix / 'include'}",
                str(Path(__file__).with_name("dump.c")),
                "-o",
                str(self.dump),
                "-ldl",
            ],
            check=True,
        )
