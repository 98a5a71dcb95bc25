#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch.distributed.checkpoint saves and loads a handle, each worker its own state, and a
run that goes on from there is the run that was not stopped."""
import os
import shutil
import tempfile

import torch_crew

torch_crew.skip_without("numpy", "torch")
torch_crew.skip_before("2.2")
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.stateful import Stateful

import gradwire


class Run:
    def __init__(self, rank, spec):
        torch.manual_seed(1)
        self.rank = rank
        self.model = nn.Sequential(nn.Linear(10, 30), nn.Tanh(), nn.Linear(30, 3))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.5)
        self.handle = gradwire.attach(self.model, spec, self.optimizer, momentum="off")

    def steps(self, begin, end):
        for step in range(begin, end):
            g = torch.Generator().manual_seed(100 * step + self.rank)
            self.optimizer.zero_grad()
            self.model(torch.randn(4, 10, generator=g)).square().mean().backward()
            self.optimizer.step()
        return self

    def states(self):
        """By the rank: what workers save under one name is one worker's."""
        return {f"model-{self.rank}": self.model.state_dict(),
                f"optimizer-{self.rank}": self.optimizer.state_dict(),
                f"gradwire-{self.rank}": self.handle}

    def result(self):
        self.handle.finish()
        self.handle.detach()
        return torch.cat([p.detach().reshape(-1) for p in self.model.parameters()])


def goes_on(rank, workers):
    for spec in ("topk:0.05", "local:3+topk:0.1"):
        place = [tempfile.mkdtemp() if rank == 0 else None]
        dist.broadcast_object_list(place, src=0)
        whole = Run(rank, spec)
        assert isinstance(whole.handle, Stateful)
        whole.steps(0, 4)
        dcp.save(whole.states(), checkpoint_id=place[0])
        residual = whole.handle.residual_norm()
        expected = whole.steps(4, 8).result()
        again = Run(rank, spec).steps(0, 1)  # so that there are states to load into
        states = again.states()
        dcp.load(states, checkpoint_id=place[0])
        again.model.load_state_dict(states[f"model-{rank}"])
        again.optimizer.load_state_dict(states[f"optimizer-{rank}"])
        assert again.handle.residual_norm() == residual
        assert torch.equal(expected, again.steps(4, 8).result()), spec
        dist.barrier()
        if rank == 0:
            shutil.rmtree(place[0])


if __name__ == "__main__":
    torch_crew.main([goes_on], (2,))
