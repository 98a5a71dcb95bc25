#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Messages through the user's own process group: the bits and the bytes of sockets, in
all kinds of methods; and what happens when a worker fails."""
import os
import sys
import threading

import torch_crew

torch_crew.skip_without("numpy", "torch")
import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import gradwire
from gradwire.models.group_transport import group_comm

STEPS, SPECS = 6, ["dense", "topk:0.05", "gtopk:0.05+q:4", "oktopk:0.05", "local:2", "qsgd:4", "a2sgd",
                   "lowrank:2", "diloco:2", "diloco:4,fragments=2,delay=1", "adasum",
                   "topk:0.1,delay=1"]


def train(rank, spec, transport, group=None):
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(20, 50), nn.Tanh(), nn.Linear(50, 4))
    model = model if group is not None else DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    handle = gradwire.attach(model, spec, optimizer, transport=transport, group=group)
    assert handle._sync.comm.transport == transport
    for step in range(STEPS):
        g = torch.Generator().manual_seed(100 * step + rank)
        optimizer.zero_grad(set_to_none=True)
        model(torch.randn(5, 20, generator=g)).square().sum().backward()
        dist.all_reduce(torch.ones(3), group=group)  # the user's own messages
        optimizer.step()
    handle.finish()
    stats, head = handle.stats(), 8 if transport == "sockets" else 0
    handle.detach()
    bytes_sent = stats["bytes_sent"] - head * stats["messages_sent"]
    return [p.detach().clone() for p in model.parameters()], bytes_sent


def same_bits(rank, workers):
    for spec in SPECS:
        (a, sent), (b, bytes_sent) = train(rank, spec, "group"), train(rank, spec, "sockets")
        assert all(torch.equal(x, y) for x, y in zip(a, b)), f"{spec}: other bits"
        assert sent == bytes_sent, (spec, sent, bytes_sent)


def subgroup(rank, workers):
    """Ranks of a group are not those of the job."""
    members = list(range(1, workers))
    group = dist.new_group(members)
    if rank in members:
        a, _ = train(rank, "topk:0.1", "group", group)
        b, _ = train(rank, "topk:0.1", "sockets", group)
        assert all(torch.equal(x, y) for x, y in zip(a, b))


def long_messages(rank, workers):
    """Also empty ones, and many at a time."""
    with group_comm(dist.group.WORLD, 60.0) as comm:
        for length in (0, 1, 3 << 20):
            said = comm.allgather(bytes([rank]) * length, limit=4 << 20)
            assert said == [bytes([r]) * length for r in range(workers)]
        vector = np.full(100000, rank, np.float32)
        for _ in range(5):
            comm.sum_at(vector.ctypes.data, vector.size)
        assert (vector == sum(range(workers)) * float(workers) ** 4).all()


def reasons(rank, workers):
    """A worker that fails tells why, and the group still works."""
    comm = group_comm(dist.group.WORLD, 60.0)
    if rank == 1:
        comm.fail("worker 1 has had enough")
    else:
        torch_crew.raises(gradwire.PeerError, "worker 1 has had enough",
                          lambda: comm.allgather(b"x"))
    comm.close()
    dist.barrier()


def silence(rank, workers):
    """One that does not answer is found by the time limit."""
    comm = group_comm(dist.group.WORLD, 1.0)
    if rank == 0:
        torch_crew.raises(gradwire.PeerError, "has not answered", lambda: comm.allgather(b"x"))
    dist.barrier()
    comm.close()


def interrupts(rank, workers):
    """A wait can be ended from outside, as Ctrl-C does it."""
    comm = group_comm(dist.group.WORLD, 60.0)
    if rank == 0:
        threading.Timer(0.2, comm.interrupt).start()
        torch_crew.raises(gradwire.GradwireError, "interrupted", lambda: comm.allgather(b"x"))
    dist.barrier()
    comm.close()


def goodbyes(rank, workers):
    """One that has ended in order, too, does not answer any more."""
    comm = group_comm(dist.group.WORLD, 60.0)
    if rank == 1:
        comm.close()
    else:
        torch_crew.raises(gradwire.PeerError, "worker", lambda: comm.allgather(b"x"))
        comm.close()
    dist.barrier()


def refusals(rank, workers):
    model = nn.Linear(3, 3)
    with gradwire.LocalGroup(1).join(0) as comm:
        torch_crew.raises(ValueError, "give attach() no comm=",
                          lambda: gradwire.attach(model, "dense", comm=comm, transport="group"))
    torch_crew.raises(ValueError, "expected 'sockets' or 'group'",
                      lambda: gradwire.attach(model, "dense", transport="mpi"))


# ---- a death -------------------------------------------------------------------


def dies(rank, workers):
    """Everybody notices when a process is gone."""
    comm = group_comm(dist.group.WORLD, 60.0)
    if rank == 1:
        comm.barrier()
        os._exit(9)
    torch_crew.raises(gradwire.PeerError, "worker",
                      lambda: (comm.barrier(), comm.allgather(b"x")))
    os._exit(0)  # the group is of no use any more


if __name__ == "__main__":
    if "GROUP_DIES" in os.environ:
        dies(*torch_crew.join_group())
    if not torch_crew.is_worker():
        os.environ["GROUP_DIES"] = "1"
        if not torch_crew.run([sys.executable, sys.argv[0]], 3, {1: 9}):
            sys.exit(1)
        del os.environ["GROUP_DIES"]
    torch_crew.main([same_bits, subgroup, long_messages, reasons, silence, interrupts,
                     goodbyes, refusals],
                    (2, 3))
