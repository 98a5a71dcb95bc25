#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A forked child has its parent's memory, and nothing to say to the other workers: it
may end as it likes, collect garbage, and feed its parent with data."""
import atexit
import gc
import os
import traceback

import torch_crew

torch_crew.skip_without("numpy", "torch")
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

import gradwire
from torch_crew import raises


class Trial:
    def __init__(self, spec):
        torch.manual_seed(1)
        net = nn.Sequential(nn.Linear(20, 600), nn.ReLU(), nn.Linear(600, 600), nn.ReLU(),
                            nn.Linear(600, 3))
        self.model = DistributedDataParallel(net, bucket_cap_mb=0.3)
        self.sgd = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.handle = gradwire.attach(self.model, spec, self.sgd)

    def step(self, x=None):
        self.sgd.zero_grad()
        self.model(torch.ones(4, 20) if x is None else x).square().sum().backward()
        self.sgd.step()


def in_child(act):
    """Runs act in a forked child, and then all that is registered for the end of a
    process, as sys.exit() does; its exit status."""
    child = os.fork()
    if child == 0:
        try:
            act()
            atexit._run_exitfuncs()
            gc.collect()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)  # and no further: the process group is the parent's, too
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def child_ends(rank, workers):
    """While the parent's thread exists, and a thread of the library's (dense)."""
    for spec in ("gtopk:0.1", "dense"):
        trial = Trial(spec)
        for _ in range(3):
            trial.step()
        assert in_child(lambda: None) == 0
        for _ in range(3):
            trial.step()
        trial.handle.detach()


def child_uses_it(rank, workers):
    """It gets an error that says why; and whatever it drops or closes stays the parent's."""
    trial = Trial("gtopk:0.1")
    group = gradwire.LocalGroup(2)
    trial.step()

    def uses():
        raises(ValueError, "belongs to the process that made it", trial.handle.stats)
        raises(ValueError, "belongs to the process that made it", trial.handle.finish)
        raises(ValueError, "belongs to the process that made it", lambda: group.join(0))
        trial.handle.detach()
        trial.__dict__.clear()
        gc.collect()

    assert in_child(uses) == 0
    trial.step()
    trial.handle.detach()


def data_loader(rank, workers):
    """Workers of a DataLoader are forked, again and again."""
    trial = Trial("gtopk:0.1")
    data = TensorDataset(torch.randn(32, 20))
    for _ in range(3):
        for x, in DataLoader(data, batch_size=8, num_workers=2,
                             multiprocessing_context="fork"):
            trial.step(x)
    assert trial.handle.stats()["steps"] == 12
    trial.handle.detach()


if __name__ == "__main__":
    torch_crew.main([child_ends, child_uses_it, data_loader], (2,))
