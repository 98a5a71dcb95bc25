#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""attach() with delay=1, with DDP and without: each step applies the averages of the step
before, finish() the last ones; a resumed run has the same bits; NaN skips a step on all."""
import tempfile

import torch_crew

torch_crew.skip_without("numpy", "torch")
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import gradwire

RATE, STEPS, BATCH = 0.05, 8, 6


def new_net(seed=1):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 5))


def loss_of(model, step, rank):
    g = torch.Generator().manual_seed(1000 * step + rank)
    x, y = torch.randn(BATCH, 20, generator=g), torch.randint(5, (BATCH,), generator=g)
    return nn.functional.cross_entropy(model(x), y)


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9, weight_decay=0.01)


def vector(model):
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def alone(ranks, lead=0.0):
    """One process on the batches of all ranks, which applies every gradient one step late."""
    model = new_net()
    optimizer, last, before = sgd(model), None, None
    for step in range(STEPS + 1):
        optimizer.zero_grad(set_to_none=True)
        sum(loss_of(model, step, r) for r in ranks).div(len(ranks)).backward()
        new = [p.grad for p in model.parameters()]
        for i, p in enumerate(model.parameters()):
            p.grad = torch.zeros_like(p) if last is None else last[i].clone()
            if before is not None:
                p.grad += lead * (last[i] - before[i])
        before, last = last, new
        optimizer.step()
    return vector(model)


class Run:
    def __init__(self, rank, spec, ddp, **options):
        self.net, self.rank = new_net(1 + rank), rank
        self.model = DistributedDataParallel(self.net) if ddp else self.net
        self.optimizer = sgd(self.net)
        self.handle = gradwire.attach(self.model, spec, self.optimizer, **options)

    def steps(self, begin, end, bad=None):
        for step in range(begin, end):
            self.optimizer.zero_grad(set_to_none=True)
            loss = loss_of(self.model, step, self.rank)
            (loss * float("nan") if step == bad and self.rank == 0 else loss).backward()
            self.optimizer.step()
        return self

    def result(self):
        self.handle.finish()
        self.handle.detach()
        return vector(self.net)


def assert_close(a, b):
    far = float((a - b).abs().max())
    assert far <= 1e-6, f"{far} apart"


def one_step_late(rank, workers):
    for lead in (0, 1):
        expected = alone(range(workers), lead)
        for ddp in (False, True):
            run = Run(rank, f"dense:delay=1,lead={lead}", ddp).steps(0, STEPS)
            assert run.handle.stats()["steps"] == STEPS
            assert_close(expected, run.result())


def resumes(rank, workers):
    for spec in ("dense:delay=1", "topk:0.1,delay=1"):
        for ddp in (False, True):
            whole = Run(rank, spec, ddp).steps(0, 4)
            with tempfile.TemporaryFile() as file:
                torch.save([whole.net.state_dict(), whole.optimizer.state_dict(),
                            whole.handle.state_dict()], file)
                expected = whole.steps(4, STEPS).result()
                file.seek(0)
                saved = torch.load(file)
            again = Run(rank, spec, ddp)
            for part, state in zip((again.net, again.optimizer, again.handle), saved):
                part.load_state_dict(state)
            assert torch.equal(expected, again.steps(4, STEPS).result()), (spec, ddp)


def skips(rank, workers):
    """A bad gradient skips the step that would apply it."""
    run = Run(rank, "topk:0.1,delay=1", False, nonfinite="skip").steps(0, 3, bad=2)
    before = vector(run.net)
    run.steps(3, 4)
    assert torch.equal(before, vector(run.net)) and run.handle.stats()["skipped"] == 1
    run.steps(4, 6)
    assert not torch.equal(before, vector(run.net))
    run.result()


def refuses(rank, workers):
    model = new_net()
    torch_crew.raises(ValueError, "pass the optimizer",
                      lambda: gradwire.attach(model, "dense:delay=1"))


if __name__ == "__main__":
    torch_crew.main([one_step_late, resumes, skips, refuses], (2,))
