#!/usr/bin/env python3
"""The metrics are OpenMetrics: prometheus-client reads them, and their numbers are those of what
the program did. So over HTTP and in a file; and clients that misbehave disturb nobody.

tests/metrics/test_metrics.py PROGRAM [unittest's arguments]

PROGRAM is the built tests/c/worker/metrics.c.
"""

import http.client
import os
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests")]
import metrics_table
from free_port import free_port

LIMIT = 60  # seconds; only a hang takes so long
TRANSPORTS = {"shm": "posix,cma,self", "tcp": "tcp,self"}
COUNT, LENGTH = 50, 1000  # as the program is told, and as it is written
FIRST, FIRST_LENGTH = 2, 8  # messages before these
PROGRAM = ""


class Text:
    def __init__(self, text):
        self.families = {family.name: family for family in parse(text)}

    def samples(self, name, **labels):
        for family in self.families.values():
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    yield sample

    def sum(self, name, **labels):
        return sum(sample.value for sample in self.samples(name, **labels))


class Program:
    """A run of the program, which has done its work and waits for the end of its input."""

    def __init__(self, metrics="", transport="shm", **environment):
        self.process = subprocess.Popen(
            [PROGRAM, str(COUNT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ
            | {"UCX_TLS": TRANSPORTS[transport], "UCXX_RS_METRICS": metrics}
            | environment,
        )
        self.text = ""
        for line in self.process.stdout:
            self.text += line
            if line == "# EOF\n":
                break

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        self.process.stdin.close()
        status = self.process.wait(LIMIT)
        self.process.stdout.close()
        return status


def get(port, path="/metrics", method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT)
    connection.request(method, path)
    answer = connection.getresponse()
    return answer.status, answer.headers, answer.read().decode()


def received(port, request):
    """Everything that the server sends for these bytes, until it closes."""
    with socket.create_connection(("127.0.0.1", port), LIMIT) as one:
        parts = []
        try:
            one.sendall(request)
            while part := one.recv(4096):
                parts.append(part)
        except (ConnectionResetError, BrokenPipeError):
            pass
        return b"".join(parts)


class Metrics(unittest.TestCase):
    def check_counts(self, text):
        for operation in "tag_send", "am_send":
            extra = FIRST + 2 if operation == "tag_send" else 0
            name = "ucxx_worker_operations_completed_total"
            self.assertEqual(text.sum(name, operation=operation), COUNT + extra)
        self.assertEqual(
            text.sum("ucxx_worker_received_bytes_total", operation="tag_recv"),
            COUNT * LENGTH + FIRST * FIRST_LENGTH,
        )
        failed = "ucxx_worker_operations_failed_total"
        self.assertEqual(text.sum(failed, status="UCXX_ERR_MESSAGE_TRUNCATED"), 2)
        self.assertEqual(text.sum(failed, status="UCXX_ERR_CANCELED"), 1)
        self.assertEqual(
            text.sum("ucxx_worker_messages_received_total", message="active_message"), COUNT
        )
        for operation, count in ("put", 5), ("get", 4), ("atomic", 3):
            done = text.sum("ucxx_worker_operations_completed_total", operation=operation)
            done += text.sum("ucxx_worker_mapped_operations_total", operation=operation)
            self.assertEqual(done, count, operation)

    def test_the_text_of_a_context(self):
        for transport in TRANSPORTS:
            with self.subTest(transport), Program(transport=transport) as program:
                text = Text(program.text)
                self.check_counts(text)
                workers = {sample.labels["worker"] for sample in text.samples("ucxx_worker_info")}
                self.assertEqual(len(workers), 2)
                self.assertEqual(program.end(), 0)

    def test_over_http(self):
        for transport in TRANSPORTS:
            port = free_port()
            with self.subTest(transport), Program(f":{port}", transport) as program:
                status, headers, body = get(port)
                self.assertEqual(status, 200)
                self.assertIn("application/openmetrics-text", headers["Content-Type"])
                self.check_counts(Text(body))
                self.assertEqual(get(port, method="HEAD")[2], "")
                self.assertEqual(get(port, "/other")[0], 404)
                self.assertEqual(get(port, method="POST")[0], 405)
                self.assertEqual(program.end(), 0)

    def test_only_this_host_is_served(self):
        port = free_port()
        with Program(f":{port}"):
            listening = Path("/proc/net/tcp").read_text()
            self.assertIn(f" 0100007F:{port:04X} ", listening)
            self.assertNotIn(f" 00000000:{port:04X} ", listening)

    def test_clients_that_misbehave_disturb_nobody(self):
        port = free_port()
        with Program(f":{port}") as program:
            silent = [socket.create_connection(("127.0.0.1", port), LIMIT) for _ in range(4)]
            for one in silent:
                one.sendall(b"GET /metr")
            # One that does not read its answer, and one that has gone before it.
            deaf = socket.create_connection(("127.0.0.1", port), LIMIT)
            deaf.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            with socket.create_connection(("127.0.0.1", port), LIMIT) as gone:
                gone.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            self.assertEqual(received(port, b"GET /" + 20000 * b"x"), b"")
            self.assertEqual(received(port, b"\x16\x03\x01" + 9000 * b"\0"), b"")
            for request in b"\r\n\r\n", b"GET\n\n", 4000 * b"\xff " + b"\n\n":
                self.assertTrue(received(port, request).startswith(b"HTTP/1.1 400 "), request[:9])
            for _ in range(20):
                self.check_counts(Text(get(port)[2]))
            for one in [*silent, deaf]:
                one.close()
            self.assertEqual(program.end(), 0)

    def test_in_a_file(self):
        for transport in TRANSPORTS:
            with self.subTest(transport), tempfile.TemporaryDirectory() as folder:
                program = Program(f"{folder}/%p.prom", transport)
                process = program.process.pid
                self.assertEqual(program.end(), 0)
                self.assertEqual(os.listdir(folder), [f"{process}.prom"])
                # Workers that had ended when it was written are in it.
                self.check_counts(Text(Path(folder, f"{process}.prom").read_text()))

    def test_what_cannot_be_served_does_not_stop_the_program(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            values = [f":{taken.getsockname()[1]}", "nonsense", ":", "/no/such/folder/file"]
            for value in values:
                with self.subTest(value), Program(value) as program:
                    self.check_counts(Text(program.text))
                    self.assertEqual(program.end(), 0)

    def test_latencies_when_asked_for(self):
        name = "ucxx_worker_operation_seconds"
        with Program() as program:
            self.assertNotIn(name, Text(program.text).families)
        with Program(transport="tcp", UCXX_RS_METRICS_LATENCY="1") as program:
            text = Text(program.text)
            self.check_counts(text)
            # The parser has checked that the buckets grow. Receives that were not there first.
            inside = "ucxx_worker_operations_immediate_total"
            waited = FIRST + COUNT - text.sum(inside, operation="tag_recv")
            self.assertEqual(text.sum(name + "_count", operation="tag_recv"), waited)
            self.assertGreater(waited, 0)

    def test_names_and_units_follow_the_conventions(self):
        with Program() as program:
            text = Text(program.text)
        listed = {name for name, _, _ in metrics_table.metrics()}
        for family in text.families.values():
            self.assertTrue(family.name.startswith("ucxx_"), family.name)
            self.assertTrue(family.documentation.endswith("."), family.name)
            self.assertIn(family.type, ("counter", "gauge", "info", "histogram"), family.name)
            for unit in "bytes", "seconds":
                if family.name.endswith("_" + unit):
                    self.assertEqual(family.unit, unit)
            for sample in family.samples:
                self.assertIn(sample.name, listed)

    def test_the_page_lists_all_metrics(self):
        page = metrics_table.PAGE.read_text()
        self.assertEqual(page, metrics_table.with_table(page), "scripts/metrics_table.py --write")
        self.assertGreater(len(metrics_table.metrics()), 60)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
