# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""The other process of a test: it does what it is told over a socket, one line of JSON a request.

    peer.py FD TLS        started by Peer
"""

import asyncio
import json
import os
import pathlib
import socket
import subprocess
import sys
import zlib

from ucxx_rs_client import Context, UcxxError, Worker

FOLDER = pathlib.Path(__file__).resolve().parent


class Link:
    """The socket between the two."""

    @classmethod
    async def over(cls, sock):
        link = cls()
        link._reader, link._writer = await asyncio.open_connection(sock=sock)
        return link

    def write(self, value):
        self._writer.write(json.dumps(value).encode() + b"\n")

    async def read(self):
        line = await self._reader.readline()
        if not line:
            raise EOFError("the other process has gone")
        return json.loads(line)

    async def close(self):
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            # The other one was killed with something unread.
            pass


class Peer:
    """Starts the other process, connected to `worker`; `endpoint` leads there."""

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
        """Sends a request, at once; awaiting the result waits for the answer."""
        self._link.write([what, arguments])
        return self._link.read()

    def kill(self):
        """Kills it, and waits for the end: a zombie still counts as a process."""
        self.process.kill()
        self.process.wait()

    async def stop(self):
        """Its exit status. Afterwards nothing is left of it here but the endpoint."""
        if self.process.returncode is None:
            self._link.write(["leave", {}])
        await self._link.close()
        return await asyncio.to_thread(self.process.wait)


class Served:
    """What the other process can do. Each returns what is to be answered."""

    def __init__(self, worker, endpoint):
        self.worker = worker
        self.endpoint = endpoint

    async def echo(self, tag, size, count=1):
        """Receives messages, and sends each back when it has come."""
        buffers = [bytearray(size) for _ in range(count)]
        receives = [self.worker.recv(buffer, tag) for buffer in buffers]
        sends = []
        for receive, buffer in zip(receives, buffers):
            received = await receive
            sends.append(self.endpoint.send(memoryview(buffer)[: received.length], received.tag))
        await asyncio.gather(*sends)

    async def take(self, tag, size):
        """Receives one message: its length and checksum."""
        buffer = bytearray(size)
        received = await self.worker.recv(buffer, tag)
        return [received.length, zlib.crc32(buffer)]

    async def give(self, tag, size, count=1):
        """Sends messages of one byte value, until they have left."""
        await asyncio.gather(*[self.endpoint.send(bytes([tag]) * size, tag) for _ in range(count)])
        await self.endpoint.flush()

    async def exchange_when_told(self, go, done, receive_tag, send_tag, size, count):
        """As soon as `go` can be read: `count` messages either way. Then writes to `done`."""
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
