#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Replicas of a model that fully_shard() has sharded give what one process gives, and the
bits of the library on the same shards."""
import os
import tempfile

import torch_crew

torch_crew.skip_without("numpy", "torch")
torch_crew.skip_before("2.6")
import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import gradwire

RATE, STEPS, BATCH = 0.1, 8, 6


def new_net(seed=1):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(20, 33), nn.Tanh(), nn.Linear(33, 33), nn.Tanh(),
                         nn.Linear(33, 3))  # 3 rows: some shards have none


def loss_of(model, step, rank):
    g = torch.Generator().manual_seed(1000 * step + rank)
    x, y = torch.randn(BATCH, 20, generator=g), torch.randint(3, (BATCH,), generator=g)
    return nn.functional.cross_entropy(model(x), y)


def sgd(model, **values):
    return torch.optim.SGD(model.parameters(), lr=RATE, **{**dict(
        momentum=0.9, weight_decay=0.01), **values})


def mesh_of(workers):
    shape = (2, workers // 2)
    return init_device_mesh("cpu", shape, mesh_dim_names=("replicate", "shard"))


class Run:
    def __init__(self, rank, workers, spec, options=None, **values):
        self.rank = rank
        self.mesh = mesh_of(workers)
        # The second replica begins with other numbers, and gets the first one's.
        self.model = new_net(1 + (rank >= workers // 2))
        for layer in (self.model[0], self.model[2], self.model):
            fully_shard(layer, mesh=self.mesh["shard"])
        self.optimizer = sgd(self.model, **values)
        self.handle = gradwire.attach(self.model, spec, self.optimizer,
                                      mesh=self.mesh["replicate"], **(options or {}))

    def steps(self, begin, end, parts=1):
        for step in range(begin, end):
            self.optimizer.zero_grad()
            for part in range(parts - 1):
                with self.handle.no_sync():
                    loss_of(self.model, parts * step + part, self.rank).backward()
            loss_of(self.model, parts * step + parts - 1, self.rank).backward()
            self.optimizer.step()
        return self

    def whole(self):
        return torch.cat([p.full_tensor().detach().reshape(-1)
                          for p in self.model.parameters()])

    def result(self):
        self.handle.finish()
        self.handle.detach()
        return self.whole()


def alone(ranks, parts=1, **values):
    model = new_net()
    optimizer = sgd(model, **values)
    for step in range(STEPS):
        optimizer.zero_grad()
        for part in range(parts):
            sum(loss_of(model, parts * step + part, r) for r in ranks).div(
                len(ranks)).backward()
        optimizer.step()
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def assert_close(a, b, limit=1e-6):
    far = float((a - b).abs().max())
    assert far <= limit, f"{far} apart"


def equal_on_all(x):
    everybody = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(everybody, x)
    assert all(torch.equal(x, other) for other in everybody)


def equals_alone(rank, workers):
    for parts in (1, 2):
        expected = alone(range(workers), parts)
        for spec in ("dense", "gtopk:0.01,warmup=1000"):
            run = Run(rank, workers, spec).steps(0, STEPS, parts)
            assert run.handle.workers == 2 and run.handle.stats()["steps"] == STEPS
            assert_close(expected, run.result())


def bits_of_the_library(rank, workers):
    """The shards of the gradients are what gradwire.Sync makes of FSDP's own."""
    for spec in ("topk:0.01", "gtopk:0.05"):
        run = Run(rank, workers, spec, {"momentum": "off"}, momentum=0, weight_decay=0)
        twin_model = new_net()
        for layer in (twin_model[0], twin_model[2], twin_model):
            fully_shard(layer, mesh=run.mesh["shard"])
        params = run.handle._exchange._parameters
        twin = gradwire.Sync({n: p.to_local().detach() for n, p in params.items()}, spec,
                             run.handle._sync.comm)
        for step in range(4):
            run.optimizer.zero_grad()
            twin_model.zero_grad()
            with torch.no_grad():
                for there, here in zip(twin_model.parameters(), run.model.parameters()):
                    there.to_local().copy_(here.to_local())
            loss_of(twin_model, step, rank).backward()
            grads = dict(twin_model.named_parameters())
            g = np.concatenate([grads[n].grad.to_local().numpy().reshape(-1)
                                for n in params])
            twin.gradient(g)
            loss_of(run.model, step, rank).backward()
            got = torch.cat([p.grad.to_local().reshape(-1) for p in params.values()])
            assert torch.equal(got, torch.from_numpy(g)), (spec, step)
            run.optimizer.step()
        run.handle.detach()


def averages_models(rank, workers):
    for spec in ("local:3", "local:2+topk:0.1"):
        run = Run(rank, workers, spec).steps(0, 5)
        run.handle.finish()
        equal_on_all(run.whole())
        run.handle.detach()
    run = Run(rank, workers, "local:1", momentum=0, weight_decay=0).steps(0, STEPS)
    assert_close(alone(range(workers), momentum=0, weight_decay=0), run.result())


def sparse(rank, workers):
    """Momentum moves, models stay equal, and Adam exchanges changes of models."""
    run = Run(rank, workers, "gtopk:0.05,warmup=2").steps(0, STEPS)
    assert "+momentum" in run.handle.spec
    equal_on_all(run.result())
    run.steps(STEPS, STEPS + 1)  # detached: replicas go on by themselves


def resumes(rank, workers):
    for spec in ("gtopk:0.05,warmup=2", "local:3+topk:0.1"):
        whole = Run(rank, workers, spec).steps(0, 4)
        with tempfile.TemporaryFile() as file:
            torch.save([whole.model.state_dict(), whole.optimizer.state_dict(),
                        whole.handle.state_dict()], file)
            expected = whole.steps(4, 8).result()
            file.seek(0)
            saved = torch.load(file, weights_only=False)
        again = Run(rank, workers, spec)
        for part, state in zip((again.model, again.optimizer, again.handle), saved):
            part.load_state_dict(state)
        assert torch.equal(expected, again.steps(4, 8).result()), spec


def refuses(rank, workers):
    mesh = mesh_of(workers)
    raises, attach = torch_crew.raises, gradwire.attach
    hybrid = fully_shard(new_net(), mesh=mesh)
    raises(ValueError, "all-reduce of such meshes cannot be replaced",
           lambda: attach(hybrid, "dense", mesh=mesh["replicate"]))
    net = fully_shard(new_net(), mesh=mesh["shard"])
    raises(ValueError, "needs the mesh of its replicas", lambda: attach(net, "dense"))
    raises(ValueError, "mesh= has 2 dimensions", lambda: attach(net, "dense", mesh=mesh))
    if workers > 2:
        raises(ValueError, "of one replica", lambda: attach(net, "dense", mesh=mesh["shard"]))
    raises(ValueError, "nonfinite='skip' is not supported", lambda: attach(
        net, "dense", sgd(net), mesh=mesh["replicate"], nonfinite="skip"))
    half = new_net()
    fully_shard(half[0], mesh=mesh["shard"])
    raises(ValueError, "'2.weight' is not sharded",
           lambda: attach(half, "dense", mesh=mesh["replicate"]))
    from torch.distributed.fsdp import FullyShardedDataParallel
    old = object.__new__(FullyShardedDataParallel)
    nn.Module.__init__(old)
    raises(ValueError, "does not support FSDP1", lambda: attach(old, "dense"))
    raises(ValueError, "'0': gradwire does not support FSDP1",
           lambda: attach(nn.Sequential(old), "dense"))
    from torch.distributed._composable.replicate import replicate
    raises(ValueError, "does not support replicate()",
           lambda: attach(replicate(new_net()), "dense"))


CASES = [equals_alone, bits_of_the_library, averages_models, sparse, resumes, refuses]

if __name__ == "__main__":
    few = [equals_alone, refuses]
    torch_crew.main(few if os.environ.get("WORLD_SIZE") == "2" else CASES, (2, 4))
