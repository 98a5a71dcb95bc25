#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""attach() with fragments, delay and mix, with DDP and without: the run is that of a plain
simulation of all workers in one process; one that is resumed during an exchange has the same
bits; a model with too few tensors is refused."""
import tempfile

import torch_crew

torch_crew.skip_without("numpy", "torch")
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import gradwire

STEPS, BATCH, EVERY, DELAY, MIX, OUTER_RATE, MOMENTUM = 13, 6, 6, 2, 0.25, 0.7, 0.9
SPEC = f"diloco:{EVERY},fragments=2,delay={DELAY},mix={MIX},cut=tensors"


def new_net(seed=1):
    """Its first two tensors and its last two have about as many floats."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(20, 16), nn.Tanh(), nn.Linear(16, 20))


def loss_of(model, step, rank):
    g = torch.Generator().manual_seed(1000 * step + rank)
    x, y = torch.randn(BATCH, 20, generator=g), torch.randint(20, (BATCH,), generator=g)
    return nn.functional.cross_entropy(model(x), y)


def adamw(model):
    return torch.optim.AdamW(model.parameters(), lr=0.01)


def vector(model):
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


class Fragment:
    """Some parameters of all workers' models, and their common state."""

    def __init__(self, models, numbers):
        self.of = [[list(m.parameters())[i] for i in numbers] for m in models]
        self.common = [p.detach().clone() for p in self.of[0]]
        self.velocity = [torch.zeros_like(p) for p in self.common]
        self.change = None

    def begin(self):
        own = [[p - z for p, z in zip(params, self.common)] for params in self.of]
        self.change = [sum(each) / len(own) for each in zip(*own)]

    def end(self):
        for i, d in enumerate(self.change):
            self.velocity[i] = MOMENTUM * self.velocity[i] + d
            self.common[i] = self.common[i] + OUTER_RATE * (d + MOMENTUM * self.velocity[i])
            for params in self.of:
                params[i].copy_((1 - MIX) * self.common[i] + MIX * params[i])


def simulated(workers):
    """The workers' models at the end, averaged."""
    models = [new_net() for _ in range(workers)]
    optimizers = [adamw(m) for m in models]
    fragments = [Fragment(models, (0, 1)), Fragment(models, (2, 3))]
    turn = EVERY // len(fragments)
    for step in range(STEPS):
        for rank, (model, optimizer) in enumerate(zip(models, optimizers)):
            optimizer.zero_grad(set_to_none=True)
            loss_of(model, step, rank).backward()
            optimizer.step()
        fragment, left = fragments[step // turn % 2], turn - 1 - step % turn
        with torch.no_grad():
            if left == DELAY:
                fragment.begin()
            if left == 0:
                fragment.end()
    return sum(vector(m) for m in models) / workers


class Run:
    def __init__(self, rank, ddp):
        self.net, self.rank = new_net(1 + rank), rank
        self.model = DistributedDataParallel(self.net) if ddp else self.net
        self.optimizer = adamw(self.net)
        self.handle = gradwire.attach(self.model, SPEC, self.optimizer)

    def steps(self, begin, end):
        for step in range(begin, end):
            self.optimizer.zero_grad(set_to_none=True)
            loss_of(self.model, step, self.rank).backward()
            self.optimizer.step()
        return self

    def result(self):
        self.handle.finish()
        self.handle.detach()
        return vector(self.net)


def as_simulated(rank, workers):
    expected = simulated(workers)
    for ddp in (False, True):
        far = float((Run(rank, ddp).steps(0, STEPS).result() - expected).abs().max())
        assert far <= 1e-5, f"{far} apart"


def resumes(rank, workers):
    for ddp, at in ((False, 4), (True, 5), (False, 7)):
        whole = Run(rank, ddp).steps(0, at)
        with tempfile.TemporaryFile() as file:
            torch.save([whole.net.state_dict(), whole.optimizer.state_dict(),
                        whole.handle.state_dict()], file)
            expected = whole.steps(at, STEPS).result()
            file.seek(0)
            saved = torch.load(file)
        again = Run(rank, ddp)
        for part, state in zip((again.net, again.optimizer, again.handle), saved):
            part.load_state_dict(state)
        assert torch.equal(expected, again.steps(at, STEPS).result()), (ddp, at)


def refuses(rank, workers):
    model = nn.Linear(3, 3)
    optimizer = adamw(model)
    torch_crew.raises(Exception, "the model has only 2",
                      lambda: gradwire.attach(model, "diloco:6,fragments=3,cut=tensors", optimizer))


if __name__ == "__main__":
    torch_crew.main([as_simulated, resumes, refuses], (2, 3))
