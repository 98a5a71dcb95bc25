#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dead workers, different settings, bad numbers, wrong use: one clear sentence each,
on every worker, and nobody waits."""
import os
import sys

import torch_crew

torch_crew.skip_without("numpy", "torch")
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import gradwire
from torch_crew import raises

WORKERS, DIES = 3, 9


def net():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 3))


def ddp(**settings):
    return DistributedDataParallel(net(), **settings)


def step(model, optimizer=None, value=1.0):
    model.zero_grad()
    model(torch.full((4, 10), value)).square().sum().backward()
    if optimizer is not None:
        optimizer.step()


# ---- wrong use -----------------------------------------------------------------


def wrong_use(rank, workers):
    attach = gradwire.attach
    model = ddp()
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    raises(ValueError, "needs a torch.nn.Module, not list", lambda: attach([net()], "dense"))
    raises(ValueError, "nn.DataParallel", lambda: attach(nn.DataParallel(net()), "dense"))
    raises(ValueError, "has its own process group", lambda: attach(model, "dense", group=dist.group.WORLD))
    raises(ValueError, "none of this model's parameters", lambda: attach(
        model, "dense", torch.optim.SGD(net().parameters(), lr=0.1)))
    raises(ValueError, "gtopk", lambda: attach(model, "gtopkk:0.1"))
    raises(ValueError, "density", lambda: attach(model, "gtopk:7"))
    raises(TypeError, "spec must be a string", lambda: attach(model, 5))
    for spec in ("local:4", "spa:2", "oneshot", "pqasgd:2,4", "a2sgd:resync=4",
                 "local:2+topk:0.1"):
        raises(ValueError, "exchanges models after the optimizer",
               lambda: attach(model, spec))
    raises(ValueError, "nonfinite='skip' skips steps",
           lambda: attach(model, "dense", nonfinite="skip"))
    raises(ValueError, "invalid nonfinite='no'; expected one of 'stop', 'skip', 'ignore'",
           lambda: attach(model, "dense", nonfinite="no"))
    raises(ValueError, "a torch.optim.Optimizer, not int",
           lambda: attach(model, "local:4", 5))
    sparse = DistributedDataParallel(nn.Embedding(5, 4, sparse=True))
    raises(ValueError, "sparse gradients", lambda: attach(sparse, "dense"))
    twice = DistributedDataParallel(nn.Sequential(ddp(), nn.Linear(5, 5)))
    raises(ValueError, "'module.0' is in DistributedDataParallel",
           lambda: attach(twice, "dense"))
    mixed = ddp()
    mixed.module[0].weight = nn.Parameter(torch.empty(20, 10, device="meta"))
    raises(ValueError, "on cpu and meta", lambda: attach(mixed, "dense"))
    handle = attach(model, "dense", sgd)
    raises(RuntimeError, "already attached to this model", lambda: attach(model, "dense"))
    handle.detach()
    other = ddp()
    other.register_comm_hook(None, lambda state, bucket: None)
    raises(RuntimeError, "already has a communication hook", lambda: attach(other, "dense"))


def every_recipe_is_known(rank, workers):
    """The binding must know of each recipe whether it needs the optimizer."""
    with_models = {"local", "oneshot", "spa", "pqasgd"}
    without = {"dense", "none", "topk", "gtopk", "drop", "qsgd", "a2sgd"}
    for (name, _), spec in zip(gradwire.recipes(), gradwire.examples()):
        assert name not in with_models or gradwire.needs_optimizer(spec), name
        assert name not in without or not gradwire.needs_optimizer(spec), name
        model = ddp()
        sgd = torch.optim.SGD(model.parameters(), lr=0.01)
        handle = gradwire.attach(model, spec, sgd)
        for _ in range(3):
            step(model, sgd)
        handle.finish()
        handle.detach()


def no_group(rank, workers):
    model = ddp()
    dist.barrier()
    dist.destroy_process_group()
    raises(RuntimeError, "there is no process group", lambda: gradwire.attach(model, "dense"))


# ---- workers that differ -------------------------------------------------------


def mismatch(rank, workers):
    last = rank == workers - 1
    error = raises(gradwire.MismatchError, "this worker uses",
                   lambda: gradwire.attach(ddp(), "gtopk:0.1" if last else "gtopk:0.2"))
    assert "density" in str(error) or "0.1" in str(error), error
    raises(gradwire.MismatchError, "the seed",
           lambda: gradwire.attach(ddp(), "qsgd:4", seed=rank // 2))
    text = "'gtopkk'" if last else f"worker {workers - 1} cannot attach:"
    raises(RuntimeError, text,
           lambda: gradwire.attach(ddp(), "gtopkk:0.1" if last else "gtopk:0.1"))


# ---- bad numbers ---------------------------------------------------------------


def bad_numbers(rank, workers):
    model = ddp()
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    handle = gradwire.attach(model, "gtopk:0.5", sgd, nonfinite="skip")
    step(model, sgd)
    before = [p.detach().clone() for p in model.parameters()]
    step(model, sgd, float("nan") if rank == 1 else 1.0)
    assert all(torch.equal(p, b) for p, b in zip(model.parameters(), before))
    assert handle.stats()["skipped"] == 1
    step(model, sgd)
    assert not all(torch.equal(p, b) for p, b in zip(model.parameters(), before))
    handle.detach()
    handle = gradwire.attach(model, "gtopk:0.5")
    raises(gradwire.NonFiniteError, "worker 1 holds NaN or infinity in tensor",
           lambda: step(model, None, float("inf") if rank == 1 else 1.0))
    step(model)  # who catches it may go on
    handle.detach()


# ---- a worker dies -------------------------------------------------------------


def dies(spec):
    def case(rank, workers):
        model = ddp()
        sgd = torch.optim.SGD(model.parameters(), lr=0.01)
        handle = gradwire.attach(model, spec, sgd)
        for _ in range(3):
            step(model, sgd)
        dist.barrier()
        if rank == 1:
            os._exit(DIES)

        def forever():
            while True:
                step(model, sgd)

        error = raises(gradwire.PeerError, "worker 1", forever)
        assert "gone" in str(error), error
        raises(gradwire.PeerError, "worker 1", forever)
        handle.detach()
        print(f"{spec}, worker {rank}: {error}", flush=True)
        # Not by way of the interpreter: the process group would wait for worker 1.
        os._exit(0)
    return case


DYING = ("gtopk:0.1", "local:2")

if __name__ == "__main__":
    case = os.environ.get("FAILURE_CASE")
    if case is None:
        os.environ["FAILURE_CASE"] = "all"
        good = torch_crew.run([sys.executable, sys.argv[0]], WORKERS)
        for spec in DYING:
            os.environ["FAILURE_CASE"] = spec
            good = torch_crew.run([sys.executable, sys.argv[0]], WORKERS, {1: DIES}) and good
        sys.exit(0 if good else 1)
    torch_crew.main([wrong_use, every_recipe_is_known, mismatch, bad_numbers,
                     no_group]
                    if case == "all" else [dies(case)], ())
