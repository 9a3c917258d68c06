"""Sends one record batch to receive.py.

send.py PORT
"""

import asyncio
import sys

import arrow_frames
import pyarrow
import ucxx_rs

ROWS = 100_000


async def main():
    ids = pyarrow.array([None if at % 7 == 0 else at for at in range(ROWS)], pyarrow.int64())
    names = pyarrow.array(["" if at % 3 == 0 else f"row {at}" for at in range(ROWS)])
    batch = pyarrow.record_batch({"id": ids, "name": names})
    async with ucxx_rs.Worker() as worker, worker.connect("127.0.0.1", int(sys.argv[1])) as peer:
        await peer.send_multi(arrow_frames.frames_of(batch), tag=1)
        answer = bytearray(6)
        await worker.recv(answer, tag=2, source=peer)


asyncio.run(main())
