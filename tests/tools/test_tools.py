#!/usr/bin/env python3
"""The installed command line tools work as users run them: results, options, errors, and how one
side ends when the other does.

tests/tools/test_tools.py PREFIX [unittest's arguments]
"""

import csv
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

from running import (
    LIMIT,
    TRANSPORTS,
    Between,
    Case,
    Running,
    Server,
    environment,
    main,
    tool,
    ucx_release,
    program,
)

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import ucx_ends

FOR_EVER = ["-n", "1000000000"]
# most sides that UCX may end when their peer is killed just after the connection
MOST_ENDED_BY_UCX = 3


class Perftest(Between):
    def test_every_way_of_driving_and_waiting(self):
        tests = ["tag_lat", "tag_bw", "tag_rate"]
        ways = [
            (p, k)
            for p in ("manual", "adaptive")
            for k in ("poll", "request", "callback", "notifier")
        ]
        ways += [("blocking", "request"), ("polling", "callback")]
        for transport in TRANSPORTS:
            for number, (progress, wait) in enumerate(ways):
                test = tests[number % len(tests)]
                with self.subTest(transport=transport, progress=progress, wait=wait, test=test):
                    # With few CPUs, polling beside a progress thread takes a time slice for each
                    # message.
                    count = "40" if wait == "poll" and progress != "manual" else "200"
                    report = self.measure(
                        transport,
                        "-t",
                        test,
                        "-P",
                        progress,
                        "-k",
                        wait,
                        "-s",
                        "0,8,100k",
                        "-n",
                        count,
                        *(["-O", "16"] if test != "tag_lat" else []),
                        "-V",
                    )
                    self.check_report(report, [0, 8, 102400], transport)
                    self.assertEqual(
                        (report["test"], report["progress"], report["wait"]), (test, progress, wait)
                    )
                    self.assertIn(f"progress {progress}, wait {wait}", report["server"])
                    self.assertEqual(
                        report["submission"], "direct" if progress == "manual" else "delayed"
                    )

    def test_options(self):
        for arguments, expected in [
            (["-e", "none"], {"error_handling": "none"}),
            (["-M", "multi"], {"thread_mode": "multi"}),
            (["-P", "adaptive", "-d", "off"], {"submission": "direct"}),
            (["-6", "-s", "1:4", "-t", "tag_rate"], {"test": "tag_rate"}),
            (["-4"], {"test": "tag_lat"}),
        ]:
            with self.subTest(arguments=arguments):
                if "-6" in arguments and not has_ipv6():
                    self.skipTest("no IPv6 here")
                report = self.measure(
                    "shm", "-n", "100", *arguments, host="::1" if "-6" in arguments else "localhost"
                )
                self.assertEqual({key: report[key] for key in expected}, expected)
                self.assertEqual(
                    [row["bytes"] for row in report["results"]],
                    [1, 2, 4] if "-s" in arguments else [8],
                )

    def test_sides_may_differ(self):
        report = self.measure(
            "shm", "-n", "100", "-k", "request", server=["-P", "blocking", "-k", "notifier"]
        )
        self.assertEqual((report["progress"], report["wait"]), ("manual", "request"))
        self.assertIn("progress blocking, wait notifier, thread mode multi", report["server"])

    def test_self(self):
        cpu = str(min(os.sched_getaffinity(0)))
        run = tool(
            "ucxx_rs_perftest",
            "--self",
            "-n",
            "100",
            "-s",
            "8,64",
            "--csv",
            "-c",
            cpu,
            "--peer-cpu",
            cpu,
            env=environment("shm"),
        )
        self.assertEqual(run.returncode, 0, run.stderr)
        rows = list(csv.DictReader(io.StringIO(run.stdout)))
        self.assertEqual(
            [(row["test"], row["bytes"], row["iterations"]) for row in rows],
            [("tag_lat", "8", "100"), ("tag_lat", "64", "100")],
        )
        self.assertGreater(float(rows[0]["p99_9_us"]), 0)

    def test_table(self):
        run = tool(
            "ucxx_rs_perftest",
            "--self",
            "-n",
            "100",
            "-t",
            "tag_bw",
            "-s",
            "4k",
            env=environment("shm"),
        )
        self.assertEqual(run.returncode, 0, run.stderr)
        lines = run.stdout.splitlines()
        self.assertEqual(
            lines[-2].split(),
            "bytes iterations window average p50 p90 p99 p99.9 max MB/s messages/s cpu server".split(),
        )
        self.assertEqual(lines[-1].split()[:3], ["4096", "100", "32"])
        self.assertEqual(len(lines[-1].split()), len(lines[-2].split()))

    def test_a_loop_serves_many_and_ends_on_interrupt(self):
        env = environment("shm")
        with Server("--loop", env=env) as server:
            for test in ("tag_lat", "tag_bw"):
                run = tool(
                    "ucxx_rs_perftest",
                    "-p",
                    server.port,
                    "localhost",
                    "-t",
                    test,
                    "-n",
                    "100",
                    env=env,
                )
                self.assertEqual(run.returncode, 0, run.stderr)
            # The server refuses a stranger and keeps running.
            with socket.create_connection(("localhost", int(server.port))) as stranger:
                stranger.sendall(b"GET / HTTP/1.0\r\n\r\n")
                stranger.settimeout(LIMIT)
                answer = b""
                while more := stranger.recv(4096):
                    answer += more
                self.assertIn(b"protocol", answer)
            run = tool("ucxx_rs_perftest", "-p", server.port, "localhost", "-n", "100", env=env)
            self.assertEqual(run.returncode, 0, run.stderr)
            server.process.send_signal(signal.SIGINT)
            status, output = server.end()
            self.assertEqual(status, 0, server.said())
            self.assertEqual(output.count("served"), 3)

    def test_bad_arguments_are_named(self):
        for arguments, word in [
            (["-t", "tag_lot", "host"], "tag_lot"),
            (["-s", "8:", "host"], "--size"),
            (["-s", "0:8", "host"], "--size"),
            (["-n", "-1", "host"], "--iterations"),
            (["-n", "1x", "host"], "--iterations"),
            (["-O", "0", "host"], "--window"),
            (["-O", "2", "host"], "one operation at a time"),
            (["-T", "0", "host"], "--threads"),
            (["-E", "65", "host"], "1 to 64"),
            (["-s", "8:64:1", "host"], "factor above 1"),
            (["-m", "gpu", "host"], "host, cuda"),
            (["-m", "host,gpu", "host"], "host, cuda"),
            (["-m", "cuda", "-V", "host"], "leave it out with -m cuda"),
            (["-m", "cuda", "-t", "fadd_lat", "host"], "leave -m cuda,cuda out"),
            (["-t", "fadd_lat", "-s", "16", "host"], "choose another -s"),
            (["-t", "window_acc_bw", "-s", "12", "host"], "multiples of 8"),
            (["-t", "stream_lat", "-s", "0", "host"], "from 1"),
            (["-t", "hub_bw", "-E", "2", "host"], "leave --endpoints out"),
            (["-t", "multi_bw", "--frames", "0", "host"], "--frames"),
            (["-T", "2", "-c", "0", "host"], "taskset"),
            (["--plot", "x.svg"], "client"),
            (["--compare", "one.json"], "two files"),
            (["-P", "manuel", "host"], "manual, adaptive"),
            (["-k", "x", "host"], "notifier"),
            (["-p", "65536", "host"], "--port"),
            (["-c", "1,", "host"], "--cpu"),
            (["--self", "host"], "--self"),
            (["--loop", "host"], "--loop"),
            (["-n", "5"], "client"),
            (["host", "another"], "another"),
        ]:
            with self.subTest(arguments=arguments):
                run = tool("ucxx_rs_perftest", *arguments)
                self.assertEqual(run.returncode, 2)
                self.assertIn(word, run.stderr)
                self.assertEqual(run.stdout, "")

    def test_what_cannot_be_done_is_explained(self):
        for arguments, word in [
            (["-c", "4000"], "CPU 4000"),
            (["-d", "on"], "--progress"),
            (["-P", "adaptive", "-M", "single"], "thread"),
            (["-s", "1g", "--max-memory", "1m"], "--max-memory"),
            (["-t", "hub_bw", "-s", "64k", "--max-memory", "4m"], "--max-memory"),
            (["-m", "cuda"], "ucxx_rs_info -b"),
            (["--plot", "/nowhere/x.svg", "-n", "10"], "/nowhere/x.svg"),
        ]:
            with self.subTest(arguments=arguments):
                run = tool("ucxx_rs_perftest", "--self", *arguments)
                self.assertEqual(run.returncode, 1)
                self.assertIn(word, run.stderr)

    def test_the_server_keeps_its_own_limit(self):
        env = environment("shm")
        with Server("--max-memory", "1m", env=env) as server:
            run = tool("ucxx_rs_perftest", "-p", server.port, "localhost", "-s", "64m", env=env)
            self.assertEqual(run.returncode, 1)
            self.assertIn("the server allows 1048576 bytes", run.stderr)
            self.assertEqual(server.end()[0], 1)

    def test_no_server(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = str(taken.getsockname()[1])
            run = tool("ucxx_rs_perftest", "-4", "-p", port, "localhost")
            self.assertEqual(run.returncode, 1)
            self.assertIn("is the server running there", run.stderr)

    def test_help(self):
        for name in ("ucxx_rs_perftest", "ucxx_rs_info"):
            self.assertIn("--help", tool(name, "--help").stdout)
            self.assertRegex(
                tool(name, "--version").stdout, rf"^{name} \d+\.\d+\.\d+ on UCX \d+\.\d+\.\d+\n$"
            )


class Endings(Case):
    """However one side ends, the other one ends too and reports why."""

    WAYS = [
        ["-e", "peer"],
        ["-e", "none", "-t", "tag_rate"],
        ["-k", "request", "-t", "tag_bw"],
        ["-P", "adaptive", "-k", "notifier"],
        ["-P", "blocking", "-k", "callback", "-e", "none"],
        ["-t", "am_bw", "-T", "2"],
        ["-t", "hub_rate"],
        ["-t", "fetch_rate", "-P", "adaptive", "-k", "callback"],
        ["-t", "put_rate", "-E", "2"],
        ["-t", "window_get_lat"],
    ]

    def in_the_middle(self, transport, arguments, do):
        env = environment(transport)
        with (
            Server(env=env) as server,
            Running(
                "ucxx_rs_perftest", "-p", server.port, "localhost", *FOR_EVER, *arguments, env=env
            ) as client,
        ):
            if "--json" in arguments:
                client.line_with('"results":[')
            else:
                client.line_with("p99.9")
            do(server, client)

    def test_a_killed_side_ends_the_other(self):
        ended = []

        def kill(victim):
            def do(*sides):
                sides[victim].process.kill()
                other = sides[1 - victim]
                status, _ = other.end()
                line = (
                    ucx_ends.in_tool(other.said(), ucx_release())
                    if status == -signal.SIGABRT
                    else None
                )
                if line:
                    ended.append(line)
                    self.assertLessEqual(len(ended), MOST_ENDED_BY_UCX, ended)
                    self.skipTest(f"ended by UCX: {line}")
                self.assertEqual(status, 1, other.said())
                self.assertRegex(other.said(), r"the other side .* is gone")

            return do

        for transport in TRANSPORTS:
            for arguments in self.WAYS:
                for victim in (0, 1):
                    with self.subTest(
                        transport=transport,
                        arguments=arguments,
                        victim=("server", "client")[victim],
                    ):
                        self.in_the_middle(transport, arguments, kill(victim))

    def test_a_stopped_side_ends_the_other(self):
        def do(server, client):
            server.process.send_signal(signal.SIGSTOP)
            status, _ = client.end()
            self.assertEqual(status, 1)
            # During a round, or before its first message.
            self.assertRegex(
                client.said(), "nothing has completed for 3 seconds|silent for 3 seconds"
            )

        for arguments in (
            ["--timeout", "3"],
            ["--timeout", "3", "-P", "adaptive", "-k", "callback", "-t", "tag_rate"],
        ):
            with self.subTest(arguments=arguments):
                self.in_the_middle("shm", arguments, do)

    def test_an_interrupted_client_says_so_to_the_server(self):
        def do(server, client):
            client.process.send_signal(signal.SIGINT)
            status, output = client.end()
            self.assertEqual(status, 130)
            self.assertIn("interrupted", client.said())
            self.assertEqual(json.loads('{"results":[' + output)["error"], "interrupted")
            self.assertEqual(server.end()[0], 1)
            self.assertRegex(server.said(), "gave up: interrupted")

        for transport in TRANSPORTS:
            for arguments in self.WAYS:
                with self.subTest(transport=transport, arguments=arguments):
                    self.in_the_middle(transport, [*arguments, "--json"], do)


class Info(Case):
    def test_versions(self):
        run = tool("ucxx_rs_info", "--versions")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertIn(str(program("").parent), run.stdout)
        self.assertRegex(ucx_release(), r"^\d+\.\d+\.\d+$")
        path = re.search(r"UCX +\d+\.\d+\.\d+, (\S+)", run.stdout).group(1)
        self.assertTrue(Path(path).exists() and "libucp" in path)
        self.assertIn("copies of UCX  1", run.stdout)

    def test_sections(self):
        run = tool(
            "ucxx_rs_info", env=environment(None, UCX_KEEPALIVE_INTERVAL="3s", UCX_LOG_LEVEL="warn")
        )
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        for word in (
            "tag messages",
            "adaptive   by a thread",
            "UCX_KEEPALIVE_INTERVAL=3s",
            "    UCX_LOG_LEVEL=warn",
            "posix",
            "'lo'(tcp)",
            "a worker to itself",
        ):
            self.assertIn(word, run.stdout)
        self.assertNotIn("PROBLEM", run.stdout)
        self.assertIn("UCX_TLS=all", tool("ucxx_rs_info", "--config").stdout)

    def test_json_has_what_the_text_has(self):
        def strings(value):
            if isinstance(value, dict):
                value = value.values()
            if isinstance(value, str):
                yield value
            elif not isinstance(value, (int, type(None))):
                for part in value:
                    yield from strings(part)

        env = environment(
            None, UCX_ODD='a"b\\c\td/\x01\x7f\xe9\u2028\U0001f600', UCX_MM_ERROR_HANDLING="n"
        )
        env["UCX_BYTES"] = b"\xff\xc0\x80\xed\xa0\x80\xf5 \xe2\x82"  # none of it is UTF-8
        # UCX keeps a time in ticks of a clock, whose rate each process measures: 1s may be 1.2s.
        a_time = re.compile(r"\d+\.\d+us")
        for options in ([], ["--config"], ["-l"], ["-e", "-v"]):
            with self.subTest(options=options):
                text, document = (
                    subprocess.run(
                        [program("ucxx_rs_info"), *options, *more],
                        env=env,
                        capture_output=True,
                        check=True,
                        timeout=LIMIT,
                    ).stdout
                    for more in ([], ["--json"])
                )
                text = text.decode(errors="surrogateescape")
                text = "".join("\ufffd" if "\udc80" <= c <= "\udcff" else c for c in text)
                text = a_time.sub("TIME", text)
                document = json.loads(document.decode())
                self.assertIsNone(document["error"])
                found = {a_time.sub("TIME", part) for part in strings(document)}
                self.assertGreater(len(found), 5)
                self.assertEqual([part for part in found if part not in text], [])
        everything = json.loads(tool("ucxx_rs_info", "-j", env=env).stdout)
        self.assertEqual(
            list(everything),
            ["versions", "build", "environment", "transports", "lanes", "problems", "error"],
        )
        self.assertIn("UCX_ODD=" + env["UCX_ODD"], everything["environment"]["of_ucx_alone"])
        self.assertIn(
            "UCX_BYTES=" + 7 * "\ufffd" + " " + 2 * "\ufffd",
            everything["environment"]["of_ucx_alone"],
        )
        lanes = everything["lanes"]["to_another_process"]
        self.assertEqual([way["shared_memory"] for way in lanes], [False, True])
        self.assertIn("UCX_MM_ERROR_HANDLING=n", " ".join(lanes[0]["explanation"]))

    def test_json_of_a_failure(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = str(taken.getsockname()[1])
            run = tool("ucxx_rs_info", "--json", "-4", "-p", port, "localhost")
        self.assertEqual(run.returncode, 1)
        document = json.loads(run.stdout)
        self.assertIn("is the server running there", document["error"])
        self.assertEqual(document["lanes"]["host"], "localhost")
        self.assertEqual(tool("ucxx_rs_info", "--listen", "--json").returncode, 2)

    def test_json_keeps_the_secret(self):
        env = environment(None, UCXX_RS_GROUP_SECRET="nobody's business")
        run = tool("ucxx_rs_info", "-e", "--json", env=env)
        self.assertNotIn("nobody's business", run.stdout)
        secret = {
            variable["name"]: (variable["set"], variable["value"])
            for variable in json.loads(run.stdout)["environment"]["variables"]
        }["UCXX_RS_GROUP_SECRET"]
        self.assertEqual(secret, (True, None))

    def test_secret(self):
        run = tool(
            "ucxx_rs_info",
            "-e",
            env=environment(None, UCXX_RS_GROUP_SECRET="nobody's business", RANK="3"),
        )
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertIn("UCXX_RS_GROUP_SECRET is set (not shown)", run.stdout)
        self.assertIn("RANK=3", run.stdout)
        self.assertNotIn("nobody's business", run.stdout)

    def test_lanes(self):
        run = tool("ucxx_rs_info", "-l", "--require-shared-memory")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertGreaterEqual(run.stdout.count("shared memory, as "), 2)
        self.assertNotIn("There is no shared memory", run.stdout)

    def test_reasons(self):
        for key, value, kinds in [
            ("UCX_TLS", "tcp,self", 2),
            ("UCX_TLS", "^sm", 2),
            ("UCX_MM_ERROR_HANDLING", "n", 1),
            ("UCX_SHM_DEVICES", "none", 2),
        ]:
            with self.subTest(variable=f"{key}={value}"):
                run = tool("ucxx_rs_info", "-l", "-r", env=environment(None, **{key: value}))
                self.assertEqual(run.returncode, 3, run.stdout + run.stderr)
                self.assertEqual(run.stdout.count("There is no shared memory"), kinds)
                self.assertEqual(
                    run.stdout.count(f"because {key}={value}, set on both sides"), kinds
                )

    def test_to_a_host(self):
        with Server("--listen", env=environment(None), name="ucxx_rs_info") as server:
            run = tool("ucxx_rs_info", "-p", server.port, "localhost", "-r")
            self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
            run = tool("ucxx_rs_info", "-p", server.port, "localhost", "-r", env=environment("tcp"))
            self.assertEqual(run.returncode, 3, run.stdout + run.stderr)
            self.assertIn("because UCX_TLS=tcp,self, set here", run.stdout)
            server.process.send_signal(signal.SIGINT)
            self.assertEqual(server.end()[0], 0)


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
        return True
    except OSError:
        return False


if __name__ == "__main__":
    main()
