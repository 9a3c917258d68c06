# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""The header's statuses, and the exception that carries one."""

import enum

from _ucxx_rs import ffi, lib

Status = enum.IntEnum(
    "Status",
    {
        name.removeprefix("UCXX_"): value
        for value, name in ffi.typeof("enum ucxx_status").elements.items()
    },
)
Status.__doc__ = "The values of `enum ucxx_status`, without their prefix."

OK = lib.UCXX_OK
INPROGRESS = lib.UCXX_INPROGRESS


def text(pointer):
    return ffi.string(pointer).decode(errors="replace")


class UcxxError(Exception):
    """An operation or a call failed: `status` is the status, `message` explains it.

    `length` is that of a message or a reply that was longer than its buffer, otherwise None.
    """

    def __init__(self, status, message="", length=None):
        try:
            self.status = Status(status)
        except ValueError:
            # One of UCS's own numbers, which has no name in the header.
            self.status = status
        self.name = text(lib.ucxx_status_name(status))
        self.message = message or text(lib.ucxx_status_string(status))
        self.length = length
        super().__init__(self.status, self.message)

    def __str__(self):
        return f"{self.name}: {self.message}"


def check(status):
    """The status of a call on this thread, or the error that it reported."""
    if status < 0:
        raise UcxxError(status, text(lib.ucxx_last_error_message()))
    return status
