#!/usr/bin/env python3
"""The dissector for Wireshark: messages that programs of this library sent, messages made here, and
damaged ones. Needs tshark. For the traffic of programs it also needs a network namespace, which
most systems let every user make (unshare), and dumpcap.

tests/wireshark/test_dissector.py PREFIX [unittest's arguments]

If something that it needs is missing, it says so, and the exit status is 77.
"""

import collections
import fcntl
import json
import os
import random
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import pcap

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from clean_environment import environment

HERE = Path(__file__).resolve().parent
SCRIPT = HERE.parents[1] / "tools/wireshark/ucxx_rs.lua"
LIMIT = 120  # seconds; only a hang takes so long
SKIPPED = 77
MARKER = b"the end of the traffic, 8b1f6c"
PREFIX = Path()
AM_SINGLE, AM_FIRST, AM_FIRST_PSN, EAGER, RTS, CM, PUT = 23, 24, 27, 2, 9, 32, 33
MAGIC = bytes.fromhex("78563412bebafeca")


# ------------------------------------------------------------------ tshark


class Tshark:
    """Runs tshark without the user's own settings."""

    def __init__(self):
        self.home = tempfile.TemporaryDirectory()

    def run(self, capture, *arguments):
        environment = {**os.environ, "HOME": self.home.name, "XDG_CONFIG_HOME": self.home.name}
        result = subprocess.run(
            ["tshark", "-n", "-X", f"lua_script:{SCRIPT}", "-r", capture, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT,
        )
        if result.returncode != 0 or "lua" in result.stderr.lower():
            raise AssertionError(f"tshark: status {result.returncode}: {result.stderr}")
        return result.stdout

    def fields(self, capture, wanted, *names, options=()):
        """For each packet that matches, the values of each field."""
        asked = [word for name in names for word in ("-e", name)]
        output = self.run(capture, *options, "-Y", wanted, "-T", "fields", *asked)
        return [
            [value.split(",") if value else [] for value in line.split("\t")]
            for line in output.splitlines()
        ]

    def values(self, capture, name, wanted="ucxx_rs", options=()):
        """All values of one field."""
        lines = self.fields(capture, wanted, name, options=options)
        return [value for line in lines for values in line for value in values]


TSHARK = Tshark()


# ------------------------------------------------------------------ messages made here


def frame(number, body):
    """A message of UCX's TCP transport."""
    return struct.pack("<BI", number, len(body)) + body


def am(header, data=b"", am_id=1, first=AM_SINGLE, footer=b""):
    """A UCP active message: its own header, the data, the user's header."""
    return frame(first, struct.pack("<HHI", am_id, 0, len(header)) + data + header + footer)


def header(kind, *, id=0, user=b"", flags=0, connection=7, sequence=0, taken=(0, 0), sender=3):
    fields = (1, kind, id, len(user), flags, connection, sequence, *taken, sender)
    return struct.pack("<BBHHHIIHHI", *fields) + user


def address(ucx=(1, 13, 1)):
    """A worker's address. Its checksum is not looked at."""
    ucp = b"u" * 79
    trailer = struct.pack("<IHHHH16sQQQIQ", 79, *ucx, 0, b"b" * 16, 11, 12, 13, 4711, 0)
    return ucp + trailer + struct.pack("<IHH8s", 0, 1, 80, b"ucxxrsAd")


class Made(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.records = []

    def connection(self, **arguments):
        connection = pcap.Connection(self.records, **arguments)
        if arguments.get("opened", True):
            connection.send(MAGIC + frame(CM, struct.pack("<IBQ", 1, 0, 5)))
        return connection

    def capture(self):
        path = Path(self.folder.name) / "made.pcap"
        pcap.write(path, self.records)
        return path

    def values(self, name, wanted="ucxx_rs", options=()):
        return TSHARK.values(self.capture(), name, wanted, options)

    def experts(self):
        """The kinds of expert information of this dissector, one for each packet that has any."""
        found = self.values("_ws.expert.message", "_ws.expert && ucxx_rs && !tcp.flags.syn==1")
        return [text for text in found if not text.startswith(("Connection", "This frame"))]

    def test_the_owner_of_a_callback_of_ucxx(self):
        connection = self.connection()
        for owner in (b"owner".ljust(64, b"\0"), b"o" * 64):
            queue = struct.pack("<IB64sQBQ", 0, 1, owner, 5, 0, 4) + b"head"
            connection.send(am(queue, b"data!", am_id=0))
        self.assertEqual(self.values("ucxx_rs.queue.owner"), ["owner", "o" * 64])
        self.assertEqual(self.values("ucxx_rs.user_header"), [b"head".hex()] * 2)
        self.assertEqual(self.experts(), [])

    def test_every_kind(self):
        connection = self.connection()
        connection.send(am(header(1, flags=1, sequence=4), address()))
        connection.send(am(header(2), address()), sender=1)
        for kind in (3, 4, 5, 6, 7):
            connection.send(am(header(kind)))
        connection.send(am(header(8, id=9, user=b"head", flags=4), b"data!"))
        connection.send(am(header(9, taken=(3, 4))))
        connection.send(am(header(13), struct.pack("<IIQQ", 1, 2, 65792, 0) + bytes(16)))
        kinds = "hello welcome refusal bye bye_ack ping pong message grant fast_box".split()
        self.assertEqual(self.values("ucxx_rs.kind"), kinds)
        self.assertEqual(self.values("ucxx_rs.id"), ["9"])
        self.assertEqual(self.values("ucxx_rs.user_header"), [b"head".hex()])
        self.assertEqual(self.values("ucxx_rs.data", 'ucxx_rs.kind=="message"'), [b"data!".hex()])
        self.assertEqual(self.values("ucxx_rs.endpoint"), ["4"])
        self.assertEqual(self.values("ucxx_rs.address.ucx"), ["1.13.1"] * 2)
        self.assertEqual(self.values("ucxx_rs.address.pid"), ["4711"] * 2)
        self.assertEqual(self.values("ucxx_rs.fast_box.control"), ["65792"])
        self.assertEqual(self.values("ucxx_rs.header.messages", 'ucxx_rs.kind == "grant"'), ["3"])
        self.assertEqual(self.experts(), [])

    def test_many_in_one_segment_and_one_in_many(self):
        connection = self.connection()
        messages = [am(header(8, id=at), b"x" * at * 7) for at in range(40)]
        connection.send(b"".join(messages))
        connection.send(b"".join(messages), pieces=[1, 3, 30, 31, 70, 71, 72, 600, 1500, 4000])
        self.assertEqual(self.values("ucxx_rs.id"), [str(at) for at in range(40)] * 2)
        lengths = self.values("ucxx_rs.length", 'ucxx_rs.kind == "message"')
        self.assertEqual(lengths, [str(at * 7) for at in range(40)] * 2)

    def test_short_and_long_forms_of_a_fetch(self):
        connection = self.connection()
        number = 0x1_2345_6789
        low, high = number & 0xFFFFFFFF, number >> 32
        question = struct.pack("<QQ", 64, number)
        connection.send(am(header(10, id=5, user=question + b"user", sequence=1), b"ask"))
        answer = header(11, id=high, sender=low)
        connection.send(am(answer, b"answer"), sender=1)
        short = struct.pack("<BBHIHHII", 0x8A, 2, 6, 7, 2, 16, low + 1, high) + b"us" + b"ask"
        connection.send(am(b"", short))
        answer = struct.pack("<BBHIIHH", 0x8B, 2, high, 7, low + 1, 1, 1) + b"reply"
        connection.send(am(b"", answer), sender=1)
        short = struct.pack("<BBHIHHHH", 0x88, 1, 77, 7, 3, 4, 1, 1) + b"h" + b"data"
        connection.send(am(b"", short))
        self.assertEqual(
            self.values("ucxx_rs.kind"), ["fetch", "answer", "fetch", "answer", "message"]
        )
        self.assertEqual(
            self.values("ucxx_rs.fetch.number"),
            [str(number), str(number), str(number + 1), str(number + 1)],
        )
        self.assertEqual(self.values("ucxx_rs.fetch.question_in"), ["4", "6"])
        self.assertEqual(self.values("ucxx_rs.fetch.answer_in", options=["-2"]), ["5", "7"])
        self.assertEqual(self.values("ucxx_rs.fetch.room"), ["64", "16"])
        self.assertEqual(self.values("ucxx_rs.fetch.time"), ["0.001000000"] * 2)
        self.assertEqual(self.values("ucxx_rs.length"), ["3", "6", "3", "5", "4"])
        users = [value.hex() for value in (b"user", b"us", b"h")]
        self.assertEqual(self.values("ucxx_rs.user_header"), users)
        self.assertEqual(self.values("ucxx_rs.id"), ["5", "6", "77"])
        self.assertEqual(self.experts(), [])

    def test_messages_in_pieces_and_rendezvous(self):
        connection = self.connection()
        footer = struct.pack("<QQQ", 1, 2, 70000)
        for first in (AM_FIRST, AM_FIRST_PSN):
            connection.send(am(header(8, id=3), b"x" * 500, first=first, footer=footer))
        user = header(12, id=4, user=struct.pack("<IIQ", 1, 0, 90000 | 1 << 56))
        rts = struct.pack("<HHIQQQQB", 1, 0, len(user), 1, 2, 3, 90000, 1) + user
        connection.send(frame(RTS, rts))
        connection.send(frame(RTS, struct.pack("<QQQQQB", 0x55, 1, 2, 3, 1 << 33, 0)))
        self.assertEqual(self.values("ucxx_rs.kind"), ["message", "message", "multi", "tag"])
        self.assertEqual(self.values("ucxx_rs.length"), ["70000", "70000", "90000", str(1 << 33)])
        self.assertEqual(self.values("ucxx_rs.multi.frame_length"), ["90000"])
        self.assertEqual(self.values("ucxx_rs.tag"), ["0x0000000000000055"])
        self.assertEqual(self.experts(), [])

    def test_data_of_a_put_is_passed_over(self):
        connection = self.connection()
        put = frame(PUT, struct.pack("<QQI", 1, 5000, 1))
        data = frame(EAGER, b"eight by") * 600  # looks like messages
        connection.send(put + data[:5000] + am(header(6)), pieces=[40, 2000, 4000])
        self.assertEqual(self.values("ucxx_rs.kind"), ["put", "ping"])
        self.assertEqual(self.values("ucxx_rs.length"), ["5000", "0"])

    def test_cut_off_by_the_capture(self):
        """With only the beginning of each packet, the messages' lengths keep the place."""
        connection = self.connection()
        for at in range(20):
            message = am(b"", header(8, id=at, user=b"abc") + b"x" * 5000)
            connection.send(message, pieces=[3000], captured=120)
        self.assertEqual(self.values("ucxx_rs.id"), [str(at) for at in range(20)])
        self.assertIn("Not captured completely", self.experts())

    def test_from_the_middle(self):
        """A capture that begins within a message: the library's messages are found again."""
        connection = self.connection(opened=False)
        message = am(b"", header(8, id=5) + b"x" * 2000)
        connection.send(message[700:])
        for _ in range(3):
            connection.send(message)
        self.assertEqual(self.values("ucxx_rs.id"), ["5"] * 3)
        for option in (["-d", "tcp.port==45000,ucxx_rs"], ["-o", "ucxx_rs.ports:44999-45001"]):
            self.assertEqual(self.values("ucxx_rs.id", options=option), ["5"] * 3)
            lost = self.values("ucxx_rs.unsynchronised", options=option)
            self.assertEqual(lost, [message[700:].hex()])

    def test_a_lost_segment(self):
        connection = self.connection()
        message = am(b"", header(8, id=5) + b"x" * 200)
        connection.send(message)
        connection.send(message + message, pieces=[300])
        del self.records[-2]
        connection.send(message)
        self.assertEqual(self.values("ucxx_rs.id")[-1], "5")
        self.assertEqual(len(self.values("ucxx_rs.unsynchronised")), 1)

    def test_tags_alone_need_the_port(self):
        connection = self.connection(opened=False)
        for at in range(3):
            connection.send(frame(EAGER, struct.pack("<Q", at) + b"data"))
        self.assertEqual(self.values("ucxx_rs.tag"), [])
        found = self.values("ucxx_rs.tag", options=["-o", "ucxx_rs.ports:45000"])
        self.assertEqual([int(tag, 16) for tag in found], [0, 1, 2])

    def test_connection_manager(self):
        connection = self.connection(opened=False)
        connection.send(struct.pack("<Qb7x", 50, 0) + bytes(50))
        found = self.values("ucxx_rs.sockcm.length", options=["-o", "ucxx_rs.ports:45000"])
        self.assertEqual(found, ["50"])

    def test_another_version_and_a_newer_ucx(self):
        connection = self.connection()
        connection.send(am(b"\2" + header(1)[1:]))
        connection.send(am(header(1), address((1, 23, 0))))
        self.assertEqual(
            self.experts(),
            ["Another version of the library", "A newer UCX than this dissector knows"],
        )

    def test_malformed(self):
        """The same faults that the library refuses, each in a message of its own."""
        hub = struct.pack("<BBBBIIIQQ", 2, 0, 0, 0, 0, 1, 2, 0, 0) + bytes(64)
        window = struct.pack("<HBBBBBBIIQQQQQii", 1, 0, 0, 0, 1, 0, 0, 0, 0, *[0] * 5, 0, 0)
        good = [
            am(header(8, flags=32, user=hub)),
            am(header(8, id=2, user=window)),
            am(header(11, sequence=0xFFFFFFF4)),
            am(header(12, user=struct.pack("<IIQ", 1, 0, 4)), b"data"),
        ]
        bad = [
            am(header(0)),
            am(header(14)),
            am(header(4, id=1)),
            am(header(6, taken=(1, 0))),
            am(header(2, flags=4)),
            am(header(8, flags=1)),
            am(header(8)[:20]),
            am(header(8) + b"x"),
            am(b"", header(8)[:20]),
            am(b"", header(6)),
            am(header(10)),
            am(header(10, user=struct.pack("<QQ", 1, 1 << 48))),
            am(header(11, sequence=1)),
            am(header(11, user=bytes(8))),
            am(header(1), b"no address"),
            am(header(12, user=struct.pack("<IIQ", 1, 0, 5)), b"data"),
            am(header(12, user=struct.pack("<II", 1 << 31, 0)), b"data"),
            am(header(12, user=struct.pack("<II", 2, 1)), b"data"),
            am(header(8, flags=32, user=b"\6" + hub[1:])),
            am(header(8, flags=32, user=hub[:-1])),
            am(header(8, flags=32, user=hub[:12] + bytes(4) + hub[16:])),
            am(header(8, id=2, user=window[:5] + b"\0" + window[6:])),
            am(b"", struct.pack("<BBHIQ", 0x88, 0, 1, 0, 0)),
            am(b"", struct.pack("<BBHIQ", 0x88, 9, 1, 1, 0)),
            am(b"", struct.pack("<BBHIQ", 0x89, 0, 1, 1, 0)),
            am(b"", struct.pack("<BBHIQI", 0x8A, 0, 1, 1, 0, 1 << 16)),
            am(header(10, flags=16, user=struct.pack("<QQ", 8, 1) + bytes(39))),
        ]
        connection = self.connection()
        for message in good:
            connection.send(message)
        count = len(self.records)
        for message in bad:
            connection.send(message)
        found = self.values("frame.number", "ucxx_rs.malformed")
        self.assertEqual(found, [str(count + 1 + at) for at in range(len(bad))])

    def test_meeting(self):
        connection = pcap.Connection(self.records)
        name = b"ucxxrsBs"

        def sealed(kind, payload=b""):
            return struct.pack("<QB7x", len(payload), kind) + payload + b"s" * 32

        connection.send(name + struct.pack("<H6x", 1) + b"n" * 32, sender=1)
        claim = name + struct.pack("<H6xII", 1, 1, 2) + b"n" * 32 + b"p" * 32
        connection.send(claim, pieces=[30])
        connection.send(name + struct.pack("<II", 0, 0) + b"p" * 32 + sealed(1), sender=1)
        part = struct.pack("<H16sI", 1, b"r" * 16, len(address())) + address() + address()
        connection.send(sealed(2, part))
        both = struct.pack("<III", 2, len(part), 3) + part + b"abc"
        connection.send(sealed(3, both), sender=1, pieces=[10, 100])
        connection.send(sealed(4, struct.pack("<i", -20) + b"why"), sender=1)
        connection.send(sealed(5))
        connection.send(sealed(5, b"x"))
        kinds = "challenge claim verdict begin part all failure leave leave".split()
        self.assertEqual(self.values("ucxx_rs.bootstrap.kind"), kinds)
        self.assertEqual(self.values("ucxx_rs.bootstrap.rank"), ["1"])
        self.assertEqual(self.values("ucxx_rs.bootstrap.text"), ["why"])
        self.assertEqual(self.values("ucxx_rs.bootstrap.part"), [str(len(part)), "3"])
        self.assertEqual(len(self.values("ucxx_rs.address.pid")), 4)
        self.assertEqual(len(self.values("frame.number", "ucxx_rs.malformed")), 1)

    def test_foreign_traffic_is_left_alone(self):
        connection = pcap.Connection(self.records)
        connection.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        chance = random.Random(1)
        for _ in range(200):
            connection.send(chance.randbytes(chance.randrange(1, 400)), chance.randrange(2))
        self.assertEqual(self.values("frame.number"), [])


# ------------------------------------------------------------------ traffic of programs


def capture_here(path, command):
    """In a namespace of its own: captures what a command sends, all of it. The capture ends with a
    datagram that is sent after it.
    """
    with socket.socket() as any_socket:
        up = struct.pack("16sh", b"lo", 0x49)  # IFF_UP | IFF_LOOPBACK | IFF_RUNNING
        fcntl.ioctl(any_socket, 0x8914, up)
    dumping = subprocess.Popen(
        ["dumpcap", "-q", "-P", "-i", "lo", "-B", "64", "-w", "-"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    data = bytearray(dumping.stdout.read(24))  # the file's header: it captures from now on
    if len(data) < 24:
        print("dumpcap cannot capture here")
        return SKIPPED

    def drain():
        while MARKER not in data and (more := dumping.stdout.read1(1 << 20)):
            data.extend(more)

    reader = threading.Thread(target=drain)
    reader.start()
    status = subprocess.run(command, timeout=LIMIT).returncode
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        end.sendto(MARKER, ("127.0.0.1", 9))
    reader.join(LIMIT)
    dumping.terminate()
    dumping.wait()
    if MARKER not in data:
        print("the end of the traffic was not captured")
        return 1
    path.write_bytes(data)
    return status


class Traffic(unittest.TestCase):
    """Each capture is made once."""

    folder = None
    made = {}

    @classmethod
    def setUpClass(cls):
        for program in ("dumpcap", "unshare"):
            if shutil.which(program) is None:
                raise unittest.SkipTest(f"{program} is missing")
        if subprocess.run(["unshare", "-rn", "true"], capture_output=True).returncode != 0:
            raise unittest.SkipTest("this user cannot make a network namespace (unshare -rn)")
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        flags = subprocess.run(
            ["pkg-config", "--cflags", "--libs", "ucxx_rs"],
            env={**os.environ, "PKG_CONFIG_PATH": str(PREFIX / "lib/pkgconfig")},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for program in ("traffic", "traffic_group"):
            subprocess.run(
                [
                    os.environ.get("CC", "cc"),
                    *("-std=c11", "-Wall", "-Wextra", "-Werror"),
                    f"-I{HERE.parents[1] / 'c_examples'}",
                    *("-o", f"{cls.folder.name}/{program}", HERE / f"{program}.c"),
                    *(*flags, f"-Wl,-rpath,{PREFIX / 'lib'}"),
                ],
                check=True,
            )

    def traffic(self, name, command, **more):
        """Runs a shell command in a network of its own. Returns the capture, and its output."""
        if name in self.made:
            return self.made[name]
        path = Path(self.folder.name) / f"{name}.pcap"
        network = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo", **more}
        path_of_tools = f"{PREFIX / 'bin'}:{os.environ['PATH']}"
        result = subprocess.run(
            ["unshare", "-rn", sys.executable, __file__, "--capture", path, "bash", "-ec", command],
            cwd=self.folder.name,
            env=environment(**network, PATH=path_of_tools),
            stdout=subprocess.PIPE,
            text=True,
            timeout=2 * LIMIT,
        )
        if result.returncode == SKIPPED:
            self.skipTest(result.stdout.strip())
        self.assertEqual(result.returncode, 0, result.stdout)
        for record in pcap.read(path):
            self.assertEqual(len(record[0]), record[1], "packets are captured in full")
        self.made[name] = path, result.stdout
        return self.made[name]

    def pair(self):
        command = (
            "UCXX_RS_HOST_ID=1 ./traffic 0 socket & first=$!; "
            "UCXX_RS_HOST_ID=2 ./traffic 1 socket; wait $first"
        )
        path, output = self.traffic("pair", command)
        return path, [json.loads(line) for line in output.splitlines()]

    def assert_clean(self, path):
        """Everything is understood."""
        names = ("malformed", "other_version", "lost", "cut", "newer_ucx")
        wanted = " || ".join(f"ucxx_rs.{name}" for name in names) + " || _ws.lua.error"
        self.assertEqual(TSHARK.run(path, "-Y", wanted), "")
        self.assertEqual(TSHARK.values(path, "ucxx_rs.unsynchronised"), [])

    def test_pair(self):
        path, sent = self.pair()
        self.assert_clean(path)
        lines = TSHARK.fields(path, "ucxx_rs.kind", "ucxx_rs.kind", "ucxx_rs.length")
        found = collections.defaultdict(list)
        for kinds, lengths in lines:
            self.assertEqual(len(kinds), len(lengths))
            for kind, length in zip(kinds, lengths, strict=True):
                found[kind].append(int(length))
        expected = collections.defaultdict(list)
        for message in sent:
            expected[message["kind"]].append(message["length"])
        # A remote atomic operation is a question, and its answer is counted with the others.
        expected["answer"].append(0)
        found["hub"] = [length for length in found["hub"] if length > 0]
        for kind, lengths in expected.items():
            self.assertEqual(found[kind], lengths, kind)
        for kind in ("hello", "welcome"):
            self.assertEqual(len(found[kind]), 1, kind)
        for kind in ("bye", "bye_ack"):
            self.assertLessEqual(len(found[kind]), 2, kind)
        known = {*expected, "hello", "welcome", "bye", "bye_ack", "grant", "ping", "pong", "flush"}
        self.assertEqual(set(found) - known, set())

        tags = [int(tag, 16) for tag in TSHARK.values(path, "ucxx_rs.tag")]
        self.assertEqual(tags, [message["name"] for message in sent if message["kind"] == "tag"])
        users = ("message", "multi", "fetch")
        ids = [int(value) for value in TSHARK.values(path, "ucxx_rs.id") if value != "0"]
        self.assertEqual(ids, [message["name"] for message in sent if message["kind"] in users])
        statuses = TSHARK.values(path, "ucxx_rs.status", 'ucxx_rs.kind == "answer"')
        answers = [message["name"] for message in sent if message["kind"] == "answer"]
        self.assertEqual([int(status) for status in statuses], [*answers, 0])
        self.assertEqual(TSHARK.values(path, "ucxx_rs.fetch.full_length"), ["40"])
        questions = TSHARK.values(path, "frame.number", 'ucxx_rs.kind == "fetch"')
        linked = TSHARK.values(path, "ucxx_rs.fetch.question_in")
        self.assertEqual(linked[: len(questions)], questions)
        self.assertEqual(len(linked), len(answers) + 1)
        chunks = TSHARK.values(path, "ucxx_rs.hub.count", 'ucxx_rs.hub.kind == "chunk"')
        hubs = collections.Counter(TSHARK.values(path, "ucxx_rs.hub.kind"))
        self.assertEqual(chunks, ["0", "1", "2", "3", "4"])
        self.assertEqual((hubs["open"], hubs["chunk"], hubs["end"], hubs["close"]), (2, 5, 1, 1))
        # By tag, with a header of its own, and in one message.
        frames = TSHARK.values(path, "ucxx_rs.multi.frame_length")
        self.assertEqual(frames, ["10", "0", "2000"] * 2)
        release = subprocess.run(
            [PREFIX / "bin/ucxx_rs_info", "--versions"], capture_output=True, text=True, check=True
        ).stdout
        self.assertIn(TSHARK.values(path, "ucxx_rs.address.ucx")[0], release)

    def test_pair_without_reassembly(self):
        """What is not reassembled is passed over by its length."""
        path, sent = self.pair()
        options = ["-o", "tcp.desegment_tcp_streams:FALSE"]
        tags = [int(tag, 16) for tag in TSHARK.values(path, "ucxx_rs.tag", options=options)]
        self.assertEqual(tags, [message["name"] for message in sent if message["kind"] == "tag"])

    def test_perftest(self):
        command = "ucxx_rs_perftest --self -t tag_lat -s 8,100k -n 50 -w 10"
        path, _ = self.traffic("perftest", command)
        self.assert_clean(path)
        lengths = TSHARK.fields(path, 'ucxx_rs.kind == "tag"', "ucxx_rs.length")
        counts = collections.Counter(
            value for line in lengths for values in line for value in values
        )
        for length in ("8", "102400"):
            self.assertEqual(counts[length], 2 * 60, length)

    def test_group(self):
        path, output = self.traffic("group", "ucxx_rs_group 2 ./traffic_group")
        self.assert_clean(path)
        meeting = collections.Counter(TSHARK.values(path, "ucxx_rs.bootstrap.kind"))
        kinds = ("challenge", "claim", "verdict", "begin", "part", "all")
        self.assertEqual(meeting, {kind: 1 for kind in kinds})
        groups = collections.Counter(TSHARK.values(path, "ucxx_rs.group.kind"))
        # Three barriers of one round, with two members. A window makes allgathers of its own.
        self.assertEqual((groups["barrier"], groups["broadcast"]), (6, 1))
        lengths = TSHARK.values(path, "ucxx_rs.group.length", 'ucxx_rs.group.kind == "allgather"')
        self.assertEqual(lengths.count("8"), 2)
        self.assertEqual(len(set(TSHARK.values(path, "ucxx_rs.group.group"))), 2)
        windows = collections.Counter(TSHARK.values(path, "ucxx_rs.window.kind"))
        for line in output.splitlines():
            self.assertEqual(windows[json.loads(line)["kind"]], 1, line)
        operations = TSHARK.fields(
            path,
            'ucxx_rs.window.kind == "put" || ucxx_rs.window.kind == "accumulate"',
            *("ucxx_rs.window.kind", "ucxx_rs.window.bytes", "ucxx_rs.window.at"),
        )
        self.assertEqual(operations, [[["put"], ["128"], ["0"]], [["accumulate"], ["8"], ["8"]]])

    def test_damaged(self):
        """Damaged, shortened and missing packets of real traffic: no error of the script."""
        path, _ = self.pair()
        seed = random.SystemRandom().randrange(1 << 32)
        print("seed", seed)
        chance = random.Random(seed)
        records = pcap.read(path)
        for _ in range(8):
            spoilt = []
            damage, loss, cut = chance.choice([0.02, 0.3]), chance.choice([0, 0.1]), chance.random()
            for packet, length in records:
                at = pcap.payload_at(packet)
                if at is not None and chance.random() < damage:
                    packet = bytearray(packet)
                    for _ in range(chance.randrange(1, 9)):
                        # Headers are at the beginning, mostly.
                        reach = min(len(packet), at + chance.choice([8, 60, len(packet)]))
                        packet[chance.randrange(at, reach)] = chance.choice([0, 1, 32, 128, 255])
                if cut < 0.3 and chance.random() < 0.5:
                    packet = packet[: chance.randrange(54, 200)]
                if chance.random() >= loss:
                    spoilt.append((bytes(packet), length))
            assert_no_error(self, spoilt, seed)


def assert_no_error(test, records, seed):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "spoilt.pcap"
        pcap.write(path, records)
        for options in ([], ["-2"], ["-o", "ucxx_rs.ports:1-65535"]):
            output = TSHARK.run(path, *options, "-V", "-O", "ucxx_rs")
            errors = [line for line in output.splitlines() if "Lua Error" in line]
            test.assertEqual(errors, [], f"seed {seed}, {options}")


class Random(unittest.TestCase):
    def test_random_messages(self):
        """Random bytes in all places, and messages whose outer headers are right."""
        seed = random.SystemRandom().randrange(1 << 32)
        print("seed", seed)
        chance = random.Random(seed)
        ids = [*range(0, 36)]

        def some(most):
            return chance.randbytes(chance.randrange(most))

        def message():
            way = chance.randrange(8)
            if way == 0:
                return frame(chance.choice(ids), some(200))
            if way == 1:
                return am(some(120), some(120), chance.randrange(3))
            kind, flags = chance.randrange(15), 1 << chance.randrange(16)
            body = header(kind, id=chance.randrange(4), flags=flags * chance.randrange(2))
            if way == 2:
                return am(body[:4] + b"\x40\0" + body[6:] + chance.randbytes(64), some(90))
            if way == 3:
                return am(b"", body + some(99), first=chance.choice([23, 24, 25, 26, 27, 28]))
            if way == 4:
                return am(b"", bytes([0x80 | kind]) + some(60))
            if way == 5:
                return frame(RTS, struct.pack("<HHI", 1, 0, 24) + some(60) + b"\1" + body)
            if way == 6:
                return b"ucxxrsBs" + some(90)
            return struct.pack("<QB7x", chance.randrange(300), chance.randrange(7)) + some(300)

        records = []
        for number in range(150):
            connection = pcap.Connection(records, client=20000 + number)
            begin = chance.choice([MAGIC, b"ucxxrsBs", b""])
            connection.send(begin + some(100 if begin else 2))
            for _ in range(chance.randrange(1, 12)):
                data = b"".join(message() for _ in range(chance.randrange(1, 5)))
                places = sorted(chance.sample(range(1, len(data)), min(2, len(data) - 1)))
                captured = chance.choice([None, None, None, 60, 80])
                connection.send(data, chance.randrange(2), places, captured)
        assert_no_error(self, records, seed)


def main():
    global PREFIX
    if sys.argv[1:2] == ["--capture"]:
        return capture_here(Path(sys.argv[2]), sys.argv[3:])
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    if shutil.which("tshark") is None:
        print("SKIPPED: tshark is missing (Debian: apt-get install tshark)")
        return SKIPPED
    with tempfile.NamedTemporaryFile(suffix=".pcap") as nothing:
        pcap.write(nothing.name, [])
        try:
            TSHARK.run(nothing.name, "-o", "ucxx_rs.service:TRUE")
        except AssertionError:
            if os.geteuid() != 0:
                raise
            print("SKIPPED: this tshark runs no scripts for root; start the test as another user")
            return SKIPPED
    PREFIX = Path(sys.argv.pop(1)).resolve()
    result = unittest.main(exit=False).result
    if not result.wasSuccessful():
        return 1
    for _, reason in result.skipped:
        print("SKIPPED:", reason)
    return SKIPPED if result.skipped else 0


if __name__ == "__main__":
    sys.exit(main())
