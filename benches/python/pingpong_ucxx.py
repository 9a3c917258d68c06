# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""The peer's Python interface: half of the round trip of 8 bytes through asyncio, with each of its
ways to make progress."""

import asyncio

import two_sides
import ucxx

TAG_THERE, TAG_BACK = 1, 2


async def main(options, link):
    threaded = options.mode.startswith("thread")
    notifier = options.mode == "thread-notifier"
    ucxx.init(
        progress_mode="thread" if threaded else options.mode,
        enable_delayed_submission=threaded,
        enable_python_future=notifier,
    )
    address = ucxx.get_ucx_address_from_buffer(
        two_sides.exchange(link, bytes(memoryview(ucxx.get_worker_address())))
    )
    endpoint = await ucxx.create_endpoint_from_worker_address(
        address, endpoint_error_handling=options.error_handling == "peer"
    )
    mine, other = (TAG_THERE, TAG_BACK) if options.side == 0 else (TAG_BACK, TAG_THERE)
    out, into = bytearray(8), bytearray(8)

    async def send(buffer):
        await endpoint.send(buffer, tag=ucxx.types.Tag(mine), force_tag=True)

    async def receive(buffer):
        await endpoint.recv(buffer, tag=ucxx.types.Tag(other), force_tag=True)

    samples = await two_sides.exchange_messages(options, send, receive, out, into)
    two_sides.exchange(link, b"end")
    endpoint.abort()
    ucxx.stop_notifier_thread()
    return samples


if __name__ == "__main__":
    chosen, between = two_sides.start()
    measured = asyncio.run(main(chosen, between))
    version = ".".join(map(str, ucxx.get_ucx_version()))
    two_sides.report(chosen, measured, implementation="ucxx (Python)", ucx=version)
    ucxx.reset()
