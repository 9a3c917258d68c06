# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Calls of users' handlers: plain functions and coroutine functions."""

from __future__ import annotations

import asyncio
import inspect
import typing

# asyncio keeps only weak references to tasks.
_tasks: set[asyncio.Task[None]] = set()


def spawn(coroutine: typing.Coroutine[typing.Any, typing.Any, None]) -> None:
    """A task of the running loop that lives until it has ended."""
    task = asyncio.get_running_loop().create_task(coroutine)
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


def call_handler(
    handler: typing.Callable[[typing.Any], typing.Any],
    arrived: typing.Any,
    finish: typing.Callable[[typing.Any, typing.Any], None],
) -> None:
    """Calls `handler(arrived)`, as a task if it is a coroutine function, and then
    `finish(arrived, result)`. `arrived` is given back at the end: its `handled` is called with the
    exception, if there was one."""
    try:
        value = handler(arrived)
        if inspect.iscoroutine(value):
            if asyncio._get_running_loop() is None:
                value.close()
                raise TypeError("a coroutine function as a handler needs a running event loop")
            spawn(_finish(value, arrived, finish))
            return
        finish(arrived, value)
    except Exception as failure:
        arrived.handled(failure)
        report(handler, failure)
    else:
        arrived.handled(None)


async def _finish(
    coroutine: typing.Coroutine[typing.Any, typing.Any, typing.Any],
    arrived: typing.Any,
    finish: typing.Callable[[typing.Any, typing.Any], None],
) -> None:
    try:
        finish(arrived, await coroutine)
    except Exception as failure:
        arrived.handled(failure)
        report(coroutine, failure)
    except BaseException as ended:
        # The task was cancelled, or the program ends.
        arrived.handled(ended)
        raise
    else:
        arrived.handled(None)


def report(source: typing.Any, failure: BaseException) -> None:
    """An exception that nobody can catch: to the loop's exception handler, or, without a loop, to
    the log "ucxx_rs"."""
    loop = asyncio._get_running_loop()
    if loop is not None:
        loop.call_exception_handler(
            {"message": f"exception in a handler of ucxx_rs: {source!r}", "exception": failure}
        )
    else:
        import logging

        logging.getLogger("ucxx_rs").error("exception in a handler: %r", source, exc_info=failure)
