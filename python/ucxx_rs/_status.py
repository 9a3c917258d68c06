# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Exceptions, one for each status of the library.

Each is an `Error`, and also the built-in exception that means the same, where there is one:
`except TimeoutError` and `except ConnectionError` work as expected.
"""

from __future__ import annotations

from ._native import ffi, lib

OK: int = lib.UCXX_OK
INPROGRESS: int = lib.UCXX_INPROGRESS


class Error(Exception):
    """What all exceptions of this package derive from."""

    #: The status as in the C header, such as -20 for UCXX_ERR_TIMED_OUT.
    status: int = 0
    #: Of a message that did not fit: its length in bytes.
    length: int | None = None

    @property
    def name(self) -> str:
        """The status by name, such as "UCXX_ERR_TIMED_OUT"."""
        return text(lib.ucxx_status_name(self.status))


class NoMessage(Error):
    """No message waits."""


class NoResource(Error):
    """A queue, a descriptor or another resource has run out. Try again later."""


class IOFailure(Error, OSError):
    """The system or the network failed."""


class OutOfMemory(Error, MemoryError):
    """There is not enough memory."""


class InvalidParam(Error, ValueError):
    """An argument cannot be right. The text says which."""


class Unreachable(Error, ConnectionError):
    """No transport reaches the peer."""


class InvalidAddress(Error, ValueError):
    """The bytes are not a worker's address."""


class NotImplementedByUCX(Error, NotImplementedError):
    """UCX has not implemented this."""


class MessageTruncated(Error):
    """The message was longer than the buffer. `length` has its length."""


class BufferTooSmall(Error, BufferError):
    """The buffer is too small."""


class NoElement(Error, LookupError):
    """There is no such thing; for a fetch: the peer has no handler for its id."""


class NoDevice(Error):
    """There is no such device."""


class Busy(Error):
    """Not possible at this moment."""


class Canceled(Error):
    """The operation was cancelled, or its endpoint or worker was closed by force."""


class AlreadyExists(Error):
    """It exists already."""


class OutOfRange(Error, ValueError):
    """A range lies outside of the memory."""


class TimedOut(Error, TimeoutError):
    """The operation's own time limit has expired."""


class ExceedsLimit(Error, ValueError):
    """Larger than a limit that the text names."""


class Unsupported(Error, NotImplementedError):
    """This worker, memory or UCX cannot do this."""


class Rejected(Error, ConnectionRefusedError):
    """The peer has rejected it."""


class NotConnected(Error, ConnectionError):
    """There is no connection."""


class ConnectionReset(Error, ConnectionResetError):
    """The peer has closed the connection, or it broke."""


class EndpointTimeout(Error, ConnectionError):
    """The peer does not answer any more."""


class RmaError(Error):
    """A window refused an operation."""


class RmaSync(RmaError):
    """There is no epoch for it, or one that excludes it."""


class RmaRange(RmaError, ValueError):
    """Outside of the target's window."""


class RmaAttach(RmaError):
    """The memory cannot be attached."""


class RmaFlavor(RmaError):
    """Not with this kind of window."""


class RmaOp(RmaError, ValueError):
    """Not with this operation."""


class RmaPoisoned(RmaError):
    """The window is broken by an earlier error."""


class RmaRank(RmaError, ValueError):
    """There is no such rank."""


class RmaType(RmaError, TypeError):
    """Not with this type of element."""


class RmaLockType(RmaError, ValueError):
    """There is no such lock type."""


class RmaAssert(RmaError, ValueError):
    """There is no such assertion here."""


class PeerFailed(Error, ConnectionError):
    """The peer has failed."""


class Closed(Error):
    """It has been closed on this side."""


class Starved(Error):
    """No envelope can come any more."""


class Forked(Error):
    """It was made before fork(), and is of no use in the child."""


class Panic(Error):
    """A fault in the library. Please report it with its text."""


class ApplicationError(Error):
    """The peer's handler has rejected a fetch with a status of its own: -1000 or lower."""


_BY_STATUS: dict[int, type[Error]] = {
    lib.UCXX_ERR_NO_MESSAGE: NoMessage,
    lib.UCXX_ERR_NO_RESOURCE: NoResource,
    lib.UCXX_ERR_IO_ERROR: IOFailure,
    lib.UCXX_ERR_NO_MEMORY: OutOfMemory,
    lib.UCXX_ERR_INVALID_PARAM: InvalidParam,
    lib.UCXX_ERR_UNREACHABLE: Unreachable,
    lib.UCXX_ERR_INVALID_ADDR: InvalidAddress,
    lib.UCXX_ERR_NOT_IMPLEMENTED: NotImplementedByUCX,
    lib.UCXX_ERR_MESSAGE_TRUNCATED: MessageTruncated,
    lib.UCXX_ERR_BUFFER_TOO_SMALL: BufferTooSmall,
    lib.UCXX_ERR_NO_ELEM: NoElement,
    lib.UCXX_ERR_NO_DEVICE: NoDevice,
    lib.UCXX_ERR_BUSY: Busy,
    lib.UCXX_ERR_CANCELED: Canceled,
    lib.UCXX_ERR_ALREADY_EXISTS: AlreadyExists,
    lib.UCXX_ERR_OUT_OF_RANGE: OutOfRange,
    lib.UCXX_ERR_TIMED_OUT: TimedOut,
    lib.UCXX_ERR_EXCEEDS_LIMIT: ExceedsLimit,
    lib.UCXX_ERR_UNSUPPORTED: Unsupported,
    lib.UCXX_ERR_REJECTED: Rejected,
    lib.UCXX_ERR_NOT_CONNECTED: NotConnected,
    lib.UCXX_ERR_CONNECTION_RESET: ConnectionReset,
    lib.UCXX_ERR_ENDPOINT_TIMEOUT: EndpointTimeout,
    lib.UCXX_ERR_RMA_SYNC: RmaSync,
    lib.UCXX_ERR_RMA_RANGE: RmaRange,
    lib.UCXX_ERR_RMA_ATTACH: RmaAttach,
    lib.UCXX_ERR_RMA_FLAVOR: RmaFlavor,
    lib.UCXX_ERR_RMA_OP: RmaOp,
    lib.UCXX_ERR_RMA_POISONED: RmaPoisoned,
    lib.UCXX_ERR_RMA_RANK: RmaRank,
    lib.UCXX_ERR_RMA_TYPE: RmaType,
    lib.UCXX_ERR_RMA_LOCK_TYPE: RmaLockType,
    lib.UCXX_ERR_PEER_FAILED: PeerFailed,
    lib.UCXX_ERR_RMA_ASSERT: RmaAssert,
    lib.UCXX_ERR_CLOSED: Closed,
    lib.UCXX_ERR_STARVED: Starved,
    lib.UCXX_ERR_FORKED: Forked,
    lib.UCXX_ERR_PANIC: Panic,
}


def text(pointer: object) -> str:
    """A C string as Python has it."""
    return ffi.string(pointer).decode(errors="replace") if pointer != ffi.NULL else ""


def error(status: int, message: str = "") -> Error:
    """The exception for a status. Without a message it has the status's own text."""
    kind = _BY_STATUS.get(status)
    if kind is None:
        kind = ApplicationError if status <= lib.UCXX_ERR_APPLICATION else Error
    made = kind(message or text(lib.ucxx_status_string(status)))
    made.status = status
    return made


def check(status: int) -> None:
    """Raises what the call has just reported, if it failed."""
    if status < 0:
        raise error(status, text(lib.ucxx_last_error_message()))
