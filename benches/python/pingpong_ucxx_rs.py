# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""This library's Python package: the same as pingpong_ucxx.py."""

import asyncio

import two_sides
import ucxx_rs

TAG_THERE, TAG_BACK = 1, 2
# One way to use a progress thread serves the purposes of UCXX's two.
MODES = {"thread-notifier": "thread"}


async def main(options, link):
    mine, other = (TAG_THERE, TAG_BACK) if options.side == 0 else (TAG_BACK, TAG_THERE)
    out, into = bytearray(options.size), bytearray(options.size)
    frames = [out] + [bytearray(options.size) for _ in range(options.frames - 1)]
    async with ucxx_rs.Worker(progress=MODES.get(options.mode, options.mode)) as worker:
        kind = {} if options.error_handling == "peer" else {"error_handling": 1}
        endpoint = worker.connect(two_sides.exchange(link, worker.address), **kind)

        async def send(last):
            out[0] = last
            if options.frames:
                await endpoint.send_multi(frames, mine)
            else:
                await endpoint.send(out, mine)

        async def receive():
            if options.frames:
                received = await worker.recv_multi(other)
                return received[0][0] != 0
            await worker.recv(into, other)
            return into[0] != 0

        samples = await two_sides.exchange_messages(options, send, receive)
        await endpoint.flush()
        two_sides.exchange(link, b"end")
    return samples


if __name__ == "__main__":
    chosen, between = two_sides.start()
    measured = asyncio.run(main(chosen, between))
    two_sides.report(chosen, measured, implementation="ucxx_rs (Python)")
