#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""attach() on compiled models, with DDP inside and outside and without it, gives what
the same models give without torch.compile(), and resumes as if it had not stopped."""
import copy
import os
import sys

import torch_crew

torch_crew.skip_without("numpy", "torch")
torch_crew.skip_before("2.1")
import torch
import torch._dynamo
from torch import nn
from torch._dynamo.backends.registry import lookup_backend
from torch.nn.parallel import DistributedDataParallel

import gradwire

STEPS = 5


class Net(nn.Sequential):
    def forward(self, x):
        """Its own, since torch.compile() leaves those of torch.nn alone inside DDP."""
        return super().forward(x)


def net():
    torch.manual_seed(1)
    return Net(nn.Linear(20, 620), nn.Tanh(), nn.Linear(620, 620), nn.Tanh(), nn.Linear(620, 5))


graphs = []  # those that were compiled since it was cleared


def backend(graph, inputs):
    graphs.append(graph)
    return lookup_backend("aot_eager")(graph, inputs)


def compiled(model):
    return torch.compile(model, backend=backend)


def ddp(model):
    return DistributedDataParallel(model, bucket_cap_mb=1)  # several buckets


def make_steps(model, optimizer, rank, steps):
    for step in steps:
        g = torch.Generator().manual_seed(100 * step + rank)
        x, y = torch.randn(8, 20, generator=g), torch.randint(5, (8,), generator=g)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def begin(model, spec):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return model, optimizer, gradwire.attach(model, spec, optimizer)


def end(model, handle):
    handle.finish()
    handle.detach()
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def trained(model, rank, spec):
    model, optimizer, handle = begin(model, spec)
    assert sorted(p.name for p in handle._sync.parts) == sorted(
        n for n, _ in net().named_parameters())  # whatever wraps it
    make_steps(model, optimizer, rank, range(STEPS))
    assert handle.stats()["steps"] == STEPS
    return end(model, handle)


# Each with whether optimize_ddp=True makes several graphs of it, one for each bucket.
WRAPS = [(lambda: compiled(ddp(net())), True), (lambda: ddp(compiled(net())), True),
         (lambda: compiled(net()), False)]


def compiles(rank, workers):
    specs = ("dense", "gtopk:0.05,warmup=2")
    expected = [trained(ddp(net()), rank, spec) for spec in specs]
    for mode in (True, False):  # splits graphs where buckets end, or does not
        torch._dynamo.config.optimize_ddp = mode
        for wrap, splits in WRAPS:
            torch._dynamo.reset()
            graphs.clear()
            for spec, wanted in zip(specs, expected):
                far = float((trained(wrap(), rank, spec) - wanted).abs().max())
                assert far <= 1e-6, (spec, mode, far)
                if spec == specs[0]:
                    assert len(graphs) > 1 if splits and mode else len(graphs) == 1, mode


def resumes(rank, workers):
    spec = "gtopk:0.05,warmup=1"
    for wrap, _ in WRAPS:
        torch._dynamo.reset()
        whole = begin(wrap(), spec)
        make_steps(*whole[:2], rank, range(3))
        saved = copy.deepcopy([part.state_dict() for part in whole])
        make_steps(*whole[:2], rank, range(3, STEPS))
        expected = end(whole[0], whole[2])
        again = begin(wrap(), spec)
        for part, state in zip(again, saved):
            part.load_state_dict(state)
        make_steps(*again[:2], rank, range(3, STEPS))
        assert torch.equal(end(again[0], again[2]), expected)


def example_compiles(rank, workers):
    """PyTorch says nothing if it finds nothing to compile."""
    sys.path.insert(0, os.path.join(os.environ["GRADWIRE_SOURCE"], "python", "examples"))
    from images import network
    torch._dynamo.reset()
    graphs.clear()
    compiled(ddp(network()))(torch.zeros(1, 1, 28, 28))
    assert graphs


def refuses_python_reducer(rank, workers):
    torch._dynamo.config.optimize_ddp = "python_reducer"
    model = ddp(net())
    torch._dynamo.config.optimize_ddp = True
    torch_crew.raises(ValueError, "python_reducer",
                      lambda: gradwire.attach(compiled(model), "dense"))


if __name__ == "__main__":
    torch_crew.main([compiles, resumes, example_compiles, refuses_python_reducer], (2,))
