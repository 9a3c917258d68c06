# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""The other process of a test: it executes requests from a socket, one line of JSON each.

peer.py FD TLS        started by Peer
"""

import asyncio
import json
import pathlib
import random
import socket
import struct
import subprocess
import sys
import zlib

from ucxx_rs_client import Context, Status, UcxxError, Worker

FOLDER = pathlib.Path(__file__).resolve().parent
# Bytes of a request or its result between the two.
LINE_LIMIT = 16 << 20


def content(size, seed):
    return random.Random(seed).randbytes(size)


def question(what, **arguments):
    """The header of a question for Answers."""
    return json.dumps([what, arguments]).encode()


class Link:
    """The socket between the two."""

    @classmethod
    async def over(cls, sock):
        link = cls()
        link._reader, link._writer = await asyncio.open_connection(sock=sock, limit=LINE_LIMIT)
        return link

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
    """Starts the other process and connects it to `worker`; `endpoint` leads to it."""

    @classmethod
    async def start(cls, worker, tls):
        peer = cls()
        ours, theirs = socket.socketpair()
        command = [sys.executable, str(FOLDER / "peer.py"), str(theirs.fileno()), tls]
        peer.process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        theirs.close()
        peer._link = await Link.over(ours)
        peer._link.write(worker.address.hex())
        peer.endpoint = worker.connect(bytes.fromhex(await peer._link.read()))
        return peer

    def ask(self, what, **arguments):
        """Sends a request at once; awaiting the result waits for the other process."""
        self._link.write([what, arguments])
        return self._link.read()

    def kill(self):
        """Kills it, and waits for the end: a zombie still counts as a process."""
        self.process.kill()
        self.process.wait()

    async def stop(self):
        """Its exit status. Afterwards only the endpoint is left of it here."""
        if self.process.returncode is None:
            self._link.write(["leave", {}])
        await self._link.close()
        return await asyncio.to_thread(self.process.wait)


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

    def __call__(self, question):
        what, arguments = json.loads(question.header)
        getattr(self, what)(question, **arguments)

    def reply(self, question, size, seed):
        self.pending.append(question.reply(content(size, seed)))

    def tell_capacity(self, question):
        self.pending.append(question.reply(question.capacity.to_bytes(8, "little")))

    def reject(self, question, status):
        question.reject(status)

    def refuse_then_answer(self, question, status):
        """Tries four replies, of which only the second is valid."""
        reject, reply = question.reject, lambda data: self.pending.append(question.reply(data))
        for answer, argument in (
            (reject, status),
            (reply, b"answer"),
            (reply, b"again"),
            (reject, Status.ERR_REJECTED),
        ):
            try:
                answer(argument)
                self.told.append("OK")
            except UcxxError as error:
                self.told.append(error.name)

    def keep(self, question, size, seed):
        self.kept.append((question, size, seed))
        self.more.set()

    def forget(self, question):
        pass

    def fail(self, question, first=None):
        if first is not None:
            self.pending.append(question.reply(first.encode()))
        raise RuntimeError("a handler that fails")

    def ask_back(self, question, id, header, capacity):
        """Fetches from the fetching side, and replies with the result."""

        async def ask():
            buffer = bytearray(capacity)
            length = await self.endpoint.fetch(id, header.encode(), buffer)
            await question.reply(buffer[:length])

        self.pending.append(asyncio.create_task(ask()))


class Served:
    """The requests that the other process can execute. Each returns its result."""

    def __init__(self, worker, endpoint):
        self.worker = worker
        self.endpoint = endpoint
        self.answers = Answers(endpoint)

    async def echo(self, tag, size, count=1):
        """Receives messages, and sends each back after its arrival."""
        buffers = [bytearray(size) for _ in range(count)]
        receives = [self.worker.recv(buffer, tag) for buffer in buffers]
        sends = []
        for receive, buffer in zip(receives, buffers):
            received = await receive
            sends.append(self.endpoint.send(memoryview(buffer)[: received.length], received.tag))
        await asyncio.gather(*sends)

    async def take(self, tag, size):
        """Receives one message: returns its length and checksum."""
        buffer = bytearray(size)
        received = await self.worker.recv(buffer, tag)
        return [received.length, zlib.crc32(buffer)]

    async def give(self, tag, size, count=1):
        """Sends messages of one byte value, and waits until they are complete."""
        await asyncio.gather(*[self.endpoint.send(bytes([tag]) * size, tag) for _ in range(count)])
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

    async def echo_multi(self, tag, count=1, mask=2**64 - 1):
        """Receives multi-buffer messages, and sends each back after its arrival."""
        receives = [self.worker.recv_multi(tag, mask) for _ in range(count)]
        sends = []
        for receive in receives:
            frames, sender_tag = await receive
            sends.append(self.endpoint.send_multi(frames, sender_tag))
        await asyncio.gather(*sends)

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
        frames, _ = await self.worker.recv_multi(tag)
        return [[len(frame), zlib.crc32(frame)] for frame in frames]

    async def serve(self, id):
        """Answers questions with this id from now on."""
        self.worker.set_fetch_handler(id, self.answers)

    async def serve_no_more(self, id):
        self.worker.set_fetch_handler(id, None)

    async def fetch(self, id, headers, capacity):
        """Sends many fetches at once: returns status, length and the whole buffer's checksum of
        each.
        """

        async def ask(header):
            buffer, status = bytearray(capacity), "OK"
            try:
                length = await self.endpoint.fetch(id, header.encode(), buffer)
            except UcxxError as error:
                status, length = error.name, error.length
            return [status, length, zlib.crc32(buffer)]

        return await asyncio.gather(*[ask(header) for header in headers])

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
            except UcxxError as error:
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

        async def answer(question, size, seed):
            try:
                await question.reply(content(size, seed))
                return "OK"
            except UcxxError as error:
                return error.name

        return await asyncio.gather(*[answer(*each) for each in reversed(kept)])

    async def settle(self):
        """Waits until everything that handlers began has completed, without error."""
        pending, self.answers.pending = self.answers.pending, []
        await asyncio.gather(*pending)

    async def note_failures(self):
        """From now on records in `told` what the loop's exception handler gets."""

        def note(_, context):
            self.answers.told.append(repr(context["exception"]))

        asyncio.get_running_loop().set_exception_handler(note)

    async def told(self):
        told, self.answers.told = self.answers.told, []
        return told

    async def close_endpoint(self, force):
        await self.endpoint.close(force=force)


async def serve(sock, tls):
    link = await Link.over(sock)
    async with Worker(Context({"TLS": tls}), "blocking") as worker:
        link.write(worker.address.hex())
        endpoint = worker.connect(bytes.fromhex(await link.read()))
        served = Served(worker, endpoint)
        while True:
            what, arguments = await link.read()
            if what == "leave":
                break
            try:
                link.write(await getattr(served, what)(**arguments))
            except UcxxError as error:
                link.write(error.name)
    await link.close()


if __name__ == "__main__":
    asyncio.run(serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2]))
