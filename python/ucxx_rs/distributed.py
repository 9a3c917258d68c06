# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""A communication backend of Dask's `distributed`: the scheme `ucxxrs://`.

    LocalCluster(protocol="ucxxrs")
    dask scheduler --protocol ucxxrs; dask worker ucxxrs://HOST:8786

A message of Dask is a list of frames. It goes as one multi-buffer transfer, so each frame arrives
in memory of its own, without a copy. Each side of a connection chooses the tag that it receives by,
and tells it on the connection's stream. All connections of a process share one worker.
"""

from __future__ import annotations

# distributed has few types of its own.
# mypy: disable-error-code="no-untyped-call"
# pyright: basic, reportIncompatibleMethodOverride=false, reportArgumentType=false
import asyncio
import atexit
import itertools
import os
import struct
import threading
import typing
import weakref

from distributed.comm.addressing import parse_host_port, unparse_host_port
from distributed.comm.core import BaseListener, Comm, CommClosedError, Connector
from distributed.comm.registry import Backend
from distributed.comm.utils import ensure_concrete_host, from_frames, to_frames
from distributed.utils import ensure_ip, get_ip, nbytes

from . import Endpoint, Error, Worker
from ._handlers import spawn
from ._requests import Request

PREFIX = "ucxxrs://"
_TAG = struct.Struct("<Q")
_lock = threading.Lock()
_tags = itertools.count(1)
_worker: Worker | None = None
_process = 0


def process_worker() -> Worker:
    """The worker of all connections of this process."""
    global _worker, _process
    with _lock:
        if _worker is None or _worker.closed or _process != os.getpid():
            _worker, _process = Worker(name="distributed"), os.getpid()
            atexit.register(_worker.abort)
        return _worker


class UCXXRSComm(Comm):
    """A connection between two processes of Dask."""

    def __init__(
        self, endpoint: Endpoint, receives: int, sends: int, local: str, peer: str,
        deserialize: bool,
    ) -> None:  # fmt: skip
        super().__init__(deserialize=deserialize)
        self._endpoint = endpoint
        self._receives = receives
        self._sends = sends
        # distributed reads these two names.
        self._local_addr = local
        self._peer_addr = peer
        self._closed = False
        self._reading: Request[typing.Any] | None = None

    @property
    def local_address(self) -> str:
        return self._local_addr

    @property
    def peer_address(self) -> str:
        return self._peer_addr

    async def read(self, deserializers: typing.Any = None) -> typing.Any:
        if self._closed:
            raise CommClosedError(f"{self}: closed")
        worker = self._endpoint.worker
        ended = self._endpoint.ended
        if ended and worker.probe(self._receives) is None:
            self.abort()
            raise CommClosedError(f"{self}: the peer has closed the connection")
        try:
            # It has no source: what the peer sent before it closed can still be received.
            request = self._reading = worker.recv_multi(self._receives)
            if ended:
                self.ended()
            frames = await request
        except Error as failure:
            self.abort()
            raise CommClosedError(f"{self}: {failure}") from failure
        except BaseException:
            # The rest of a message may be on its way.
            self.abort()
            raise
        finally:
            self._reading = None
        return await from_frames(
            frames,
            deserialize=self.deserialize,
            deserializers=deserializers,
            allow_offload=self.allow_offload,
        )

    async def write(
        self, msg: typing.Any, serializers: typing.Any = None, on_error: str = "message"
    ) -> int:
        if self._closed:
            raise CommClosedError(f"{self}: closed")
        frames = await to_frames(
            msg,
            serializers=serializers,
            on_error=on_error,
            context={
                "sender": self.local_info,
                "recipient": self.remote_info,
                **self.handshake_options,
            },
            allow_offload=self.allow_offload,
        )
        try:
            await self._endpoint.send_multi(frames, self._sends)
        except Error as failure:
            self.abort()
            raise CommClosedError(f"{self}: {failure}") from failure
        except BaseException:
            self.abort()
            raise
        return sum(map(nbytes, frames))

    def ended(self) -> None:
        """The peer has closed the connection, or it broke. What was sent before has arrived."""
        if self._reading is not None:
            spawn(self._give_up(self._reading))

    async def _give_up(self, request: Request[typing.Any]) -> None:
        """Cancels a receive when nothing is left that it could receive."""
        worker = self._endpoint.worker
        while not request.done and not self._closed:
            if worker.probe(self._receives) is None:
                request.cancel()
                return
            # The worker is about to take it.
            await asyncio.sleep(0.001)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._reading is not None:
            self._reading.cancel()
        try:
            await self._endpoint.close()
        except Error:
            pass
        self._endpoint.abort()

    def abort(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._reading is not None:
            self._reading.cancel()
        self._endpoint.abort()

    def closed(self) -> bool:
        return self._closed


async def _joined(endpoint: Endpoint, local: str, peer: str, deserialize: bool) -> UCXXRSComm:
    """The two sides tell each other their tags."""
    receives = next(_tags)
    place = bytearray(_TAG.size)
    try:
        await endpoint.stream_send(_TAG.pack(receives))
        await endpoint.stream_recv(place)
    except BaseException:
        endpoint.abort()
        raise
    (sends,) = _TAG.unpack(place)
    comm = UCXXRSComm(endpoint, receives, sends, local, peer, deserialize)
    endpoint.on_close = _report_to(comm)
    return comm


def _report_to(comm: UCXXRSComm) -> typing.Callable[[Endpoint, Error | None], None]:
    held = weakref.ref(comm)

    def on_close(_endpoint: Endpoint, _failure: Error | None) -> None:
        comm = held()
        if comm is not None:
            comm.ended()

    return on_close


class UCXXRSConnector(Connector):
    async def connect(
        self, address: str, deserialize: bool = True, **_arguments: typing.Any
    ) -> UCXXRSComm:
        host, port = parse_host_port(address)
        try:
            endpoint = process_worker().connect(ensure_ip(host), port)
            local = PREFIX + unparse_host_port(get_ip(ensure_ip(host)), 0)
            return await _joined(endpoint, local, PREFIX + address, deserialize)
        except Error as failure:
            raise CommClosedError(f"connect to {PREFIX}{address}: {failure}") from failure


class UCXXRSListener(BaseListener):
    # distributed reads this name.
    prefix = PREFIX

    def __init__(
        self,
        address: str,
        comm_handler: typing.Callable[[UCXXRSComm], typing.Any],
        deserialize: bool = True,
        allow_offload: bool = True,
        **_arguments: typing.Any,
    ) -> None:
        super().__init__()
        self.ip, self._port = parse_host_port(address, 0)
        self.comm_handler = comm_handler
        self.deserialize = deserialize
        self.allow_offload = allow_offload
        self._listener: typing.Any = None

    async def start(self) -> None:
        host = self.ip if self.ip not in ("", "0.0.0.0") else None
        try:
            self._listener = process_worker().listen(self._requested, self._port, host)
        except Error as failure:
            raise OSError(f"listen on {self.ip}:{self._port}: {failure}") from failure
        self._port = self._listener.port

    async def _requested(self, request: typing.Any) -> None:
        peer = PREFIX + request.address
        try:
            endpoint = request.accept()
            comm = await _joined(endpoint, self.contact_address, peer, self.deserialize)
            comm.allow_offload = self.allow_offload
            await self.on_connection(comm)
        except (CommClosedError, Error):
            # The client has gone before its connection was made.
            return
        await self.comm_handler(comm)

    def stop(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    @property
    def listen_address(self) -> str:
        return PREFIX + unparse_host_port(self.ip or "0.0.0.0", self._port)

    @property
    def contact_address(self) -> str:
        return PREFIX + unparse_host_port(ensure_concrete_host(self.ip), self._port)


class UCXXRSBackend(Backend):
    """The entry point."""

    def get_connector(self) -> UCXXRSConnector:
        return UCXXRSConnector()

    def get_listener(
        self, loc: str, handle_comm: typing.Any, deserialize: bool, **arguments: typing.Any
    ) -> UCXXRSListener:
        return UCXXRSListener(loc, handle_comm, deserialize, **arguments)

    def get_address_host(self, loc: str) -> str:
        return str(parse_host_port(loc)[0])

    def get_address_host_port(self, loc: str) -> tuple[str, int]:
        host, port = parse_host_port(loc)
        return host, port

    def resolve_address(self, loc: str) -> str:
        host, port = parse_host_port(loc)
        return str(unparse_host_port(ensure_ip(host), port))

    def get_local_address_for(self, loc: str) -> str:
        host, _ = parse_host_port(loc)
        return str(unparse_host_port(get_ip(ensure_ip(host)), None))
