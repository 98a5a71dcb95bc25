#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A run that is stopped and resumed is the run that was not, through torch.save; and
a run resumed by another number of workers has lost nothing."""
import os
import shutil
import sys
import tempfile

import torch_crew

torch_crew.skip_without("numpy", "torch")
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import gradwire

SPECS = ("gtopk:0.01", "drop:0.99", "local:3", "local:3+topk:0.05", "gtopk:0.01+momentum:0.9")
STOP, END = 4, 8


def path(name):
    return os.path.join(os.environ["RESUME_DIRECTORY"], name.replace(":", "_"))


class Run:
    def __init__(self, spec, rank, cap):
        torch.manual_seed(3)
        net = nn.Sequential(nn.Linear(30, 600), nn.ReLU(), nn.Linear(600, 600),
                            nn.ReLU(), nn.Linear(600, 5))
        self.model = DistributedDataParallel(net, bucket_cap_mb=cap)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.5)
        # The specs as they are, which have no dense steps at the beginning.
        self.handle = gradwire.attach(self.model, spec, self.optimizer, momentum="off")
        self.rank = rank

    def steps(self, begin, end):
        for step in range(begin, end):
            g = torch.Generator().manual_seed(100 * step + self.rank)
            x, y = torch.randn(8, 30, generator=g), torch.randint(5, (8,), generator=g)
            self.optimizer.zero_grad()
            nn.functional.cross_entropy(self.model(x), y).backward()
            self.optimizer.step()

    def save(self, name):
        torch.save({"model": self.model.module.state_dict(),
                    "optimizer": self.optimizer.state_dict(),
                    "gradwire": self.handle.state_dict()}, name)

    def load(self, name):
        saved = torch.load(name)
        self.model.module.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.handle.load_state_dict(saved["gradwire"])

    def everything(self):
        state = self.handle.state_dict()
        tensors = [p.detach() for p in self.model.parameters()]
        for vector in ("residual", "velocity", "reference", "mean"):
            tensors += [state[vector][name] for name in sorted(state.get(vector, ()))]
        return torch.cat([t.reshape(-1) for t in tensors]), state

    def close(self):
        self.handle.detach()


def goes_on(rank, workers):
    for spec in SPECS:
        for cap in (25, 0.3):
            whole = Run(spec, rank, cap)
            whole.steps(0, STOP)
            whole.save(path(f"{spec}-{cap}-{workers}-{rank}"))
            whole.steps(STOP, END)
            expected, state = whole.everything()
            whole.close()
            again = Run(spec, rank, cap)
            again.load(path(f"{spec}-{cap}-{workers}-{rank}"))
            again.steps(STOP, END)
            got, other = again.everything()
            again.close()
            assert torch.equal(expected, got), f"{spec}, {cap}"
            assert other["step"] == state["step"] == END
            assert other["stats"] == state["stats"], (other["stats"], state["stats"])


def total(state, name):
    """The sum over the workers of what they have not sent of one parameter."""
    sum_ = state["residual"][name].double()
    dist.all_reduce(sum_)
    return sum_


def changes_number(rank, workers):
    """What two workers have not sent, three take over; see FIRST and main."""
    spec = "gtopk:0.01"
    old = [torch.load(path(f"{spec}-25-2-{r}"))["gradwire"] for r in range(2)]
    run = Run(spec, rank, 25)
    torch_crew.raises(ValueError, "2 workers saved their states, but 1 were given to "
                      "3 workers; give all 2", lambda: run.handle.load_state_dict(old[0]))
    run.handle.load_state_dict(old)
    state = run.handle.state_dict()
    for name in state["residual"]:
        before = sum(s["residual"][name].double() for s in old)
        assert torch.allclose(before, total(state, name), atol=1e-6)
    run.steps(STOP, END)
    assert run.handle.state_dict()["step"] == END
    run.close()


def refuses(rank, workers):
    """Damaged or foreign states raise on every worker, and training can go on."""
    run = Run("gtopk:0.01", rank, 25)
    run.steps(0, 1)
    good = run.handle.state_dict()
    lacks = dict(good, residual={k: v for k, v in good["residual"].items()
                                 if k != "2.weight"})
    extra = dict(good, residual=dict(good["residual"], other=torch.zeros(1)))
    for wrong, text in ((lacks, "does not have '2.weight'"), (extra, "has 'other'"),
                        ({}, "was not returned by state_dict()"),
                        (dict(good, step=7), "step 7")):
        given = wrong if rank == workers - 1 else good
        error = torch_crew.raises(gradwire.DataError, text,
                                  lambda: run.handle.load_state_dict(given))
        assert rank == workers - 1 or f"worker {workers - 1}" in str(error), error
    topk = Run("topk:0.01", rank, 25)
    torch_crew.raises(gradwire.DataError, "was saved with 'gtopk",
                      lambda: topk.handle.load_state_dict(good))
    topk.close()
    run.handle.load_state_dict(good)
    run.steps(1, 2)
    run.close()


if __name__ == "__main__":
    if torch_crew.is_worker():
        two = os.environ["WORLD_SIZE"] == "2"
        torch_crew.main([goes_on, refuses] if two else [changes_number], ())
        sys.exit(0)
    os.environ["RESUME_DIRECTORY"] = tempfile.mkdtemp()
    try:
        torch_crew.main([], (2, 3))
    finally:
        shutil.rmtree(os.environ["RESUME_DIRECTORY"])
