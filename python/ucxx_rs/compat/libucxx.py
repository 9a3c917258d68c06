# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""UCXX's `ucxx._lib.libucxx`, on this library."""

from __future__ import annotations

from . import exceptions
from ._context import UCXAddress, UCXConfig, UCXContext, get_current_options, get_ucx_version
from ._endpoint import UCXEndpoint
from ._request import CCCLBufferWrapper, UCXBufferRequest, UCXBufferRequests, UCXRequest
from ._types import (
    Feature,
    PythonRequestNotifierWaitState,
    UCXXTag,
    UCXXTagMask,
    UCXXTagMaskFull,
)
from ._worker import TagProbeResult, UCXListener, UCXWorker
from .exceptions import *  # noqa: F403


def _create_exceptions() -> None:
    """Has no effect: the exceptions exist."""


__all__ = [
    *exceptions.__all__, "CCCLBufferWrapper", "Feature", "PythonRequestNotifierWaitState",
    "TagProbeResult", "UCXAddress", "UCXBufferRequest", "UCXBufferRequests", "UCXConfig",
    "UCXContext", "UCXEndpoint", "UCXListener", "UCXRequest", "UCXWorker", "UCXXTag",
    "UCXXTagMask", "UCXXTagMaskFull", "_create_exceptions", "get_current_options",
    "get_ucx_version",
]  # fmt: skip
