# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""One member of a group under torchrun, beside a process group of PyTorch: the ranks are the same.

Each member passes the tensors of all others on around the ring, and adds them up. The sum has to be
that of PyTorch's own allreduce.
"""

import os

import torch
import torch.distributed

import ucxx_rs

LENGTH = 250_003

torch.distributed.init_process_group("gloo")
root = f"{os.environ['MASTER_ADDR']}:{int(os.environ['MASTER_PORT']) + 1}"
with ucxx_rs.Worker() as worker, ucxx_rs.Group(worker, root=root, timeout=60) as group:
    rank, size = group.rank, group.size
    assert (rank, size) == (torch.distributed.get_rank(), torch.distributed.get_world_size())
    left, right = group.endpoint((rank - 1) % size), group.endpoint((rank + 1) % size)
    leaving = (torch.arange(LENGTH) % 17 + rank).to(torch.float32)
    expected, total = leaving.clone(), leaving.clone()
    torch.distributed.all_reduce(expected)
    for step in range(size - 1):
        coming = torch.empty(LENGTH)
        received = worker.recv(coming, step, source=left)
        sent = right.send(leaving, step)
        received.wait()
        sent.wait()
        total += coming
        leaving = coming
    assert torch.equal(total, expected)
    group.barrier()
if rank == 0:
    print(f"{size} members, {LENGTH} floats each: every sum is right")
torch.distributed.destroy_process_group()
