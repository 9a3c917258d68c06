# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Groups and windows in three processes, in every mode, with every kind of epoch.

test_group.py RANK MODE TLS ROOT       one member, started by the test
"""

import asyncio
import os
import subprocess
import sys
import unittest

import numpy as np

import ucxx_rs
from case import LIMIT_S, MODES, TRANSPORTS, Case, context
from free_port import free_port

SIZE = 3


def collectives(group, rank):
    assert (group.rank, group.size) == (rank, SIZE)
    assert group.allgather(b"%d" % rank) == [b"%d" % each for each in range(SIZE)]
    assert group.allgather(b"") == [b""] * SIZE
    data = bytearray(b"from one") if rank == 1 else bytearray(8)
    group.broadcast(data, 1)
    assert data == b"from one"
    if rank == 1:
        group.broadcast(b"read only", 1)
    else:
        buffer = bytearray(9)
        group.broadcast(buffer, 1)
        assert buffer == b"read only"
    group.barrier()
    assert all(group.same_host(each) for each in range(SIZE))
    if rank < 2:
        with group.subset([1, 0]) as pair:
            assert (pair.rank, pair.size) == (1 - rank, 2)
            assert pair.allgather(b"%d" % rank) == [b"1", b"0"]
    group.barrier()


def messages(group, worker, rank):
    right, left = (rank + 1) % SIZE, (rank - 1) % SIZE
    endpoint = group.endpoint(right)
    received = worker.recv(into := bytearray(1), 5)
    sent = endpoint.send(b"%d" % rank, 5)
    received.wait()
    sent.wait()
    assert into == b"%d" % left
    group.barrier()


def epochs(group, rank):
    right, left = (rank + 1) % SIZE, (rank - 1) % SIZE
    window = ucxx_rs.Window(group, 100, "float64")
    window.array[:] = rank
    assert window.memory.format == "d" and len(window.memory) == 100
    group.barrier()
    with window.lock(right) as epoch:
        epoch.put(np.arange(10.0) + 100 * rank, 10)
    group.barrier()
    assert window.array[10] == 100 * left
    got = np.zeros(5)
    with window.lock_all() as epoch:
        epoch.get(got, 10, rank=right)
        epoch.flush(right)
        assert got[0] == 100 * rank
        assert epoch.rget(got, 12, rank=right).wait() is None
        assert got[0] == 100 * rank + 2
        epoch.rput(got[:1], 50, rank=right).wait()
        epoch.flush()
        raised(TypeError, epoch.put, got)
    group.barrier()
    assert window.array[50] == 100 * left + 2
    with window.fence() as epoch:
        epoch.accumulate(np.ones(3), 0, rank=0)
        epoch.accumulate(np.full(1, 7.0 + rank), 3, "max", rank=0)
    if rank == 0:
        assert list(window.array[:5]) == [SIZE, SIZE, SIZE, 9, 0], window.array[:5]
    group.barrier()
    # Rank 0 exposes its memory to the others.
    if rank == 0:
        window.post([1, 2])
        window.wait()
        assert list(window.array[21:23]) == [11, 12]
    else:
        with window.start([0]) as epoch:
            epoch.put(np.full(1, 10.0 + rank), 20 + rank, rank=0)
    group.barrier()
    raised(ucxx_rs.RmaRank, window.lock, 7)
    raised(ucxx_rs.RmaError, ucxx_rs.Epoch(window, 0, int).put, got)
    with window.lock(right, shared=True) as epoch:
        raised(ucxx_rs.RmaRange, epoch.put, got, 98)
        raised(ucxx_rs.RmaType, epoch.put, b"12345")
        raised(ValueError, epoch.accumulate, got, 0, "average")
        raised((BufferError, ValueError), epoch.get, b"read only buffer")
    try:
        with window.lock(right):
            raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    group.barrier()
    window.close()
    raised(ucxx_rs.Closed, window.lock, 0)


def counters(group, rank):
    own = np.zeros(4, np.int64)
    with ucxx_rs.Window(group, dtype=np.int64, buffer=own) as window:
        with window.lock(0, shared=True) as epoch:
            before = [epoch.fetch_and_op(1) for _ in range(10)]
            assert before == sorted(set(before))
            epoch.fetch_and_op(np.int64(1 << rank), 1, "bor")
            taken = epoch.compare_and_swap(0, rank + 1, 2)
            assert epoch.fetch_and_op(0, 2, "no_op") == (taken or rank + 1)
        group.barrier()
        if rank == 0:
            assert list(own[:2]) == [10 * SIZE, 7]
        group.barrier()
    with ucxx_rs.Window(group, 8, "int32", shared=True) as window:
        window.memory[0] = rank
        window.sync()
        group.barrier()
        window.sync()
        assert [window.shared(each)[0] for each in range(SIZE)] == list(range(SIZE))
        group.barrier()
    for dtype in ("bool", "uint8", "float32", "complex128", np.dtype("<i2"), int):
        with ucxx_rs.Window(group, 4, dtype) as window:
            window.array[:] = 1
            group.barrier()
            got = np.zeros(4, window.dtype)
            with window.lock((rank + 1) % SIZE) as epoch:
                epoch.get(got)
            assert (got == 1).all()
            group.barrier()
    raised(ucxx_rs.RmaType, ucxx_rs.Window, group, 4, "object")
    raised(TypeError, ucxx_rs.Window, group)


async def in_a_loop(worker, root, rank):
    group = await ucxx_rs.Group.make(
        worker, bootstrap="tcp", rank=rank, size=SIZE, root=root, timeout=30, collective_timeout=30
    )
    window = await ucxx_rs.Window.make(group, 4, "int64")
    # What another thread waits for does not take what the loop waits for.
    right = group.endpoint((rank + 1) % SIZE)
    for _ in range(20):
        received = asyncio.ensure_future(worker.recv(bytearray(1), 6))
        sent = right.send(b"x", 6)
        await asyncio.gather(group.abarrier(), received, sent)
    assert await group.aallgather(b"%d" % rank) == [b"0", b"1", b"2"]
    with await window.alock(0) as epoch:
        epoch.accumulate(np.ones(1, np.int64))
        await epoch.aflush()
    await group.abarrier()
    if rank == 0:
        assert window.memory[0] == SIZE
    await group.abarrier()
    await window.aclose()
    group.close()
    raised(ucxx_rs.Closed, group.barrier)


def raised(kinds, call, *arguments):
    try:
        call(*arguments)
    except kinds:
        return
    raise AssertionError(f"{call} did not raise {kinds}")


def member(rank, mode, tls, root):
    with ucxx_rs.Worker(context(tls), mode) as worker:
        with ucxx_rs.Group(
            worker, bootstrap="tcp", rank=rank, size=SIZE, root=root, timeout=30,
            collective_timeout=30,
        ) as group:  # fmt: skip
            collectives(group, rank)
            messages(group, worker, rank)
            epochs(group, rank)
            counters(group, rank)
            group.barrier()
    with ucxx_rs.Worker(context(tls), mode) as worker:
        asyncio.run(in_a_loop(worker, root, rank))


class Groups(Case):
    def test_three_members(self):
        for name, mode in (*[("shm", mode) for mode in MODES], ("tcp", "thread")):
            with self.subTest(mode=mode, transport=name):
                self.run_members(mode, TRANSPORTS[name])

    def run_members(self, mode, tls):
        root = f"127.0.0.1:{free_port()}"
        members = [
            subprocess.Popen(
                [sys.executable, "-X", "faulthandler", "-W", "error", os.path.abspath(__file__)]
                + [str(rank), mode, tls, root]
            )
            for rank in range(SIZE)
        ]
        try:
            self.assertEqual([each.wait(LIMIT_S * 0.8) for each in members], [0] * SIZE)
        finally:
            for each in members:
                each.kill()
                each.wait()

    def test_a_group_of_one(self):
        with ucxx_rs.Worker(context()) as worker:
            with ucxx_rs.Group(worker, bootstrap="tcp", size=1, root="127.0.0.1:0") as group:
                group.barrier()
                self.assertEqual(group.allgather(b"x"), [b"x"])
                with ucxx_rs.Window(group, 4) as window, window.lock(0) as epoch:
                    epoch.put(b"1234")
            with self.assertRaises(ucxx_rs.Error):
                ucxx_rs.Group(worker, bootstrap="tcp", rank=3, size=2, root="127.0.0.1:1")
            with self.assertRaises(ValueError):
                ucxx_rs.Group(worker, bootstrap="telepathy")


if __name__ == "__main__":
    if len(sys.argv) == 5:
        member(int(sys.argv[1]), *sys.argv[2:])
    else:
        unittest.main(verbosity=2)
