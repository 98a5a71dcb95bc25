#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One host of bench/peers/ddp: ROUNDS SPECS RESULT. Started by it on every host."""
import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

import gradwire
from torch_step import loaded_blas

BATCH, RATE, DENSITY = 32, 0.01, 0.001
ROUND_SECONDS = 2.0  # how long a way's turn in a round should last
MAX_STEPS = 20


def network():
    torch.manual_seed(1)
    sizes, layers = (784, 2048, 2048, 2048), []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(2048, 10))


# ---- a top-k hook as one would write it in PyTorch -----------------------------


class TopK:
    """0.1 % of each bucket, with a residual, by two all-gathers."""

    def __init__(self):
        self.residual = {}

    def __call__(self, bucket):
        flat = bucket.buffer()
        key = (bucket.index(), flat.numel())
        if key not in self.residual:
            self.residual[key] = torch.zeros_like(flat)
        held = self.residual[key].add_(flat)
        k = max(1, int(DENSITY * flat.numel()))
        _, index = torch.topk(held.abs(), k, sorted=False)
        value = held[index]
        held[index] = 0
        workers = dist.get_world_size()
        values = [torch.empty_like(value) for _ in range(workers)]
        indices = [torch.empty_like(index) for _ in range(workers)]
        both = torch.futures.collect_all([
            dist.all_gather(values, value, async_op=True).get_future(),
            dist.all_gather(indices, index, async_op=True).get_future()])

        def add(_):
            flat.zero_()
            for v, i in zip(values, indices):
                flat.index_add_(0, i, v, alpha=1 / workers)
            return flat

        return both.then(add)


def topk_hook(state, bucket):
    return state(bucket)


# ---- other hooks ---------------------------------------------------------------


def no_hook(state, bucket):
    """Nothing is exchanged; what is left is what DDP costs."""
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


def waiting_hook(comm, bucket):
    """Nothing is exchanged, but the workers wait for each other once in a step, as in any
    exchange: what is left is what that costs where workers share cores."""
    comm.barrier()
    return no_hook(comm, bucket)


def with_hook(state, hook, **options):
    model = DistributedDataParallel(network(), **options)
    model.register_comm_hook(state, hook)
    return Way(model)


def powersgd():
    """That of PyTorch 2; the one of 1.13 does not run with Gloo. With several buckets the
    collectives of their callbacks come in another order on each worker, and Gloo fails."""
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
    if int(torch.__version__.split(".")[0]) < 2:
        return {}
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1,
                                        start_powerSGD_iter=2)
    return {"PowerSGD hook, rank 1": with_hook(state, powerSGD_hook.powerSGD_hook,
                                               bucket_cap_mb=1000)}


# ---- the ways ------------------------------------------------------------------


class Way:
    """One model and its exchange."""

    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
        self.best, self.steps = float("inf"), 2

    def step(self, x, y):
        self.optimizer.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(self.model(x), y).backward()
        self.optimizer.step()


# One bucket is the better choice for whoever selects from it.
ONE = dict(bucket_cap_mb=1000, gradient_as_bucket_view=True)


def attached(spec, **options):
    way = Way(DistributedDataParallel(network(), **ONE))
    return way, gradwire.attach(way.model, spec, way.optimizer, momentum="off", **options)


def ways(specs):
    """All of them, and the handle of the first spec."""
    spec, *more = specs
    ours, handle = attached(spec)
    through, _ = attached(spec, transport="group")
    return {"no exchange": Way(network()),
            "hook that does nothing": with_hook(None, no_hook, **ONE),
            "hook that only waits": with_hook(handle._sync.comm, waiting_hook, **ONE),
            "plain DDP": Way(DistributedDataParallel(network())),
            "fp16 hook": with_hook(None, default_hooks.fp16_compress_hook),
            **powersgd(),
            f"top-k hook in PyTorch, {DENSITY:g}": with_hook(TopK(), topk_hook, **ONE),
            f"gradwire {spec}": ours,
            **{f"gradwire {other}": attached(other)[0] for other in more},
            f"gradwire {spec} by the group": through}, handle


def turn(way, x, y):
    """Seconds per step of the slowest host, over a few steps."""
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(way.steps):
        way.step(x, y)
    took = torch.tensor([(time.perf_counter() - begin) / way.steps])
    dist.all_reduce(took, dist.ReduceOp.MAX)
    return float(took)


def main():
    rounds, specs, result = int(sys.argv[1]), sys.argv[2].split(), sys.argv[3]
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    g = torch.Generator().manual_seed(rank)
    x, y = torch.randn(BATCH, 784, generator=g), torch.randint(10, (BATCH,), generator=g)
    everything, handle = ways(specs)
    # The first turn lets DDP lay out its buckets, and says how many steps a turn has.
    for way in everything.values():
        turn(way, x, y)
        way.steps = 1
        way.steps = max(1, min(MAX_STEPS, round(ROUND_SECONDS / turn(way, x, y))))
    for _ in range(rounds):
        for way in everything.values():
            way.best = min(way.best, turn(way, x, y))
    if rank == 0:
        stats = handle.stats()
        blas, core = loaded_blas()
        with open(result, "w") as f:
            json.dump({"seconds": {name: way.best for name, way in everything.items()},
                       "blas": blas, "core": core, "torch": torch.__version__,
                       "isa": gradwire.isa(),
                       "per_step": {k: v / stats["steps"] for k, v in stats.items()}}, f)
    dist.barrier()


if __name__ == "__main__":
    main()
