#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) the ucxx_rs developers
"""The library has the probes that docs/tracing.md lists, and UCXX_RS_TRACE writes traces that are
complete: each operation begins and ends, and each message goes from one process to the other.

tests/tools/test_trace.py PREFIX [unittest's arguments]
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import unittest
from collections import Counter, defaultdict
from pathlib import Path

from running import TRANSPORTS, environment

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 120  # seconds; only a hang takes so long
ROUNDS = 40  # as in ping_pong.c
PREFIX = Path()
FOLDER = tempfile.TemporaryDirectory()


def build(source):
    """The program of a source file, built once."""
    program = Path(FOLDER.name) / source.stem
    if not program.exists():
        environment = {**os.environ, "PKG_CONFIG_PATH": str(PREFIX / "lib" / "pkgconfig")}
        flags = subprocess.check_output(
            ["pkg-config", "--cflags", "--libs", "ucxx_rs"], env=environment, text=True
        )
        include = ["-I", str(ROOT / "c_examples"), "-Wl,-rpath," + str(PREFIX / "lib")]
        command = ["cc", "-o", str(program), str(source), *include, *shlex.split(flags), "-pthread"]
        subprocess.run(command, check=True)
    return program


def ends_of(sides):
    """The exit statuses of both, which end soon."""
    try:
        return [side.wait(timeout=LIMIT) for side in sides]
    finally:
        for side in sides:
            side.kill()
            side.wait()


class Trace:
    """What a pair of processes has written."""

    def __init__(self, source, transport):
        program = build(source)
        self.folder = tempfile.TemporaryDirectory()
        folder = Path(self.folder.name)
        sides = [
            subprocess.Popen(
                [program, str(rank), folder / "socket"],
                env=environment(transport, UCXX_RS_TRACE=f"{folder}/%p.json"),
                stdout=subprocess.DEVNULL,
            )
            for rank in range(2)
        ]
        statuses = ends_of(sides)
        assert statuses == [0, 0], f"{source.stem} over {transport}: {statuses}"
        self.paths = [folder / f"{side.pid}.json" for side in sides]
        self.sides = [json.loads(path.read_text())["traceEvents"] for path in self.paths]

    def joined(self):
        """The events in the file that trace.py makes of both."""
        output = Path(self.folder.name) / "joined.json"
        self.tool("merge", output)
        return json.loads(output.read_text())["traceEvents"]

    def tool(self, what, output, *options):
        tool = PREFIX / "share" / "ucxx_rs" / "trace.py"
        command = [sys.executable, tool, what, *self.paths, "-o", output, *options]
        subprocess.run(command, check=True)


def nanoseconds(microseconds):
    return round(microseconds * 1000)


class Probes(unittest.TestCase):
    def test_the_library_has_the_probes_of_the_page(self):
        library = PREFIX / "lib" / "libucxx_rs.so"
        notes = subprocess.check_output(["readelf", "--notes", "--wide", library], text=True)
        found = re.findall(r"Provider: (\S+)\s+Name: (\S+)\s.*?Arguments: ([^\n]*)", notes, re.S)
        page = (ROOT / "docs" / "tracing.md").read_text()
        table = page.split("<!-- probes -->")[1].split("<!-- end of probes -->")[0]
        documented = {
            name: len(arguments.split(","))
            for name, arguments in re.findall(r"^\| `(\w+)` \|[^|]*\| ([^|]+) \|$", table, re.M)
        }
        ours = {(name, args.count("@")) for provider, name, args in found if provider == "ucxx_rs"}
        self.assertEqual(ours, set(documented.items()))
        self.assertTrue(all(provider == "ucxx_rs" for provider, _, _ in found))

    def test_the_scripts_use_probes_that_there_are(self):
        page = (ROOT / "docs" / "tracing.md").read_text()
        scripts = sorted((PREFIX / "share" / "ucxx_rs" / "bpftrace").glob("*.bt"))
        self.assertEqual([path.name for path in scripts], ["credit_waits.bt", "message_time.bt"])
        for script in scripts:
            for name in re.findall(r"ucxx_rs:(\w+)", script.read_text()):
                self.assertIn(f"| `{name}` |", page)


class Traces(unittest.TestCase):
    def check_slices(self, events):
        """Slices of a thread are inside each other, or apart."""
        threads = defaultdict(list)
        for event in events:
            if event["ph"] == "X":
                begin = nanoseconds(event["ts"])
                threads[event["tid"]].append((begin, -begin - nanoseconds(event["dur"])))
        for slices in threads.values():
            ends = []
            for begin, end in sorted(slices):
                while ends and ends[-1] <= begin:
                    ends.pop()
                self.assertTrue(not ends or -end <= ends[-1], (begin, -end, ends))
                ends.append(-end)

    def check_operations(self, events):
        """Each begins once and ends once, later. Returns how many there are of each name."""
        open_now, names = {}, Counter()
        parts = [event for event in events if event["ph"] in ("b", "e")]
        for event in sorted(parts, key=lambda event: event["ts"]):
            key = (event["cat"], event["id2"]["local"])
            if event["ph"] == "b":
                self.assertNotIn(key, open_now)
                open_now[key] = event["name"]
            else:
                self.assertEqual(open_now.pop(key, None), event["name"])
                names[event["name"]] += 1
        self.assertEqual(open_now, {})
        self.assertNotIn("dropped", {event["name"] for event in events})
        return names

    def check_flows(self, sides):
        """Each begins in one process and ends in the other, inside slices, later. Returns how many
        there are of each name."""
        ends, names = defaultdict(dict), Counter()
        for events in sides:
            slices = {(event["tid"], event["ts"]) for event in events if event["ph"] == "X"}
            for event in events:
                if event["ph"] in "sf":
                    self.assertNotIn(event["ph"], ends[event["name"], event["id"]])
                    ends[event["name"], event["id"]][event["ph"]] = event
                    self.assertIn((event["tid"], event["ts"]), slices)
        for (name, identity), both in ends.items():
            self.assertEqual(set(both), {"s", "f"}, (name, identity, both))
            self.assertNotEqual(both["s"]["pid"], both["f"]["pid"])
            self.assertLess(both["s"]["ts"], both["f"]["ts"])
            names[name] += 1
        return names

    def over_each(self, source, check):
        for transport in TRANSPORTS:
            with self.subTest(transport=transport):
                trace = Trace(source, transport)
                check(trace)
                trace.folder.cleanup()

    def test_ping_pong(self):
        def check(trace):
            for rank, events in enumerate(trace.sides):
                self.check_slices(events)
                names = self.check_operations(events)
                for name in ("active message", "tag send", "tag receive"):
                    self.assertEqual(names[name], ROUNDS, name)
                self.assertEqual(names["fetch" if rank == 0 else "reply to a fetch"], ROUNDS)
                slices = Counter(event["cat"] for event in events if event["ph"] == "X")
                # Messages, and on one side requests of fetches.
                self.assertEqual(slices["callback"], ROUNDS * (1 + rank))
                marks = Counter(event["name"] for event in events if event["ph"] == "i")
                for name in ("worker created", "endpoint connected", "endpoint closed"):
                    self.assertEqual(marks[name], 1, name)
            # A message each way, the request of a fetch and its reply.
            self.assertEqual(self.check_flows(trace.sides), {"message": 4 * ROUNDS})
            joined = trace.joined()
            pids = {event["pid"] for event in joined}
            by_side = [[event for event in joined if event["pid"] == pid] for pid in pids]
            flows = self.check_flows(by_side)
            self.assertEqual(flows, {"message": 4 * ROUNDS, "tag message": 2 * ROUNDS})
            picture = Path(trace.folder.name) / "picture.svg"
            trace.tool("svg", picture, "--from", "0", "--for", "0")
            self.assertIn("</svg>", picture.read_text())

        self.over_each(ROOT / "tests" / "tools" / "ping_pong.c", check)

    def test_a_pipeline_of_hubs(self):
        def check(trace):
            leases = Counter()
            for events in trace.sides:
                self.check_slices(events)
                leases += self.check_operations(events)
            chunks = -(-1000000 // 4096)
            # Numbers on both sides, and the primes.
            committed = Counter(
                event["name"]
                for events in trace.sides
                for event in events
                if event["ph"] == "e" and event["cat"] == "lease" and event["args"]["length"]
            )
            self.assertEqual(committed["lease to produce"], 4 * chunks)
            self.assertGreaterEqual(leases["lease to consume"], 4 * chunks)
            self.assertGreater(self.check_flows(trace.sides)["message"], 2 * chunks)

        self.over_each(ROOT / "c_examples" / "remote_pipeline.c", check)

    def test_a_file_that_cannot_be_written_does_no_harm(self):
        program = build(ROOT / "c_examples" / "remote_pipeline.c")
        with tempfile.TemporaryDirectory() as folder:
            sides = [
                subprocess.Popen(
                    [program, str(rank), f"{folder}/socket"],
                    env={**os.environ, "UCXX_RS_TRACE": f"{folder}/none/%p.json"},
                    stdout=subprocess.DEVNULL,
                )
                for rank in range(2)
            ]
            self.assertEqual(ends_of(sides), [0, 0])
            self.assertEqual(os.listdir(folder), [])


if __name__ == "__main__":
    PREFIX = Path(sys.argv.pop(1)).resolve()
    with FOLDER:
        unittest.main(verbosity=1)
