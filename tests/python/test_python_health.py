#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""attach() warns once, on worker 0, when the residual runs away, and never when training
goes well."""
import warnings

import torch_crew

torch_crew.skip_without("numpy", "torch")
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import gradwire

STEPS = 200
SGD, Adam = torch.optim.SGD, torch.optim.Adam


def train(rank, spec, kind, schedule=None, moves="auto", length=lambda t: 1.0, **settings):
    """The messages of a run whose loss is multiplied by length(step), and its health."""
    torch.manual_seed(1)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(20, 40), nn.Tanh(), nn.Linear(40, 5)))
    optimizer = kind(model.parameters(), **settings)
    rates = torch.optim.lr_scheduler.LambdaLR(optimizer, schedule or (lambda t: 1.0))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        handle = gradwire.attach(model, spec, optimizer, momentum=moves)
        for t in range(STEPS):
            g = torch.Generator().manual_seed(1000 * t + rank)
            x = torch.randn(16, 20, generator=g)
            optimizer.zero_grad()
            (length(t) * nn.functional.cross_entropy(model(x), x[:, :5].argmax(1))).backward()
            optimizer.step()
            rates.step()
        health = handle.health()
        handle.detach()
    return [str(w.message) for w in found if "residual" in str(w.message)], health


def is_silent_in_health(rank, workers):
    def warm_up(t):
        return 2.0 ** ((t - STEPS) / 10)

    for spec, kind, values in (
            ("topk:0.05", SGD, dict(lr=0.1)),
            ("gtopk:0.05", SGD, dict(lr=0.1, momentum=0.9)),
            ("gtopk:0.05", SGD, dict(lr=0.1, momentum=0.9, schedule=warm_up)),
            ("gtopk:0.05", Adam, dict(lr=0.01)),
            ("topk:0.05", Adam, dict(lr=0.05, schedule=warm_up)),
            ("sign", SGD, dict(lr=0.1)),
            ("dense", SGD, dict(lr=0.1))):
        said, health = train(rank, spec, kind, **values)
        assert not said and not health["runs_away"] and not health["warning"], (spec, said)
        assert (health["residual_norm"] > 0) == (spec != "dense"), (spec, health)
        assert spec == "dense" or 0 < health["since"] < health["step"] <= STEPS, health


def warns_once(rank, workers):
    for spec, kind, values in (("topk:0.05", SGD, dict(lr=1e-30)),
                               ("gtopk:0.05", SGD, dict(lr=1e-30, momentum=0.9))):
        said, health = train(rank, spec, kind, length=lambda t: 2.0 ** (t / 4), **values)
        assert health["runs_away"] and health["growth"] > 8, health
        if rank == 0:
            assert len(said) == 1 and said[0] == health["warning"], said
            assert ": the residual is " in said[0], said
            assert "lower the learning rate" in said[0], said
        else:
            assert not said, said


class Board:
    """As much of a TensorBoard writer as log() needs."""

    def __init__(self):
        self.scalars = []

    def add_scalar(self, name, value, step):
        self.scalars.append((name, value, step))


class Run:
    """As much of a W&B run."""

    def __init__(self):
        self.calls = []

    def log(self, figures, step):
        self.calls.append((figures, step))


def logs(rank, workers):
    torch.manual_seed(1)
    model = DistributedDataParallel(nn.Linear(20, 5))
    optimizer = SGD(model.parameters(), lr=0.1)
    handle = gradwire.attach(model, "topk:0.1", optimizer)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(4, 20) * (rank + 1)).sum().backward()
        optimizer.step()
    board, run = Board(), Run()
    handle.log(board, 7)
    handle.log(run, 8)
    sent = handle.stats()["bytes_sent"]
    assert ("gradwire/bytes_sent", float(sent), 7) in board.scalars, board.scalars
    assert ("gradwire/bytes_per_step", sent / 3, 7) in board.scalars, board.scalars
    assert run.calls == [({name: value for name, value, _ in board.scalars}, 8)], run.calls
    torch_crew.raises(TypeError, "SummaryWriter or a W&B run, not int", lambda: handle.log(1, 1))
    handle.detach()


if __name__ == "__main__":
    torch_crew.main([logs, is_silent_in_health, warns_once], (2,))
