"""What the tests of the command line tools share: tools that run, and checks of results."""

import json
import re
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import clean_environment

LIMIT = 60  # seconds; only a hang takes so long
TRANSPORTS = {"shm": "posix,cma,self", "tcp": "tcp,self"}
BIN = Path()


def environment(transport=None, **more):
    tls = {"UCX_TLS": TRANSPORTS[transport]} if transport else {}
    return clean_environment.environment(**{**tls, **more})


def ucx_release():
    return re.search(r"UCX +(\d[\d.]*)", tool("ucxx_rs_info", "--versions").stdout).group(1)


def program(name):
    return BIN / name


def tool(name, *arguments, env=None):
    return subprocess.run(
        [BIN / name, *arguments],
        env=env or environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )


class Running:
    """A tool in the background, whose output is read line by line."""

    def __init__(self, name, *arguments, env):
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [BIN / name, *arguments], env=env, stdout=subprocess.PIPE, stderr=self.errors, text=True
        )
        # Reading a line has no limit of its own.
        self.limit = threading.Timer(LIMIT, self.process.kill)
        self.limit.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.limit.cancel()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.errors.close()

    def line_with(self, text):
        for line in self.process.stdout:
            if text in line:
                return line
        raise AssertionError(f"no line with {text!r}; stderr: {self.said()}")

    def said(self):
        self.errors.seek(0)
        return self.errors.read()

    def end(self):
        """Exit status and the remaining stdout."""
        output, _ = self.process.communicate(timeout=LIMIT)
        return self.process.returncode, output


class Server(Running):
    def __init__(self, *arguments, env, name="ucxx_rs_perftest", port_option="-p"):
        super().__init__(name, port_option, "0", *arguments, env=env)
        self.port = re.search(r"\d+", self.line_with("listening on port")).group()


class Case(unittest.TestCase):
    def check_report(self, report, sizes, transport, threads=1):
        self.assertIsNone(report["error"])
        self.assertIn({"shm": "posix", "tcp": "tcp"}[transport], report["transports"])
        self.assertEqual([row["bytes"] for row in report["results"]], sizes)
        for row in report["results"]:
            times = [row[key] for key in ("p50_us", "p90_us", "p99_us", "p99_9_us", "max_us")]
            self.assertEqual(times, sorted(times))
            self.assertGreater(times[0], 0)
            self.assertGreater(row["messages_per_second"], 0)
            self.assertAlmostEqual(
                row["messages_per_second"] * row["bytes"] / 1e6,
                row["megabytes_per_second"],
                delta=1,
            )
            if threads == 1:
                # The rate has one decimal, the average six.
                average_us, rate = row["average_us"], row["messages_per_second"]
                self.assertAlmostEqual(
                    average_us * rate, 1e6, delta=1 + 0.05 * average_us + 0.5e-6 * rate
                )


class Between(Case):
    """Measurements between two processes."""

    def measure(self, transport, *arguments, server=(), host="localhost"):
        env = environment(transport)
        with Server(*server, env=env) as running:
            client = tool(
                "ucxx_rs_perftest", "-p", running.port, host, "--json", *arguments, env=env
            )
            self.assertEqual(client.returncode, 0, client.stderr)
            status, output = running.end()
            self.assertEqual(status, 0, running.said())
            self.assertIn("served", output)
        return json.loads(client.stdout)


def main():
    """Runs the tests of the calling file on the installation that its command line names."""
    global BIN
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(f"usage: {sys.argv[0]} PREFIX [unittest's arguments]")
    BIN = Path(sys.argv.pop(1)).resolve() / "bin"
    unittest.main(verbosity=2)
