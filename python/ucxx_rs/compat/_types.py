# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Tags, features and other small types of UCXX."""

from __future__ import annotations

import enum
import operator
import typing

from .._native import lib

EVERY_BIT = 2**64 - 1


class Feature(enum.Enum):
    """What a context can do, with UCP's numbers."""

    TAG = 1
    RMA = 2
    AMO32 = 4
    AMO64 = 8
    WAKEUP = 16
    STREAM = 32
    AM = 64


#: Each feature as this library has it.
FEATURES = {
    Feature.TAG: lib.UCXX_FEATURE_TAG,
    Feature.RMA: lib.UCXX_FEATURE_RMA,
    Feature.AMO32: lib.UCXX_FEATURE_ATOMIC,
    Feature.AMO64: lib.UCXX_FEATURE_ATOMIC,
    Feature.WAKEUP: lib.UCXX_FEATURE_WAKEUP,
    Feature.STREAM: lib.UCXX_FEATURE_STREAM,
    Feature.AM: lib.UCXX_FEATURE_AM,
}


class PythonRequestNotifierWaitState(enum.Enum):
    """Why `UCXWorker.wait_request_notifier` has returned."""

    Ready = 0
    Timeout = 1
    Shutdown = 2


class _Number:
    """64 bits without a sign, equal to the same number."""

    __slots__ = ("value",)

    def __init__(self, value: typing.Any) -> None:
        number = int(value) if isinstance(value, float) else operator.index(value)
        if not 0 <= number <= EVERY_BIT:
            raise OverflowError(f"{number} is no unsigned number of 64 bits")
        self.value = number

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (_Number, int)):
            return self.value == (other if isinstance(other, int) else other.value)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.value)

    def __int__(self) -> int:
        return self.value

    __index__ = __int__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.value})"


class UCXXTag(_Number):
    """The tag of a message."""

    __slots__ = ()


class UCXXTagMask(_Number):
    """The bits of a tag that have to be equal."""

    __slots__ = ()


UCXXTagMaskFull = UCXXTagMask(EVERY_BIT)
