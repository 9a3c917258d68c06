#!/usr/bin/env python3
"""All tests of the installed ucxx_rs_perftest, and the ways in which it writes, draws and compares
results.

tests/tools/test_perftest.py PREFIX [unittest's arguments]
"""

import csv
import io
import json
import tempfile
from pathlib import Path
from xml.etree import ElementTree

from running import TRANSPORTS, Between, Case, environment, main, tool


def tests_of_the_tool():
    return [line.split()[0] for line in tool("ucxx_rs_perftest", "--list").stdout.splitlines()]


class Kinds(Between):
    """Each test, between two processes, with every byte checked. The server counts what it gets of
    the operations in which it has no part, and fails if it misses one."""

    # Sizes with which a test makes sense: small, and too large to be sent with its message.
    SIZES = {
        "add": [4, 8],
        "fadd": [4, 8],
        "swap": [4, 8],
        "cswap": [4, 8],
        "window_acc": [8, 102400],
    }

    def sizes(self, test):
        return self.SIZES.get(test.rpartition("_")[0], [1, 102400])

    def check_kinds(self, transport, *arguments, tests=None, count=60, lanes=1):
        for test in tests or tests_of_the_tool():
            with self.subTest(transport=transport, test=test, arguments=arguments):
                sizes = self.sizes(test)
                listed = ",".join(map(str, sizes))
                report = self.measure(
                    transport, "-t", test, "-V", "-s", listed, "-n", str(count), *arguments
                )
                self.check_report(report, sizes, transport, lanes)
                self.assertEqual(report["test"], test)
                self.assertEqual(
                    [row["iterations"] for row in report["results"]], [count * lanes] * len(sizes)
                )
                for row in report["results"]:
                    self.assertEqual(row["window"] == 1, test.endswith("_lat"))
                    for key in ("cpu_us", "server_cpu_us"):
                        parts = key.replace("us", "user_us"), key.replace("us", "system_us")
                        self.assertAlmostEqual(
                            row[key], sum(row[part] for part in parts), delta=1e-5
                        )

    def test_there_are_all(self):
        three = "tag am stream multi hub fetch put get window_put window_get window_acc".split()
        self.assertEqual(
            set(tests_of_the_tool()),
            {f"{way}_{pattern}" for way in three for pattern in ("lat", "bw", "rate")}
            | {"add_lat", "add_rate", "fadd_lat", "fadd_rate", "swap_lat", "cswap_lat"}
            | {"window_lock_lat"},
        )

    def test_over_shared_memory(self):
        self.check_kinds("shm")

    def test_over_tcp(self):
        self.check_kinds("tcp")

    def test_a_window_that_does_not_divide_the_count(self):
        tests = ["tag_rate", "am_bw", "put_bw", "get_rate", "fetch_rate", "window_acc_rate"]
        self.check_kinds("shm", "-O", "7", "-w", "3", tests=tests)

    def test_with_a_progress_thread(self):
        tests = ["am_rate", "stream_bw", "multi_lat", "hub_rate", "fetch_bw", "put_lat", "fadd_lat"]
        tests += ["window_get_bw", "window_lock_lat"]
        self.check_kinds("shm", "-P", "adaptive", "-k", "notifier", tests=tests)
        self.check_kinds("tcp", "-P", "blocking", "-k", "callback", tests=tests)

    def test_endpoints_in_turn(self):
        tests = ["tag_rate", "am_lat", "stream_bw", "multi_bw", "fetch_rate", "put_bw", "fadd_rate"]
        for transport in TRANSPORTS:
            self.check_kinds(transport, "-E", "3", tests=tests)

    def test_threads(self):
        tests = ["tag_lat", "am_rate", "hub_bw", "put_rate", "add_rate", "window_put_bw"]
        for transport in TRANSPORTS:
            self.check_kinds(transport, "-T", "3", tests=tests, count=20, lanes=3)

    def test_threads_of_both(self):
        run = tool(
            "ucxx_rs_perftest", "--self", "-T", "2", "-j", "-n", "50", env=environment("shm")
        )
        report = json.loads(run.stdout)
        self.assertEqual((run.returncode, report["threads"]), (0, 2), run.stderr)
        self.assertEqual(report["results"][0]["iterations"], 100)

    def test_a_server_that_has_nothing_to_do_knows_that_its_client_lives(self):
        # Until it takes longer than the time limit, which a busy machine needs, too.
        limit_s, count, took_s = 3, 5000000, 0
        while took_s < limit_s:
            report = self.measure(
                "shm", "-t", "window_get_lat", "-n", str(count), server=["--timeout", str(limit_s)]
            )
            row = report["results"][0]
            self.assertEqual(row["iterations"], count)
            took_s = row["average_us"] * count / 1e6
            count *= 2

    def test_frames(self):
        for frames in ("1", "7", "256"):
            report = self.measure(
                "tcp", "-t", "multi_bw", "--frames", frames, "-s", "3,10000", "-n", "20", "-V"
            )
            self.assertEqual(report["frames"], int(frames))
            self.check_report(report, [3, 10000], "tcp")


class Results(Case):
    """Sweeps, and the ways in which results are written, drawn and compared."""

    def results(self, *arguments, transport="shm"):
        run = tool("ucxx_rs_perftest", "--self", "-n", "50", *arguments, env=environment(transport))
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stdout

    def test_sweeps(self):
        for text, sizes in [
            ("8:64", [8, 16, 32, 64]),
            ("8:1k:4", [8, 32, 128, 512]),
            ("0,1:9:3,5", [0, 1, 3, 9, 5]),
            ("1k:1K", [1024]),
        ]:
            with self.subTest(sizes=text):
                report = json.loads(self.results("--json", "-s", text))
                self.assertEqual([row["bytes"] for row in report["results"]], sizes)

    def test_csv_has_the_columns_of_json(self):
        row = json.loads(self.results("--json"))["results"][0]
        table = list(csv.DictReader(io.StringIO(self.results("--csv", "-s", "8,64"))))
        self.assertEqual([line["bytes"] for line in table], ["8", "64"])
        before, after = ["test", "threads", "endpoints", "transports"], ["verified"]
        self.assertEqual(list(table[0]), [*before, *row, *after])
        self.assertEqual(table[0]["transports"], "posix/memory,cma/memory")
        for line in table:
            numbers = {key: float(line[key]) for key in row}
            self.assertAlmostEqual(
                numbers["messages_per_second"] * numbers["average_us"], 1e6, delta=1000
            )

    def test_all_outputs_say_the_same(self):
        # One run, and two ways to write it: the table on stdout, and the picture's numbers.
        with tempfile.TemporaryDirectory() as folder:
            picture = Path(folder, "run.svg")
            document = json.loads(self.results("--json", "--plot", picture, "-s", "0,8:64"))
            root = ElementTree.parse(picture).getroot()
            lines = root.findall("{*}polyline")
            self.assertEqual(len(lines), 1)
            places = [tuple(map(float, p.split(","))) for p in lines[0].get("points").split()]
            self.assertEqual(len(places), 5)
            self.assertEqual([x for x, _ in places], sorted(x for x, _ in places))
            times = [row["p50_us"] for row in document["results"]]
            # A longer time is higher in the picture, that is, has a smaller y.
            for (_, y1), t1 in zip(places, times, strict=True):
                for (_, y2), t2 in zip(places, times, strict=True):
                    if t1 > t2:
                        self.assertLessEqual(y1, y2)
            self.assertIn("tag_lat", "".join(root.itertext()))

    def run_of(self, folder, name, test="tag_bw", scale=1, **facts):
        rows = [
            {
                "bytes": size,
                "iterations": 1,
                "p50_us": scale * size,
                "p99_us": scale * size,
                "megabytes_per_second": scale * size,
                "cpu_us": 2,
                "server_cpu_us": 4,
            }
            for size in (8, 4096)
        ]
        run = {"program": "ucxx_rs_perftest", "test": test, "error": None, "results": rows, **facts}
        path = Path(folder, name)
        path.write_text(json.dumps(run))
        return path

    def test_ratios(self):
        with tempfile.TemporaryDirectory() as folder:
            first = self.run_of(folder, "first.json", transports="posix")
            second = self.run_of(folder, "second.json", scale=2.5, transports="tcp")
            picture = Path(folder, "<both>.svg")
            run = tool("ucxx_rs_perftest", "--compare", first, second, "--plot", picture)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertIn("transports tcp", run.stdout)
            part = run.stdout.split("\n\n")[1].splitlines()
            self.assertEqual(part[0], "MB/s")
            self.assertEqual(
                [line.split() for line in part[1:]],
                [
                    ["bytes", "1", "2", "2:1"],
                    ["8", "8", "20", "2.500"],
                    ["4096", "4096", "10240", "2.500"],
                ],
            )
            self.assertIn("1.000", run.stdout.split("\n\n")[2])
            root = ElementTree.parse(picture).getroot()
            self.assertEqual(len(root.findall("{*}polyline")), 2)
            text = list(root.itertext())
            for word in ("posix", "tcp", "4k", "MB/s", "message size, bytes"):
                self.assertIn(word, text)

    def test_three_runs_and_a_missing_size(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = [self.run_of(folder, f"{i}.json", "tag_lat", scale=i) for i in (1, 2, 4)]
            short = json.loads(paths[1].read_text())
            del short["results"][0]
            paths[1].write_text(json.dumps(short))
            run = tool("ucxx_rs_perfplot", "--compare", "--value", "p99_us", *paths)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertEqual(
                [line.split() for line in run.stdout.splitlines()[-2:]],
                [
                    ["8", "8", "-", "-", "32", "4.000"],
                    ["4096", "4096", "8192", "2.000", "16384", "4.000"],
                ],
            )

    def test_what_cannot_be_compared_is_explained(self):
        with tempfile.TemporaryDirectory() as folder:
            good = self.run_of(folder, "good.json")
            other = self.run_of(folder, "other.json", "tag_lat")
            empty = Path(folder, "empty.json")
            empty.write_text(json.dumps({**json.loads(good.read_text()), "results": []}))
            table = Path(folder, "table")
            table.write_text("# tag_lat\n")
            strange = Path(folder, "strange.json")
            strange.write_text("[1]")
            for path, word in [
                (Path(folder, "none"), "No such file"),
                (table, "--json"),
                (strange, "not the results"),
                (empty, "no results"),
                (other, "--value"),
            ]:
                with self.subTest(path=path.name):
                    run = tool("ucxx_rs_perftest", "--compare", good, path)
                    self.assertEqual(run.returncode, 1)
                    self.assertIn(word, run.stderr)
                    self.assertEqual(run.stdout, "")


if __name__ == "__main__":
    main()
