# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""asyncio over ucxx_rs: a small client, which shows that the notifier serves a language with a
global lock.
"""

from .context import Context
from .endpoint import Endpoint
from .frames import ReceivedFrames
from .operation import Operation, Received
from .question import Question
from .status import Status, UcxxError
from .worker import Worker

__all__ = [
    "Context",
    "Endpoint",
    "Operation",
    "Question",
    "Received",
    "ReceivedFrames",
    "Status",
    "UcxxError",
    "Worker",
]
