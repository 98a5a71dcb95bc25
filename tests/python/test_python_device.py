#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The residual on the model's device: the library's own choice of entries, its bits in
the parameters and in saved states, and nothing but entries that cross to the host. The
device is the CPU here; the operations are those of any."""
import contextlib
import copy
import io

import torch_crew

torch_crew.skip_without("numpy", "torch")
import numpy as np
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import gradwire
from gradwire.models import device
from gradwire.comm import LocalGroup
from gradwire.sync import Sync

RATE, STEPS, BATCH = 0.1, 8, 5
SPECS = ["topk:0.02", "gtopk:0.02", "topk:0.02+q:4", "gtopk:0.02+q:4", "oktopk:0.05",
         "gtopk:0.02,warmup=3"]


# ---- the choice ----------------------------------------------------------------


def chosen_by_library(vector, k):
    """What the library selects of a vector: a worker alone sends it to nobody."""
    with LocalGroup(1).join(0) as comm:
        # Half an entry more: rounding must not make it one less.
        sync = Sync(len(vector), f"topk:{(k + 0.5) / len(vector):.12f}", comm, nonfinite="ignore")
        result = vector.copy()
        sync.gradient(result)
        return np.flatnonzero(result.view(np.uint32))


def vectors():
    """Vectors with what makes a choice hard: ties, zeros of both signs, NaN."""
    draw = np.random.default_rng(5)
    plain = draw.standard_normal(3000).astype(np.float32)
    ties = draw.integers(-3, 4, 3000).astype(np.float32)
    few = np.where(draw.random(3000) < 0.99, np.float32(-0.0), ties)
    tiny = plain * np.float32(1e-42)
    hostile = plain.copy()
    hostile[::7], hostile[3::11], hostile[5::13] = np.nan, np.inf, -np.inf
    hostile[1::17].view(np.uint32)[:] = 0xffc00001  # another NaN
    return [plain, ties, few, tiny, hostile, np.zeros(3000, np.float32)]


def same_choice(rank, workers):
    for vector in vectors():
        for k in (1, 7, 300, 2999):
            here = device.largest(torch.from_numpy(vector.copy()), k).numpy()
            there = chosen_by_library(vector, k)
            assert np.array_equal(here, there), (k, here, there)


# ---- the bits of the library ---------------------------------------------------


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(20, 50), nn.Linear(50, 4)
        self.conv = nn.Conv2d(1, 2, 3)

    def forward(self, x):
        extra = self.conv(x[:, :16].reshape(-1, 1, 4, 4)).mean(dim=(1, 2, 3))
        return self.second(torch.tanh(self.first(x))) + extra[:, None]


def new_net():
    torch.manual_seed(3)
    return Net()


def loss_of(model, step, rank):
    g = torch.Generator().manual_seed(1000 * step + rank)
    x, y = torch.randn(BATCH, 20, generator=g), torch.randint(4, (BATCH,), generator=g)
    return nn.functional.cross_entropy(model(x), y)


def train(rank, spec, where, wrap=True, steps=STEPS, state=None, begin=0, **options):
    """The handle, and the parameters after some steps."""
    model = new_net()
    if state is not None:
        model.load_state_dict(state["model"])
    model = DistributedDataParallel(model, bucket_cap_mb=0.002) if wrap else model
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    handle = gradwire.attach(model, spec, optimizer, residual=where, **options)
    if state is not None:
        handle.load_state_dict(state["gradwire"])
    for step in range(begin, begin + steps):
        optimizer.zero_grad(set_to_none=True)
        loss_of(model, step, rank).backward()
        optimizer.step()
    return handle, [p.detach().clone() for p in model.parameters()]


def equal(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b))


def same_bits(rank, workers):
    for spec in SPECS:
        for wrap in (True, False):
            there, far = train(rank, spec, "device", wrap)
            here, near = train(rank, spec, "host", wrap)
            assert there._sync.residual is not None, spec
            assert equal(far, near), f"{spec}: other parameters"
            a, b = there.state_dict(), here.state_dict()
            for name in a["residual"]:
                assert torch.equal(a["residual"][name], b["residual"][name]), (spec, name)
            assert a["stats"] == b["stats"], spec
            there.detach()
            here.detach()


def resumes(rank, workers):
    """A state goes from a run to another, wherever their residuals are."""
    for before, after in (("device", "device"), ("device", "host"), ("host", "device")):
        whole, want = train(rank, "gtopk:0.02", after)
        first, parameters = train(rank, "gtopk:0.02", before, steps=4)
        model = new_net()
        for p, value in zip(model.parameters(), parameters):
            p.data.copy_(value)
        saved = {"model": copy.deepcopy(model.state_dict()), "gradwire": first.state_dict()}
        second, have = train(rank, "gtopk:0.02", after, steps=4, state=saved, begin=4)
        assert equal(have, want), (before, after)
        for handle in (whole, first, second):
            handle.detach()


# ---- what crosses --------------------------------------------------------------


def only_entries_cross(rank, workers):
    for spec in ("topk:0.02", "gtopk:0.02"):
        handle, _ = train(rank, spec, "device")
        n = handle._sync.floats
        k = int(0.02 * n)
        border, places = handle._sync.border, 10  # the places of gradients: a byte for each
        assert 8 * k * STEPS <= border.to_host_bytes <= (8 * k + places) * STEPS
        results = workers * k if spec.startswith("topk") else k
        # What is kept: own entries, and what each of at most log2(P) merges rejected.
        kept = 0 if spec.startswith("topk") else (1 + (workers - 1).bit_length()) * k
        assert 0 < border.to_device_bytes <= 8 * (results + kept) * STEPS
        assert border.to_host_bytes + border.to_device_bytes < 4 * n * STEPS / 2
        assert handle._exchange._vector is None, "there is a vector on the host"
        handle.detach()


def bad_numbers(rank, workers):
    """A step with NaN is skipped, and no residual knows of it."""
    def gradients(step):
        g = torch.Generator().manual_seed(10 * step + rank)
        flat = torch.randn(3000, generator=g)
        if step == 2 and rank == 1:
            flat[1234] = float("nan")
        return flat

    def run(where):
        model = nn.Linear(3000, 1, bias=False)
        nn.init.zeros_(model.weight)
        optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
        handle = gradwire.attach(model, "gtopk:0.01", optimizer, residual=where,
                                 nonfinite="skip")
        for step in range(5):
            optimizer.zero_grad(set_to_none=True)
            model(gradients(step)[None]).sum().backward()
            optimizer.step()
        found = model.weight.detach().clone(), handle.state_dict()["residual"], handle.stats()
        handle.detach()
        return found

    (a, r, stats), (b, q, _) = run("device"), run("host")
    assert torch.equal(a, b) and torch.equal(r["weight"], q["weight"])
    assert stats["skipped"] == 1, stats


def names_bad_numbers(rank, workers):
    model = nn.Linear(8, 1)
    handle = gradwire.attach(model, "topk:0.5", torch.optim.SGD(model.parameters(), lr=RATE),
                             residual="device")
    x = torch.full((1, 8), float("inf") if rank == 1 else 1.0)
    torch_crew.raises(gradwire.NonFiniteError, "worker 1 holds NaN or infinity in tensor 'weight'",
                      lambda: model(x).sum().backward())
    handle.detach()


# ---- what cannot be done there ---------------------------------------------------


def says_so(rank, workers):
    for spec in ("dense", "drop:0.9", "topk:0.1+momentum:0.9", "local:2"):
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            there, far = train(rank, spec, "device", momentum="off")
        assert there._sync.residual is None
        told = f"gradwire: '{spec}' cannot select on the device" in said.getvalue()
        assert told == (rank == 0), said.getvalue()
        there.detach()
        here, near = train(rank, spec, "host", momentum="off")
        here.detach()
        assert equal(far, near), spec
    for make, stage in ((lambda p: torch.optim.SGD(p, lr=RATE, momentum=0.9), "momentum"),
                        (torch.optim.AdamW, "update")):  # what attach() makes of the spec
        model, said = new_net(), io.StringIO()
        with contextlib.redirect_stderr(said):
            handle = gradwire.attach(model, "gtopk:0.02", make(model.parameters()),
                                     residual="device")
        assert handle._sync.residual is None and stage in handle.spec, handle.spec
        assert ("cannot select on the device" in said.getvalue()) == (rank == 0)
        handle.detach()
    torch_crew.raises(ValueError, "invalid residual='gpu'",
                      lambda: train(rank, "topk:0.1", "gpu"))


if __name__ == "__main__":
    torch_crew.main([same_choice, same_bits, resumes, only_entries_cross, bad_numbers,
                     names_bad_numbers, says_so], (2, 3))
