# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""The peer's Python interface: half of the round trip of a message, or of a multi-buffer message,
through asyncio, with each of its ways to make progress."""

import asyncio

import two_sides
import ucxx
import ucxx._lib.arr

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
    out, into = bytearray(options.size), bytearray(options.size)
    frames = [ucxx._lib.arr.Array(out)]
    frames += [ucxx._lib.arr.Array(bytearray(options.size)) for _ in range(options.frames - 1)]
    there, back = ucxx.types.Tag(mine), ucxx.types.Tag(other)

    async def send(last):
        out[0] = last
        if options.frames:
            await endpoint.send_multi(frames, tag=there, force_tag=True)
        else:
            await endpoint.send(out, tag=there, force_tag=True)

    async def receive():
        if options.frames:
            received = await endpoint.recv_multi(tag=back, force_tag=True)
            return memoryview(received[0])[0] != 0
        await endpoint.recv(into, tag=back, force_tag=True)
        return into[0] != 0

    samples = await two_sides.exchange_messages(options, send, receive)
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
