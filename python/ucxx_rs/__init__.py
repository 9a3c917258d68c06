# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""ucxx_rs: shared memory, TCP, InfiniBand and GPU memory for Python, over UCX.

    async with ucxx_rs.Worker() as worker:
        endpoint = worker.connect("host", 7000)
        await endpoint.send(array, tag=1)

An operation returns a `Request`: `await` it in asyncio, or call `wait()` elsewhere.
"""

from __future__ import annotations

from . import _ucx

_ucx.load()

from ._buffers import Buffer  # noqa: E402
from ._context import Context, config, version  # noqa: E402
from ._endpoint import Endpoint  # noqa: E402
from ._frames import DeviceFrame  # noqa: E402
from ._group import Group  # noqa: E402
from ._hub import Envelope, Hub, Link  # noqa: E402
from ._listener import ConnectionRequest, Listener  # noqa: E402
from ._memory import Memory, RemoteMemory  # noqa: E402
from ._messages import Fetch, Message  # noqa: E402
from ._requests import Received, Request  # noqa: E402
from ._status import (  # noqa: E402
    AlreadyExists,
    ApplicationError,
    BufferTooSmall,
    Busy,
    Canceled,
    Closed,
    ConnectionReset,
    EndpointTimeout,
    Error,
    ExceedsLimit,
    Forked,
    IOFailure,
    InvalidAddress,
    InvalidParam,
    MessageTruncated,
    NoDevice,
    NoElement,
    NoMessage,
    NoResource,
    NotConnected,
    NotImplementedByUCX,
    OutOfMemory,
    OutOfRange,
    Panic,
    PeerFailed,
    Rejected,
    RmaAssert,
    RmaAttach,
    RmaError,
    RmaFlavor,
    RmaLockType,
    RmaOp,
    RmaPoisoned,
    RmaRange,
    RmaRank,
    RmaSync,
    RmaType,
    Starved,
    TimedOut,
    Unreachable,
    Unsupported,
)
from ._window import Epoch, Window  # noqa: E402
from ._worker import Worker  # noqa: E402

__version__ = ".".join(map(str, version()[0]))

__all__ = [
    "AlreadyExists",
    "ApplicationError",
    "Buffer",
    "BufferTooSmall",
    "Busy",
    "Canceled",
    "Closed",
    "ConnectionRequest",
    "ConnectionReset",
    "Context",
    "DeviceFrame",
    "Endpoint",
    "EndpointTimeout",
    "Envelope",
    "Epoch",
    "Error",
    "ExceedsLimit",
    "Fetch",
    "Forked",
    "Group",
    "Hub",
    "IOFailure",
    "InvalidAddress",
    "InvalidParam",
    "Link",
    "Listener",
    "Memory",
    "Message",
    "MessageTruncated",
    "NoDevice",
    "NoElement",
    "NoMessage",
    "NoResource",
    "NotConnected",
    "NotImplementedByUCX",
    "OutOfMemory",
    "OutOfRange",
    "Panic",
    "PeerFailed",
    "Received",
    "Rejected",
    "RemoteMemory",
    "Request",
    "RmaAssert",
    "RmaAttach",
    "RmaError",
    "RmaFlavor",
    "RmaLockType",
    "RmaOp",
    "RmaPoisoned",
    "RmaRange",
    "RmaRank",
    "RmaSync",
    "RmaType",
    "Starved",
    "TimedOut",
    "Unreachable",
    "Unsupported",
    "Window",
    "Worker",
    "config",
    "version",
]
