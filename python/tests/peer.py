# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""The other process of a test: it executes requests from a socket, one line of JSON each.

peer.py FD TLS        started by Peer

A process serves one test after the other, each with a worker of its own.
"""

import asyncio
import atexit
import ctypes
import json
import os
import pathlib
import random
import signal
import socket
import struct
import subprocess
import sys
import zlib

import ucxx_rs
from ucxx_rs._native import lib

FOLDER = pathlib.Path(__file__).resolve().parent
FEATURES = ["tag", "stream", "am", "rma", "atomic", "wakeup"]
# Bytes of a request or its result between the two.
LINE_LIMIT = 16 << 20


def content(size, seed):
    return random.Random(seed).randbytes(size)


def question(what, **arguments):
    """The header of a question for Answers."""
    return json.dumps([what, arguments]).encode()


class Lines:
    """The socket between the two."""

    @classmethod
    async def over(cls, sock):
        lines = cls()
        # The socket itself stays open for the next loop.
        lines._reader, lines._writer = await asyncio.open_connection(
            sock=sock.dup(), limit=LINE_LIMIT
        )
        return lines

    def write(self, value):
        self._writer.write(json.dumps(value).encode() + b"\n")

    async def read(self):
        line = await self._reader.readline()
        if not line:
            raise EOFError("the other process has exited")
        return json.loads(line)

    async def close(self):
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            # The other process was killed with unread data.
            pass


class Peer:
    """Connects another process to `worker`; `endpoint` leads to it."""

    _idle = {}

    @classmethod
    async def start(cls, worker, tls, mode="blocking"):
        idle = cls._idle.setdefault(tls, [])
        peer = idle.pop() if idle else cls(tls)
        peer._lines = await Lines.over(peer._socket)
        peer._lines.write([worker.address.hex(), mode])
        peer.endpoint = worker.connect(bytes.fromhex(await peer._lines.read()))
        return peer

    def __init__(self, tls):
        self._tls = tls
        self._socket, theirs = socket.socketpair()
        command = [sys.executable, str(FOLDER / "peer.py"), str(theirs.fileno()), tls]
        self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        theirs.close()

    def ask(self, what, **arguments):
        """Sends a request at once; awaiting the result waits for the other process."""
        self._lines.write([what, arguments])
        return self._lines.read()

    def kill(self):
        """Kills it, and waits for the end: a zombie still counts as a process."""
        self.process.kill()
        self.process.wait()
        self._socket.close()

    async def stop(self):
        """Ends its worker, and returns what was left of it; None if it was killed."""
        left = None
        if self.process.returncode is None:
            self._lines.write(["leave", {}])
            left = await self._lines.read()
            self._idle[self._tls].append(self)
        await self._lines.close()
        return left

    @classmethod
    def end_all(cls):
        """At the end of all tests: every process ends with status 0."""
        for peer in [peer for idle in cls._idle.values() for peer in idle]:
            peer._socket.close()
            try:
                status = peer.process.wait(20)
            except subprocess.TimeoutExpired:
                peer.kill()
                status = -signal.SIGKILL
            if status != 0:
                print(f"FAIL: the other process has ended with status {status}", file=sys.stderr)
                sys.stderr.flush()
                os._exit(1)


class Answers:
    """A fetch handler that does what each question's header says."""

    def __init__(self, endpoint):
        self.endpoint = endpoint
        self.kept = []
        self.more = asyncio.Event()
        # How calls ended.
        self.told = []
        # Work that continues after its handler.
        self.pending = []

    def __call__(self, fetch):
        what, arguments = json.loads(fetch.header)
        return getattr(self, what)(fetch, **arguments)

    def reply(self, fetch, size, seed):
        self.pending.append(fetch.reply(content(size, seed)))

    def give(self, fetch, size, seed):
        return content(size, seed)

    async def give_later(self, fetch, size, seed):
        await asyncio.sleep(0)
        return content(size, seed)

    def tell_capacity(self, fetch):
        return fetch.capacity.to_bytes(8, "little")

    def tell_data(self, fetch):
        return zlib.crc32(fetch.data).to_bytes(4, "little")

    def reject(self, fetch, status):
        fetch.reject(status)

    def refuse_then_answer(self, fetch, status):
        """Tries four replies, of which only the second is valid."""
        for answer, argument in (
            (fetch.reject, status),
            (fetch.reply, b"answer"),
            (fetch.reply, b"again"),
            (fetch.reject, lib.UCXX_ERR_REJECTED),
        ):
            try:
                started = answer(argument)
                self.pending.extend([started] if started else [])
                self.told.append("OK")
            except ucxx_rs.Error as error:
                self.told.append(error.name)

    def keep(self, fetch, size, seed):
        self.kept.append((fetch.keep(), size, seed))
        self.more.set()

    def forget(self, fetch):
        pass

    def fail(self, fetch, first=None):
        if first is not None:
            self.pending.append(fetch.reply(first.encode()))
        raise RuntimeError("a handler that fails")

    async def fail_later(self, fetch):
        await asyncio.sleep(0)
        raise RuntimeError("a handler that fails")

    async def ask_back(self, fetch, id, header, capacity):
        """Fetches from the fetching side, and replies with the result."""
        buffer = bytearray(capacity)
        length = await self.endpoint.fetch(id, header.encode(), buffer)
        return buffer[:length]


class Served:
    """The requests that the other process can execute. Each returns its result."""

    def __init__(self, worker, endpoint):
        self.worker = worker
        self.endpoint = endpoint
        self.answers = Answers(endpoint)
        self.held = []

    # Messages by tag, and streams.

    async def echo(self, tag, size, count=1):
        """Receives messages, and sends each back after its arrival."""
        buffers = [bytearray(size) for _ in range(count)]
        receives = [self.worker.recv(buffer, tag) for buffer in buffers]
        sends = []
        for receive, buffer in zip(receives, buffers):
            received = await receive
            sends.append(self.endpoint.send(memoryview(buffer)[: received.length], received.tag))
        for send in sends:
            await send

    async def take(self, tag, size):
        """Receives one message: returns its length and checksum."""
        buffer = bytearray(size)
        received = await self.worker.recv(buffer, tag)
        return [received.length, zlib.crc32(buffer)]

    async def give(self, tag, size, count=1):
        """Sends messages of one byte value, and waits until they are complete."""
        for send in [self.endpoint.send(bytes([tag]) * size, tag) for _ in range(count)]:
            await send
        await self.endpoint.flush()

    async def exchange_when_told(self, go, done, receive_tag, send_tag, size, count):
        """When `go` can be read, exchanges `count` messages either way. Then writes to `done`."""
        await asyncio.to_thread(pathlib.Path(go).read_text)
        payload = bytes([send_tag]) * size
        sends = [self.endpoint.send(payload, send_tag) for _ in range(count)]
        buffers = [bytearray(size) for _ in range(count)]
        receives = [self.worker.recv(buffer, receive_tag) for buffer in buffers]
        await asyncio.gather(*sends, *receives)
        await self.endpoint.flush()
        intact = all(buffer == bytes([receive_tag]) * size for buffer in buffers)
        await asyncio.to_thread(pathlib.Path(done).write_text, "done\n" if intact else "damaged\n")
        return intact

    async def stream_echo(self, sizes):
        """Receives so many bytes of the stream each time, and sends them back."""
        for size in sizes:
            buffer = bytearray(size)
            await self.endpoint.stream_recv(buffer)
            await self.endpoint.stream_send(buffer)

    async def stream_give(self, size, seed):
        await self.endpoint.stream_send(content(size, seed))
        await self.endpoint.flush()

    # Several buffers in one message.

    async def echo_multi(self, tag, count=1):
        """Receives multi-buffer messages, and sends each back after its arrival."""
        receives = [self.worker.recv_multi(tag) for _ in range(count)]
        sends = [self.endpoint.send_multi(await receive, tag) for receive in receives]
        for send in sends:
            await send

    async def give_multi(self, tag, sizes, seed):
        """Sends one multi-buffer message, and waits until it is complete."""
        await self.endpoint.send_multi(
            [content(size, seed + at) for at, size in enumerate(sizes)], tag
        )
        await self.endpoint.flush()

    async def announce(self, tag, sizes, after):
        """Sends the header of a multi-buffer message without its frames (docs/wire-formats.md), and
        a byte under the tag `after`.
        """
        await self.endpoint.send(
            struct.pack("=?Q400x100Q", False, len(sizes), *sizes, *[0] * (100 - len(sizes))), tag
        )
        await self.endpoint.send(b"x", after)
        await self.endpoint.flush()

    async def take_multi(self, tag):
        """Receives one multi-buffer message: returns the lengths and checksums of its frames."""
        return [[len(frame), zlib.crc32(frame)] for frame in await self.worker.recv_multi(tag)]

    # Fetches and active messages.

    async def serve(self, id):
        """Answers questions with this id from now on."""
        self.worker.on_fetch(id, self.answers)

    async def serve_no_more(self, id):
        self.worker.on_fetch(id, None)

    async def fetch(self, id, headers, capacity):
        """Sends many fetches at once: returns status, length and the whole buffer's checksum of
        each.
        """
        buffers = [bytearray(capacity) for _ in headers]
        started = []
        for header, buffer in zip(headers, buffers):
            try:
                started.append(self.endpoint.fetch(id, header.encode(), buffer))
            except ucxx_rs.Error as error:
                started.append(error)
        ended = []
        for fetched, buffer in zip(started, buffers):
            status = "OK"
            try:
                if isinstance(fetched, Exception):
                    raise fetched
                length = await fetched
            except ucxx_rs.Error as error:
                status, length = error.name, error.length
            ended.append([status, length, zlib.crc32(buffer)])
        return ended

    async def fetch_when_told(self, go, done, served, unserved):
        """When `go` can be read, sends one fetch, and two without a handler on the other side.
        Writes their results to `done`.
        """
        await asyncio.to_thread(pathlib.Path(go).read_text)
        buffer = bytearray(16)
        first = self.endpoint.fetch(served, b"served", buffer)
        ends = []
        # One after the other: receiving the second fetch completes the first.
        for _ in range(2):
            try:
                await self.endpoint.fetch(unserved, b"unserved", bytearray(1))
            except ucxx_rs.Error as error:
                ends.append(error.name)
        await asyncio.to_thread(pathlib.Path(done).write_text, ",".join(ends) + "\n")
        return buffer[: await first].decode()

    async def kept(self, count):
        """Waits until so many questions are kept."""
        while len(self.answers.kept) < count:
            self.answers.more.clear()
            await self.answers.more.wait()

    async def answer_kept(self):
        """Answers them, the latest first: returns each reply's result, in that order."""
        kept, self.answers.kept = self.answers.kept, []

        async def answer(fetch, size, seed):
            try:
                await fetch.reply(content(size, seed))
                return "OK"
            except ucxx_rs.Error as error:
                return error.name

        return [await answer(*each) for each in reversed(kept)]

    async def settle(self):
        """Waits until everything that handlers began has completed, without error."""
        pending, self.answers.pending = self.answers.pending, []
        for started in pending:
            await started

    async def note_failures(self):
        """From now on records in `told` what the loop's exception handler gets."""

        def note(_, context):
            self.answers.told.append(repr(context["exception"]))

        asyncio.get_running_loop().set_exception_handler(note)

    async def told(self):
        told, self.answers.told = self.answers.told, []
        return told

    async def echo_messages(self, id, kind):
        """Sends each active message with this id back, with the id after it."""

        def plain(message):
            if message.data is None:
                raise RuntimeError("its data waits at the sender")
            reply = message.reply
            self.answers.pending.append(reply.message(id + 1, bytes(message.data), message.header))

        async def later(message):
            buffer = bytearray(len(message))
            received = await message.recv(buffer)
            assert received.length == len(buffer)
            await message.reply.message(id + 1, buffer, message.header)

        self.worker.on_message(id, {"plain": plain, "async": later}[kind])

    # Memory, and connections by host and port.

    async def offer(self, size, seed):
        """Memory for the peer: what gives it access."""
        self.memory = ucxx_rs.Memory(self.worker.context, bytearray(content(size, seed)))
        return self.memory.packed.hex()

    async def memory_checksum(self):
        return zlib.crc32(self.memory.view)

    async def connect(self, port, tag=None):
        """Connects to a listener, and says its tag."""
        endpoint = self.worker.connect("127.0.0.1", port)
        self.held.append(endpoint)
        if tag is not None:
            await endpoint.send(bytes([tag]), tag)
            await endpoint.flush()

    async def connect_to_be_refused(self, port):
        endpoint = self.worker.connect("127.0.0.1", port)
        reason = await endpoint.wait_closed()
        await endpoint.close()
        return reason and reason.name

    async def listen(self):
        listener = self.worker.listen()

        async def accept():
            self.held.append(await listener.accept())

        self.held.extend([listener, asyncio.create_task(accept())])
        return listener.port

    async def close_endpoint(self, force=False):
        await self.endpoint.close(force=force, **({} if force else {"timeout": 60}))


async def serve(sock, tls):
    context = ucxx_rs.Context({"TLS": tls}, features=FEATURES)
    lines = await Lines.over(sock)
    while True:
        try:
            address, mode = await lines.read()
        except EOFError:
            break
        async with ucxx_rs.Worker(context, mode) as worker:
            lines.write(worker.address.hex())
            served = Served(worker, worker.connect(bytes.fromhex(address)))
            while True:
                what, arguments = await lines.read()
                if what == "leave":
                    break
                try:
                    lines.write(await getattr(served, what)(**arguments))
                except ucxx_rs.Error as error:
                    lines.write(error.name)
            await served.endpoint.close(timeout=60)
            left = worker.in_progress
        asyncio.get_running_loop().set_exception_handler(None)
        lines.write({"in_progress": left})
    await lines.close()


if __name__ == "__main__":
    # Whatever it waits for, it ends with the tests: PR_SET_PDEATHSIG.
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    asyncio.run(serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2]))
else:
    atexit.register(Peer.end_all)
