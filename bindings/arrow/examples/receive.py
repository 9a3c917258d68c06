"""Listens, prints its port, and receives one record batch. Checks that it is the one that send.py
and send.c make, and that its columns are in the memory that the library received into.

receive.py
"""

import asyncio
import sys

import arrow_frames
import numpy
import pyarrow
import ucxx_rs

ROWS = 100_000


def expected():
    ids = pyarrow.array([None if at % 7 == 0 else at for at in range(ROWS)], pyarrow.int64())
    names = pyarrow.array(["" if at % 3 == 0 else f"row {at}" for at in range(ROWS)])
    return pyarrow.record_batch({"id": ids, "name": names})


def check_in_place(batch, frames):
    """Every buffer of the batch begins in a frame: nothing was copied."""
    begins = {numpy.frombuffer(frame, numpy.uint8).ctypes.data for frame in frames if len(frame)}
    buffers = [buffer for column in batch.columns for buffer in column.buffers() if buffer]
    copied = [buffer for buffer in buffers if buffer.address not in begins]
    if copied or len(buffers) < 4:
        sys.exit(f"{len(copied)} of {len(buffers)} buffers were copied")


async def main():
    async with ucxx_rs.Worker() as worker:
        with worker.listen(host="127.0.0.1") as listener:
            print(listener.port, flush=True)
            endpoint = await listener.accept()
        frames = await worker.recv_multi(tag=1, source=endpoint)
        batch = arrow_frames.batch_from(frames)
        batch.validate(full=True)
        check_in_place(batch, frames)
        if not batch.equals(expected()):
            sys.exit("another batch")
        await endpoint.send(b"thanks", tag=2)
        await endpoint.wait_closed()
    print(f"{batch.num_rows} rows, {len(frames)} frames, nothing copied")


asyncio.run(main())
