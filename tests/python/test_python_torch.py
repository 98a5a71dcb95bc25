#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gradwire.attach() gives what plain DDP gives, whatever DDP does with its buckets."""
import torch_crew

torch_crew.skip_without("numpy", "torch")
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import gradwire

IN, HIDDEN, OUT, BATCH = 40, 620, 10, 8


class Net(nn.Module):
    """Three layers, of which one is larger than DDP's smallest bucket, and one that is
    used now and then."""

    def __init__(self, extra=False):
        super().__init__()
        self.first = nn.Linear(IN, HIDDEN)
        self.second = nn.Linear(HIDDEN, HIDDEN)
        self.third = nn.Linear(HIDDEN, OUT)
        self.frozen = nn.Parameter(torch.ones(7), requires_grad=False)
        if extra:
            self.extra = nn.Linear(HIDDEN, HIDDEN)
            self.never = nn.Linear(5, 5)
        self.use_extra = True

    def forward(self, x):
        x = torch.tanh(self.first(x))
        x = torch.tanh(self.second(x))
        if hasattr(self, "extra") and self.use_extra:
            x = torch.tanh(self.extra(x))
        return self.third(x)


class Trial:
    """One model in training, on data that depends on rank and step alone."""

    def __init__(self, spec, rank, cap=25, dtype=torch.float32, extra=False, rate=0.05,
                 momentum=0.9, options=None, **ddp):
        torch.manual_seed(1)
        self.rank, self.dtype, self.step = rank, dtype, 0
        self.model = DistributedDataParallel(Net(extra).to(dtype), bucket_cap_mb=cap, **ddp)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=rate,
                                         momentum=momentum)
        self.handle = None
        if spec is not None:
            self.handle = gradwire.attach(self.model, spec, self.optimizer,
                                          **(options or {}))

    def backward(self, poison=None):
        g = torch.Generator().manual_seed(1000 * self.step + self.rank)
        x = torch.randn(BATCH, IN, generator=g)
        y = torch.randint(OUT, (BATCH,), generator=g)
        if poison is not None:
            x = x * poison
        nn.functional.cross_entropy(self.model(x.to(self.dtype)).float(), y).backward()

    def run(self, steps, accumulate=1, before=None):
        for _ in range(steps):
            self.optimizer.zero_grad()
            if before:
                before(self)
            for _ in range(accumulate - 1):
                with self.model.no_sync():
                    self.backward()
                    self.step += 1
            self.backward()
            self.step += 1
            self.optimizer.step()
        return self

    def parameters(self):
        return torch.cat([p.detach().float().reshape(-1)
                          for p in self.model.parameters()])

    def close(self):
        if self.handle is not None:
            self.handle.detach()


def trained(spec, rank, steps=20, accumulate=1, before=None, **settings):
    t = Trial(spec, rank, **settings).run(steps, accumulate, before)
    result = t.parameters()
    t.close()
    return result


def assert_close(a, b, limit=2e-6):
    far = float((a - b).abs().max())
    assert far <= limit, f"{far} apart"


def assert_equal_on_all(x):
    everybody = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(everybody, x)
    assert all(torch.equal(x, other) for other in everybody)


# ---- the same as plain DDP -----------------------------------------------------


def equals_plain(rank, workers):
    plain = trained(None, rank)
    for spec in ("dense", "gtopk:1"):
        for cap in (25, 0.3):  # one bucket; one for each layer
            ours = trained(spec, rank, cap=cap)
            assert_close(plain, ours)
            assert_equal_on_all(ours)
    assert_close(plain, trained("dense", rank, cap=0.3, gradient_as_bucket_view=True))
    assert_close(plain, trained("topk:1", rank, gradient_as_bucket_view=True))


def accumulates(rank, workers):
    plain = trained(None, rank, steps=6, accumulate=3)
    assert_close(plain, trained("dense", rank, steps=6, accumulate=3))
    assert_close(plain, trained("topk:1", rank, steps=6, accumulate=3, cap=0.3))


def unused(rank, workers):
    def now_and_then(t):
        # In step 2 on nobody, in odd steps on some.
        t.model.module.use_extra = t.step % 4 != 2 and (t.rank == 0 or t.step % 2 == 0)

    settings = dict(steps=8, before=now_and_then, extra=True,
                    find_unused_parameters=True)
    plain = trained(None, rank, **settings)
    assert_close(plain, trained("dense", rank, **settings))
    assert_close(plain, trained("dense", rank, cap=0.3, **settings))
    assert_equal_on_all(trained("gtopk:0.01", rank, **settings))


def brain_floats(rank, workers):
    """bf16, which not every version of Gloo lets DDP begin with: below DDP."""
    from gradwire.models.exchange import Exchange, _Bucket
    parameters = {"a": nn.Parameter(torch.zeros(40, 5, dtype=torch.bfloat16)),
                  "b": nn.Parameter(torch.zeros(3))}
    group = gradwire.LocalGroup(1)
    with group.join(0) as comm:
        sync = gradwire.Sync({n: p for n, p in parameters.items()}, "dense", comm)
        exchange = Exchange(sync, parameters)
        a = torch.linspace(-1, 1, 200).bfloat16()
        buckets = [_Bucket(torch.ones(3), ["b"], torch.futures.Future(), None),
                   _Bucket(a.clone(), ["a"], torch.futures.Future(), None)]
        exchange._step(buckets)
        assert torch.equal(buckets[0].future.wait(), torch.ones(3))
        assert torch.equal(buckets[1].future.wait(), a)
        exchange.close()


def half_gradients(rank, workers):
    """Buckets of fp16 and of fp32 in one model, without fp16 products."""
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Parameter(torch.linspace(-1, 1, 30).half())
            self.b = nn.Parameter(torch.linspace(-1, 1, 30))

        def forward(self, x):
            return (self.a.float() * x + self.b).square().sum()

    results = []
    for spec in (None, "dense", "gtopk:1"):
        model = DistributedDataParallel(Mixed())
        handle = gradwire.attach(model, spec) if spec else None
        for step in range(3):
            model.zero_grad()
            model(torch.full((30,), 1.0 + rank + step)).backward()
        results.append((model.module.a.grad, model.module.b.grad))
        assert results[-1][0].dtype == torch.float16
        if handle:
            handle.detach()
    for ours in results[1:]:
        assert_close(ours[0].float(), results[0][0].float(), 0.1)  # of 100
        assert_close(ours[1], results[0][1], 1e-4)


# ---- sparse recipes lose nothing -----------------------------------------------


def conserves(rank, workers):
    """What went in came out or is still there, over the steps in which DDP rebuilds its
    buckets: the model has constant gradients, so the sums are known."""
    class Linear(nn.Module):
        def __init__(self):
            super().__init__()
            self.weights = nn.ParameterList(
                nn.Parameter(torch.zeros(n)) for n in (300000, 200000, 3, 150000))

        def forward(self, slopes):
            return sum((w * s).sum() for w, s in zip(self.weights, slopes))

    for cap in (25, 0.4):
        model = DistributedDataParallel(Linear(), bucket_cap_mb=cap)
        handle = gradwire.attach(model, "gtopk:0.01")
        g = torch.Generator().manual_seed(rank)
        slopes = [torch.randn(w.shape, generator=g) for w in model.module.weights]
        applied = [torch.zeros_like(s, dtype=torch.float64) for s in slopes]
        steps = 4
        for _ in range(steps):
            model.zero_grad()
            model(slopes).backward()
            for sum_, w in zip(applied, model.module.weights):
                sum_ += w.grad
        held = handle.state_dict()["residual"]
        for i, (sum_, slope) in enumerate(zip(applied, slopes)):
            went_in = steps * slope.double()
            is_there = held[f"weights.{i}"].double()
            dist.all_reduce(went_in)
            dist.all_reduce(is_there)
            assert_close(went_in, is_there + workers * sum_, 1e-4)
        assert handle.stats()["steps"] == steps
        assert handle.residual_norm() > 0
        handle.detach()


# ---- models that are averaged --------------------------------------------------


def averages_models(rank, workers):
    for spec in ("local:2", "spa:3", "pqasgd:2,8", "oneshot", "local:2,start=2"):
        t = Trial(spec, rank, momentum=0).run(4)
        t.handle.finish()
        assert_equal_on_all(t.parameters())
        t.close()
    # One local step of plain SGD, averaged, is a step on the average.
    assert_close(trained("local:1", rank, steps=6, momentum=0),
                 trained(None, rank, steps=6, momentum=0))


def works_with_schedulers(rank, workers):
    t = Trial("local:2", rank)
    scheduler = torch.optim.lr_scheduler.StepLR(t.optimizer, 1, gamma=0.5)
    for _ in range(2):
        t.run(1)
        scheduler.step()
    assert t.optimizer.param_groups[0]["lr"] == 0.05 / 4
    t.close()
    t.run(1)  # the scheduler's wrapper is around ours, which does nothing any more
    t = Trial(None, rank)
    scheduler = torch.optim.lr_scheduler.StepLR(t.optimizer, 1, gamma=0.5)
    before = t.optimizer.step
    t.handle = gradwire.attach(t.model, "local:2", t.optimizer)
    t.run(2)
    scheduler.step()
    t.close()
    assert t.optimizer.step == before


def detaches(rank, workers):
    """After detach() it is plain DDP; attaching again works."""
    plain = trained(None, rank, steps=6)
    t = Trial("dense", rank).run(2)
    t.close()
    t.handle.detach()  # twice is fine
    t.run(2)
    t.handle = gradwire.attach(t.model, "dense", t.optimizer)
    t.run(2)
    assert_close(plain, t.parameters())
    t.close()
    torch_crew.raises(RuntimeError, "detached", t.handle.stats)


CASES = [equals_plain, conserves, half_gradients]
MORE = [accumulates, unused, brain_floats, averages_models, works_with_schedulers, detaches]

if __name__ == "__main__":
    import os
    cases = CASES + MORE if os.environ.get("WORLD_SIZE") == "2" else CASES
    torch_crew.main(cases, (2, 3, 4))
