#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""attach() on a module without DDP: what one process gives on all the data, whichever
parameters are used; the bits of the library itself; and no torch.distributed at all."""
import copy
import os
import tempfile
import threading
from unittest import mock

import torch_crew

torch_crew.skip_without("numpy", "torch")
import numpy as np
import torch
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.utils.checkpoint import checkpoint

import gradwire

RATE, STEPS, BATCH = 0.1, 12, 6


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(20, 64)
        self.second = nn.Linear(64, 64)
        self.third = nn.Linear(64, 5)
        self.frozen = nn.Parameter(torch.full((3,), 2.0), requires_grad=False)
        self.never = nn.Linear(4, 4)
        self.now_and_then = nn.Linear(64, 64)
        self.uses, self.saves = False, False

    def forward(self, x):
        x = torch.tanh(self.first(x))
        x = checkpoint(lambda v: torch.tanh(self.second(v)), x,
                       use_reentrant=True) if self.saves else torch.tanh(self.second(x))
        if self.uses:
            x = torch.tanh(self.now_and_then(x))
        return self.third(x)


def batch(step, rank):
    g = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(BATCH, 20, generator=g), torch.randint(5, (BATCH,), generator=g)


def loss_of(model, step, rank):
    x, y = batch(step, rank)
    return nn.functional.cross_entropy(model(x), y)


def new_net(seed=1):
    torch.manual_seed(seed)
    return Net()


def sgd(model, **values):
    return torch.optim.SGD(model.parameters(), lr=RATE, **{**dict(
        momentum=0.9, weight_decay=0.01), **values})


def vector(model):
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def alone(ranks, steps=STEPS, parts=1, uses=lambda step: False, saves=False, **values):
    """One process on the batches of all ranks."""
    model = new_net()
    model.saves = saves
    optimizer = sgd(model, **values)
    for step in range(steps):
        optimizer.zero_grad(set_to_none=True)
        model.uses = uses(step)
        for part in range(parts):
            sum(loss_of(model, parts * step + part, r) for r in ranks).div(
                len(ranks)).backward()
        optimizer.step()
    return vector(model)


class Run:
    def __init__(self, rank, spec, saves=False, options=None, **values):
        # Others begin with other numbers, and get worker 0's.
        self.model = new_net(1 + rank)
        self.model.saves = saves
        self.rank = rank
        self.optimizer = sgd(self.model, **values)
        self.handle = gradwire.attach(self.model, spec, self.optimizer, **(options or {}))

    def steps(self, begin, end, parts=1, uses=lambda step: False):
        for step in range(begin, end):
            self.optimizer.zero_grad(set_to_none=True)
            self.model.uses = uses(step)
            for part in range(parts - 1):
                with self.handle.no_sync():
                    loss_of(self.model, parts * step + part, self.rank).backward()
            loss_of(self.model, parts * step + parts - 1, self.rank).backward()
            self.optimizer.step()
        return self

    def result(self):
        self.handle.finish()
        self.handle.detach()
        return vector(self.model)


def assert_close(a, b, limit=1e-6):
    far = float((a - b).abs().max())
    assert far <= limit, f"{far} apart"


# ---- the same as one process ---------------------------------------------------


def equals_alone(rank, workers):
    expected = alone(range(workers))
    for spec in ("dense", "topk:1", "gtopk:0.01,warmup=1000"):
        run = Run(rank, spec)
        assert run.model.frozen.equal(torch.full((3,), 2.0))
        assert_close(expected, run.steps(0, STEPS).result())
        assert run.model.never.weight.grad is None
    expected = alone(range(workers), parts=3)
    assert_close(expected, Run(rank, "dense").steps(0, STEPS, parts=3).result())


def checkpoints_inside(rank, workers):
    """A backward inside of backward is not the end."""
    expected = alone(range(workers), saves=True)
    run = Run(rank, "dense", saves=True).steps(0, STEPS)
    assert run.handle.stats()["steps"] == STEPS
    assert_close(expected, run.result())


def unused(rank, workers):
    """Some workers use a layer in some steps; in others nobody does."""
    def uses_of(rank):
        return lambda step: step % 3 == 0 and (rank == 0 or step % 2 == 0)

    model = new_net()
    optimizer = sgd(model)
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        for r in range(workers):
            model.uses = uses_of(r)(step)
            (loss_of(model, step, r) / workers).backward()
        optimizer.step()
    run = Run(rank, "dense", options={"find_unused_parameters": True})
    assert_close(vector(model), run.steps(0, STEPS, uses=uses_of(rank)).result())
    # Without it, nobody's gradient is 0, and models stay equal.
    run = Run(rank, "gtopk:0.05").steps(0, STEPS, uses=uses_of(rank))
    equal_on_all(run.handle, vector(run.model))
    run.handle.detach()


def late_gradients(rank, workers):
    """A worker without a gradient, or that forgot to leave no_sync(), takes part in the
    step all the same."""
    run = Run(rank, "dense")
    run.steps(0, 1)
    run.optimizer.zero_grad(set_to_none=True)
    if rank == 0:
        with run.handle.no_sync():
            loss_of(run.model, 1, rank).backward()
    run.optimizer.step()
    assert run.handle.stats()["steps"] == 2
    equal_on_all(run.handle, vector(run.model))
    run.handle.detach()


def equal_on_all(handle, x):
    said = handle._sync.comm.allgather(x.numpy().tobytes(), limit=4 * x.numel())
    assert all(data == said[0] for data in said)


# ---- the same as the library ---------------------------------------------------


def bits_of_the_library(rank, workers):
    """The gradients that backward leaves are those of gradwire.Sync on the same numbers."""
    for spec in ("topk:0.01", "gtopk:0.01", "topk:0.01+q:4"):
        run = Run(rank, spec, options={"momentum": "off"}, momentum=0, weight_decay=0)
        comm, params = run.handle._sync.comm, {
            n: p for n, p in run.model.named_parameters() if p.requires_grad}
        twin = gradwire.Sync({n: p.detach() for n, p in params.items()}, spec, comm)
        for step in range(6):
            other = copy.deepcopy(run.model)  # has no hooks
            loss_of(other, step, rank).backward()
            grads = dict(other.named_parameters())
            g = np.concatenate([np.zeros(p.numel(), np.float32) if grads[n].grad is None
                                else grads[n].grad.numpy().reshape(-1)
                                for n, p in params.items()])
            twin.gradient(g)
            run.optimizer.zero_grad(set_to_none=True)
            loss_of(run.model, step, rank).backward()
            got = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1)
                             for p in params.values()])
            assert torch.equal(got, torch.from_numpy(g)), (spec, step)
            run.optimizer.step()
        run.handle.detach()


def averages_models(rank, workers):
    for spec in ("local:3", "local:2+topk:0.1", "oneshot"):
        run = Run(rank, spec).steps(0, 7)
        run.handle.finish()
        equal_on_all(run.handle, vector(run.model))
        run.handle.detach()
    assert_close(alone(range(workers), momentum=0, weight_decay=0),
                 Run(rank, "local:1", momentum=0, weight_decay=0).steps(0, STEPS).result())


# ---- the rest ------------------------------------------------------------------


def resumes(rank, workers):
    for spec in ("gtopk:0.05,warmup=2", "local:3+topk:0.1"):
        whole = Run(rank, spec).steps(0, 4)
        with tempfile.TemporaryFile() as file:
            torch.save([whole.model.state_dict(), whole.optimizer.state_dict(),
                        whole.handle.state_dict()], file)
            expected = whole.steps(4, 8).result()
            file.seek(0)
            saved = torch.load(file)
        again = Run(rank, spec)
        for part, state in zip((again.model, again.optimizer, again.handle), saved):
            part.load_state_dict(state)
        assert torch.equal(expected, again.steps(4, 8).result()), spec


def skips(rank, workers):
    """NaN on one worker leaves out a step on all, with and without a closure."""
    run = Run(rank, "topk:0.1", options={"nonfinite": "skip"})
    run.steps(0, 2)
    for closure in (False, True):
        before = vector(run.model)

        def poisoned():
            run.optimizer.zero_grad(set_to_none=True)
            loss = loss_of(run.model, 2, rank) * (float("nan") if rank == 0 else 1)
            loss.backward()
            return loss

        if closure:
            run.optimizer.step(poisoned)
        else:
            poisoned()
            run.optimizer.step()
        assert torch.equal(before, vector(run.model))
        assert run.model.first.weight.grad.isnan().all()
    run.steps(3, 5)
    assert not torch.equal(before, vector(run.model))
    run.handle.detach()
    run = Run(rank, "topk:0.1")
    error = torch_crew.raises(gradwire.NonFiniteError, "", lambda: (
        loss_of(run.model, 2, rank) * (float("nan") if rank == 0 else 1)).backward())
    assert "worker 0" in str(error), error
    run.handle.detach()


def detaches(rank, workers):
    run = Run(rank, "dense").steps(0, 2)
    run.handle.detach()
    state = vector(run.model)
    run.optimizer.zero_grad(set_to_none=True)
    loss_of(run.model, 2, rank).backward()
    own = run.model.first.weight.grad.clone()
    other = new_net()
    other.load_state_dict(run.model.state_dict())
    loss_of(other, 2, rank).backward()
    assert torch.equal(state, vector(run.model)) and torch.equal(own, other.first.weight.grad)
    run.handle = gradwire.attach(run.model, "dense", run.optimizer)
    run.steps(2, 4)
    run.handle.detach()


def refuses(rank, workers):
    net = new_net()
    torch_crew.raises(ValueError, "none of this model's parameters",
                      lambda: gradwire.attach(net, "dense", sgd(new_net())))
    torch_crew.raises(ValueError, "needs a torch.nn.Module, not int",
                      lambda: gradwire.attach(7, "dense"))
    torch_crew.raises(ValueError, "has sparse gradients", lambda: gradwire.attach(
        nn.Embedding(5, 5, sparse=True), "dense"))
    torch_crew.raises(ValueError, "no parameters", lambda: gradwire.attach(
        nn.ReLU(), "dense"))
    half = nn.Sequential(nn.parallel.DistributedDataParallel(new_net()), nn.Linear(3, 3))
    torch_crew.raises(ValueError, "'0' is in DistributedDataParallel",
                      lambda: gradwire.attach(half, "dense"))
    torch_crew.raises(ValueError, "'0': nn.DataParallel keeps", lambda: gradwire.attach(
        nn.Sequential(nn.DataParallel(new_net())), "dense"))
    handle = gradwire.attach(net, "dense", sgd(net))
    torch_crew.raises(RuntimeError, "already attached",
                      lambda: gradwire.attach(net, "dense", sgd(net)))
    handle.detach()


# As their packages call them; nobody has these packages here.
FOREIGN = {("deepspeed.runtime.engine", "DeepSpeedEngine"): "does not support DeepSpeed engines",
           ("fairscale.nn.data_parallel.sharded_ddp", "ShardedDataParallel"):
               "does not support FairScale's wrappers",
           ("colossalai.booster.plugin", "GeminiDDP"): "does not support ColossalAI's wrappers",
           ("torch_xla.distributed.fsdp", "XlaShard"): "does not support the wrappers of PyTorch/XLA"}


def refuses_foreign(rank, workers):
    """Wrappers that exchange gradients themselves; layers of those packages are fine."""
    for (package, name), sentence in FOREIGN.items():
        kind = type(name, (nn.Linear,), {"__module__": package})
        torch_crew.raises(ValueError, sentence, lambda: gradwire.attach(kind(3, 3), "dense"))
        gradwire.attach(nn.Sequential(kind(3, 3)), "dense").detach()
    parallel = nn.Linear(3, 3)
    parallel.weight.device_mesh = "of DTensor"
    torch_crew.raises(ValueError, "'weight' is distributed, but not by fully_shard(); gradwire does "
                      "not support tensor parallelism", lambda: gradwire.attach(parallel, "dense"))
    with mock.patch("torch.distributed.get_backend", lambda group: "nccl"):
        torch_crew.raises(ValueError, "moves host memory, such as Gloo's, and 'nccl' does not",
                          lambda: gradwire.attach(new_net(), "dense", transport="group"))


def zero_redundancy(rank, workers):
    """An optimizer that exchanges models itself: refused where the spec does, too; with
    gradients it is the optimizer that it shards."""
    def zero(net):
        return ZeroRedundancyOptimizer(net.parameters(), torch.optim.Adam, lr=0.01)

    for spec, text in (("gtopk:0.01", "give attach() momentum='off' to use 'gtopk:0.01'"),
                       ("local:4", "take a method that exchanges gradients"),
                       ("update:start=2,scale=1.4+gtopk:0.05", "take a method")):
        net = new_net()
        torch_crew.raises(ValueError, text, lambda: gradwire.attach(net, spec, zero(net)))
    torch_crew.raises(ValueError, "take a method", lambda: gradwire.attach(
        net, "local:4", zero(net), momentum="off"))
    results = []
    for make in (zero, lambda net: torch.optim.Adam(net.parameters(), lr=0.01)):
        net = new_net()
        optimizer = make(net)
        handle = gradwire.attach(net, "gtopk:0.05", optimizer, momentum="off")
        for step in range(4):
            optimizer.zero_grad(set_to_none=True)
            loss_of(net, step, rank).backward()
            optimizer.step()
        handle.detach()
        results.append(vector(net))
    assert torch.equal(*results)


# ---- without torch.distributed -------------------------------------------------


def on_threads():
    """Workers that are threads, with comms and no process group."""
    assert not torch.distributed.is_initialized()
    workers, results = 3, {}
    expected = alone(range(workers))
    group = gradwire.LocalGroup(workers)

    def work(rank):
        with group.join(rank) as comm:
            net = LATE[rank]
            optimizer = sgd(net)
            handle = gradwire.attach(net, "dense", optimizer, comm=comm)
            for step in range(STEPS):
                optimizer.zero_grad(set_to_none=True)
                loss_of(net, step, rank).backward()
                optimizer.step()
            handle.finish()
            handle.detach()
            comm.barrier()  # it is still open
            results[rank] = vector(net)

    LATE = [new_net(1 + rank) for rank in range(workers)]  # seeds belong to the process
    threads = [threading.Thread(target=work, args=(r,)) for r in range(workers)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == workers
    for result in results.values():
        assert_close(expected, result)
    net = new_net()
    torch_crew.raises(RuntimeError, "there is no process group",
                      lambda: gradwire.attach(net, "dense", sgd(net)))


CASES = [equals_alone, checkpoints_inside, unused, late_gradients, bits_of_the_library,
         averages_models, resumes, skips, detaches, refuses, refuses_foreign, zero_redundancy]

if __name__ == "__main__":
    if not torch_crew.is_worker():
        on_threads()
        print("threads: good", flush=True)
    few = [equals_alone, bits_of_the_library]
    torch_crew.main(CASES if os.environ.get("WORLD_SIZE") == "2" else few, (2, 4))
