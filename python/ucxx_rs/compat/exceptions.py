# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""UCXX's exceptions, and which of them a status of this library is."""

from __future__ import annotations

from .._native import lib
from .._status import text


class UCXError(Exception):
    """What all exceptions of UCXX derive from."""


class UCXCloseError(UCXError):
    """The endpoint is closed."""


class UCXConfigError(UCXError):
    """UCX has no such configuration."""


# The exceptions that are a status of UCX: "UCX" + name + "Error", and the status.
_STATUSES = {
    "NoMessage": lib.UCXX_ERR_NO_MESSAGE,
    "NoResource": lib.UCXX_ERR_NO_RESOURCE,
    "IO": lib.UCXX_ERR_IO_ERROR,
    "NoMemory": lib.UCXX_ERR_NO_MEMORY,
    "InvalidParam": lib.UCXX_ERR_INVALID_PARAM,
    "Unreachable": lib.UCXX_ERR_UNREACHABLE,
    "InvalidAddr": lib.UCXX_ERR_INVALID_ADDR,
    "NotImplemented": lib.UCXX_ERR_NOT_IMPLEMENTED,
    "MessageTruncated": lib.UCXX_ERR_MESSAGE_TRUNCATED,
    "BufferTooSmall": lib.UCXX_ERR_BUFFER_TOO_SMALL,
    "NoElem": lib.UCXX_ERR_NO_ELEM,
    "NoDevice": lib.UCXX_ERR_NO_DEVICE,
    "Busy": lib.UCXX_ERR_BUSY,
    "Canceled": lib.UCXX_ERR_CANCELED,
    "AlreadyExists": lib.UCXX_ERR_ALREADY_EXISTS,
    "OutOfRange": lib.UCXX_ERR_OUT_OF_RANGE,
    "TimedOut": lib.UCXX_ERR_TIMED_OUT,
    "ExceedsLimit": lib.UCXX_ERR_EXCEEDS_LIMIT,
    "Unsupported": lib.UCXX_ERR_UNSUPPORTED,
    "Rejected": lib.UCXX_ERR_REJECTED,
    "NotConnected": lib.UCXX_ERR_NOT_CONNECTED,
    "ConnectionReset": lib.UCXX_ERR_CONNECTION_RESET,
    "EndpointTimeout": lib.UCXX_ERR_ENDPOINT_TIMEOUT,
    # This library never reports these.
    "NoProgress": None,
    "SomeConnectsFailed": None,
    "ShmemSegment": None,
    "FirstLinkFailure": None,
    "LastLinkFailure": None,
    "FirstEndpointFailure": None,
    "LastEndpointFailure": None,
}
_BY_STATUS: dict[int, type[UCXError]] = {}
for _name, _status in _STATUSES.items():
    _kind = type(f"UCX{_name}Error", (UCXError,), {"__module__": __name__})
    globals()[_kind.__name__] = _kind
    if _status is not None:
        _BY_STATUS[_status] = _kind

UCXCanceledError = _BY_STATUS[lib.UCXX_ERR_CANCELED]
UCXMessageTruncatedError = _BY_STATUS[lib.UCXX_ERR_MESSAGE_TRUNCATED]
UCXCanceled = UCXCanceledError
UCXMsgTruncated = UCXMessageTruncatedError

# UCXX has no status for these. A close by this side cancels what is in progress.
_BY_STATUS[lib.UCXX_ERR_CLOSED] = UCXCanceledError
_BY_STATUS[lib.UCXX_ERR_PEER_FAILED] = _BY_STATUS[lib.UCXX_ERR_CONNECTION_RESET]

__all__ = [name for name in globals() if name.startswith("UCX")]


def error(status: int, message: str = "") -> UCXError:
    """The exception for a status, with the status's own text if there is no message."""
    kind = _BY_STATUS.get(status, UCXError)
    return kind(message or text(lib.ucxx_status_string(status)))


def check(status: int) -> None:
    """Raises what the call has just reported, if it failed."""
    if status < 0:
        raise error(status, text(lib.ucxx_last_error_message()))
