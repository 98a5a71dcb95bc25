#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""attach() on compiled models, with DDP inside and outside and without it, gives what
the same models give without torch.compile()."""
import torch_crew

torch_crew.skip_without("numpy", "torch")
torch_crew.skip_before("2.1")
import torch
import torch._dynamo
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import gradwire

STEPS = 5


def net():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(20, 620), nn.Tanh(), nn.Linear(620, 620), nn.Tanh(),
                         nn.Linear(620, 5))


def compiled(model):
    return torch.compile(model, backend="aot_eager")


def ddp(model):
    return DistributedDataParallel(model, bucket_cap_mb=1)  # several buckets


def trained(model, rank, spec):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    handle = gradwire.attach(model, spec, optimizer)
    assert sorted(p.name for p in handle._sync.parts) == sorted(
        n for n, _ in net().named_parameters())  # whatever wraps it
    for step in range(STEPS):
        g = torch.Generator().manual_seed(100 * step + rank)
        x, y = torch.randn(8, 20, generator=g), torch.randint(5, (8,), generator=g)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    assert handle.stats()["steps"] == STEPS
    handle.finish()
    handle.detach()
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def compiles(rank, workers):
    for spec in ("dense", "gtopk:0.05,warmup=2"):
        expected = trained(ddp(net()), rank, spec)
        for mode in (True, False):  # splits graphs where buckets end, or does not
            torch._dynamo.reset()
            torch._dynamo.config.optimize_ddp = mode
            for wrap in (lambda: compiled(ddp(net())), lambda: ddp(compiled(net())),
                         lambda: compiled(net())):
                far = float((trained(wrap(), rank, spec) - expected).abs().max())
                assert far <= 1e-6, (spec, mode, far)


def refuses_python_reducer(rank, workers):
    torch._dynamo.config.optimize_ddp = "python_reducer"
    model = ddp(net())
    torch._dynamo.config.optimize_ddp = True
    torch_crew.raises(ValueError, "python_reducer",
                      lambda: gradwire.attach(compiled(model), "dense"))


if __name__ == "__main__":
    torch_crew.main([compiles, refuses_python_reducer], (2,))
