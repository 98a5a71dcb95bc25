#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the adapters' checkpoints have of each worker, taken up by another number of workers:
what was not sent keeps its sum, and no worker's model or moments are dropped. Two workers
save; one and three resume."""
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
from gradwire.models.worker_state import WorkerState

SAVED_BY, STOP, END = 2, 4, 8
# With a residual; with models that differ between exchanges, with and without a residual;
# with moments of each worker's own.
SPECS = {"gtopk:0.05": "sgd", "topk:0.05+q:4": "sgd", "local:3": "sgd", "local:3+topk:0.1": "sgd",
         "diloco:6,fragments=2,delay=2": "sgd", "spa:8": "sgd", "a2sgd:resync=8": "sgd",
         "update:start=2,scale=1.4+gtopk:0.05": "adamw"}
NEVER_AVERAGED = ("none", "a2sgd")
OPTIMIZERS = {"sgd": lambda p: torch.optim.SGD(p, 0.05, momentum=0.5),
              "adamw": lambda p: torch.optim.AdamW(p, 0.01)}


def path(spec, rank):
    return os.path.join(os.environ["STATES"], f"{spec}-{rank}".replace(":", "_"))


class Run:
    def __init__(self, spec, rank):
        torch.manual_seed(3)
        net = nn.Sequential(nn.Linear(20, 60), nn.Tanh(), nn.Linear(60, 5))
        self.rank, self.model = rank, DistributedDataParallel(net)
        self.optimizer = OPTIMIZERS[SPECS.get(spec, "sgd")](self.model.parameters())
        self.handle = gradwire.attach(self.model, spec, self.optimizer, momentum="off")
        self.state = WorkerState(self.handle, net, self.optimizer)

    def steps(self, begin, end):
        for step in range(begin, end):
            g = torch.Generator().manual_seed(100 * step + self.rank)
            x, y = torch.randn(8, 20, generator=g), torch.randint(5, (8,), generator=g)
            self.optimizer.zero_grad()
            nn.functional.cross_entropy(self.model(x), y).backward()
            self.optimizer.step()

    def numbers(self):
        return torch.cat([p.detach().reshape(-1) for p in self.model.parameters()])


def moments(optimizer_state):
    """All numbers that the optimizer has for parameters."""
    return torch.cat([value.reshape(-1).double() for state in optimizer_state["state"].values()
                      for value in state.values() if isinstance(value, torch.Tensor)])


def summed(tensor):
    total = tensor.double()
    dist.all_reduce(total)
    return total


def saves(rank, workers):
    for spec in [*SPECS, *NEVER_AVERAGED]:
        run = Run(spec, rank)
        run.steps(0, STOP)
        torch.save(run.state.own(), path(spec, rank))
        everything = run.state.state_dict()  # as frameworks save it that have rank 0 alone
        if rank == 0:
            torch.save(everything, path(spec, "all"))
        run.handle.detach()


def check_sums(run, states, spec):
    """Of what was not sent, to rounding."""
    now, all_before = run.handle.state_dict(), 0.0
    for name in now.get("residual", ()):
        before = sum(state["handle"]["residual"][name].double() for state in states)
        all_before += float(before.abs().sum())
        assert torch.allclose(before, summed(now["residual"][name]), atol=1e-6), f"{spec}: {name}"
    assert all_before > 0 or "residual" not in now, f"{spec}: there was nothing to keep"


def check_averages(run, states, spec):
    """Of models that differ, and of the moments of workers that step on their own."""
    if "model" in states[0]:
        models = [torch.cat([p.reshape(-1).double() for p in state["model"].values()])
                  for state in states]
        assert spec.startswith("update") or not torch.equal(*models), f"{spec}: models are equal"
        assert torch.allclose(sum(models) / len(models), run.numbers().double(), atol=1e-7), spec
    if "optimizer" in states[0]:
        held = [moments(state["optimizer"]) for state in states]
        assert not torch.equal(*held), f"{spec}: moments are equal"
        assert torch.allclose(sum(held) / len(held), moments(run.optimizer.state_dict()),
                              rtol=1e-6, atol=1e-9), spec


def changes_number(rank, workers):
    for spec in SPECS:
        states = [torch.load(path(spec, r)) for r in range(SAVED_BY)]
        run = Run(spec, rank)
        run.state.load_own(states)
        check_sums(run, states, spec)
        check_averages(run, states, spec)
        result = goes_on(run)
        assert torch.isfinite(result).all(), spec
        assert torch.allclose(summed(result), workers * result.double(), atol=1e-5), spec
        if torch_crew.is_at_least("2.0"):  # 1.13 unpickles no floats from bytes
            run = Run(spec, rank)
            run.state.load_state_dict(torch.load(path(spec, "all")))
            assert torch.equal(result, goes_on(run)), spec


def goes_on(run):
    """To the end; the model that came out."""
    run.steps(STOP, END)
    run.handle.finish()
    assert run.handle.stats()["steps"] == END
    run.handle.detach()
    return run.numbers()


def refuses(rank, workers):
    """Models that the method never averages; nothing is loaded then."""
    for spec in NEVER_AVERAGED:
        run = Run(spec, rank)
        before = run.numbers()
        torch_crew.raises(gradwire.DataError, f"never averages; resume with {SAVED_BY} workers, "
                          f"not {workers}", lambda: run.state.load_own(
                              [torch.load(path(spec, r)) for r in range(SAVED_BY)]))
        assert torch.equal(before, run.numbers()) and run.handle.stats()["steps"] == 0
        run.handle.detach()


if __name__ == "__main__":
    if torch_crew.is_worker():
        again = os.environ["WORLD_SIZE"] != str(SAVED_BY)
        torch_crew.main([changes_number, refuses] if again else [saves], ())
        sys.exit(0)
    os.environ["STATES"] = tempfile.mkdtemp()
    try:
        torch_crew.main([], (SAVED_BY, 1, 3))
    finally:
        shutil.rmtree(os.environ["STATES"])
