# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""This library through its Python client (tests/bindings/python): the same as pingpong_ucxx.py."""

import asyncio
import sys

import two_sides
from ucxx_rs_client import Context, Worker

TAG_THERE, TAG_BACK = 1, 2
MODES = {"thread-notifier": "notifier"}


async def main(options, link):
    if options.error_handling != "peer":
        sys.exit("the client's endpoints always notice that their peer has died")
    mine, other = (TAG_THERE, TAG_BACK) if options.side == 0 else (TAG_BACK, TAG_THERE)
    out, into = bytearray(8), bytearray(8)
    async with Worker(Context(), MODES.get(options.mode, options.mode)) as worker:
        endpoint = worker.connect(two_sides.exchange(link, worker.address))

        async def send(buffer):
            await endpoint.send(buffer, mine)

        async def receive(buffer):
            await worker.recv(buffer, other)

        samples = await two_sides.exchange_messages(options, send, receive, out, into)
        await endpoint.flush()
        two_sides.exchange(link, b"end")
    return samples


if __name__ == "__main__":
    chosen, between = two_sides.start()
    two_sides.report(chosen, asyncio.run(main(chosen, between)), implementation="ucxx_rs (Python)")
