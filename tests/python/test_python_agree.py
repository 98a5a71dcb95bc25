#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trouble that one worker has is raised on all of them, none waits; what DDP can do with
a model it can do with one that gradwire is attached to, or says why not; advice."""
import copy
import io
import os
import sys
import time
import warnings

import torch_crew

torch_crew.skip_without("numpy", "torch")
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import gradwire
from gradwire import torch_hook
from gradwire.joining import mesh
from torch_crew import raises

WORKERS, DIES = 3, 9
# Seconds: far below the time limit, far above what it takes.
SOON, LIMIT = 40, 120


def net():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 3))


def step(model, sgd=None):
    model.zero_grad()
    model(torch.full((4, 10), 1.0)).square().sum().backward()
    if sgd is not None:
        sgd.step()


class Trial:
    def __init__(self, spec, **options):
        self.model = DistributedDataParallel(net())
        self.sgd = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.handle = gradwire.attach(self.model, spec, self.sgd, timeout=LIMIT, **options)

    def step(self):
        step(self.model, self.sgd)


# ---- states --------------------------------------------------------------------


def states(rank, workers):
    """Whatever one worker is given in place of a state."""
    trial, other = Trial("gtopk:0.1"), Trial("topk:0.1")
    trial.step()
    other.step()
    good, foreign = trial.handle.state_dict(), other.handle.state_dict()
    other.handle.detach()
    lacks = {k: v for k, v in good.items() if k != "phase"}
    begin = time.monotonic()
    for wrong in (None, 5, [], [None], "state", foreign, lacks, dict(good, step="one"),
                  dict(good, stats=7), dict(good, residual=[1, 2]), dict(good, step=-1),
                  dict(good, order=None, workers="x"), dict(good, spec="x" * 5000)):
        for one in range(2):
            error = raises(gradwire.DataError, "", lambda: trial.handle.load_state_dict(
                wrong if rank == one else good))
            assert rank == one or f"worker {one}" in str(error), (wrong, error)
    assert time.monotonic() - begin < SOON
    trial.step()  # nothing has changed
    assert trial.handle.state_dict()["step"] == 2
    trial.handle.load_state_dict(good)
    assert trial.handle.state_dict()["step"] == 1
    trial.handle.detach()


# ---- attach() ------------------------------------------------------------------


def hooks(rank, workers):
    """One worker's model has a hook already, one's link is misspelt."""
    model = DistributedDataParallel(net())
    if rank == 1:
        model.register_comm_hook(None, lambda state, bucket: None)
    begin = time.monotonic()
    error = raises(RuntimeError, "already has a communication hook",
                   lambda: gradwire.attach(model, "gtopk:0.1", timeout=LIMIT))
    assert rank == 1 or "worker 1 cannot attach" in str(error), error
    error = raises(gradwire.GradwireError, "1 gigabit", lambda: gradwire.attach(
        DistributedDataParallel(net()), "dense", timeout=LIMIT,
        link="1 gigabit" if rank == 2 else "1gbit"))
    assert rank == 2 or "worker 2 cannot attach" in str(error), error
    assert time.monotonic() - begin < SOON
    Trial("gtopk:0.1").handle.detach()


def killed(where):
    """Worker 2 dies in attach(): while the process group is asked, while connections are
    made, while the sync is."""
    def case(rank, workers):
        model = DistributedDataParallel(net())
        dist.barrier()
        if rank == 2:
            place, name = {"group": (dist, "all_gather"), "mesh": (mesh.Mesh, "run"),
                           "sync": (torch_hook, "Sync")}[where]
            setattr(place, name, lambda *_, **__: os._exit(DIES))
        begin = time.monotonic()
        error = raises(gradwire.PeerError, "", lambda: gradwire.attach(
            model, "gtopk:0.1", timeout=LIMIT))
        assert where == "group" or "worker 2 on host" in str(error), error
        assert time.monotonic() - begin < SOON
        print(f"{where}, worker {rank}: {error}", flush=True)
        os._exit(0)  # the process group would wait for worker 2
    return case


# ---- what DDP can do -----------------------------------------------------------


def copies(rank, workers):
    """A copy is a model like the one it is of, and not attached."""
    trial = Trial("gtopk:0.1")
    trial.step()
    data = io.BytesIO()
    torch.save(trial.model, data)
    data.seek(0)
    before = trial.handle.stats()["steps"]
    for other in (copy.deepcopy(trial.model), torch.load(data, weights_only=False)):
        step(other)
        assert trial.handle.stats()["steps"] == before
        with other.join():
            step(other)
        handle = gradwire.attach(other, "dense")
        step(other)
        assert handle.stats()["steps"] == 1
        handle.detach()
    trial.step()
    assert trial.handle.stats()["steps"] == before + 1
    assert b"gradwire" not in data.getvalue()  # who loads it need not have it
    trial.handle.detach()
    copy.deepcopy(trial.model)


def joins(rank, workers):
    trial = Trial("gtopk:0.1")
    trial.step()

    def uneven():
        with trial.model.join():
            for _ in range(rank):
                trial.step()

    raises(RuntimeError, "model.join() cannot be used with gradwire", uneven)
    trial.step()
    trial.handle.detach()
    with trial.model.join():
        for _ in range(1 + rank):
            step(trial.model)


# ---- advice --------------------------------------------------------------------


def momentum(rank, workers):
    def advice(spec, kind, **options):
        model = DistributedDataParallel(net())
        optimizer = kind(model.parameters(), lr=0.01, **options)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            gradwire.attach(model, spec, optimizer, momentum="off").detach()
        ours = [w for w in found if "is known to cost" in str(w.message)]
        assert len(ours) <= 1 and all(w.category is UserWarning for w in ours)
        assert rank == 0 or not ours
        assert all(w.filename == __file__ for w in ours), ours[0].filename
        return str(ours[0].message) if ours else ""

    sgd, adam = torch.optim.SGD, torch.optim.Adam
    for spec in ("topk:0.1", "gtopk:0.1", "drop:0.9", "gtopk:0.1+q:4"):
        said = advice(spec, sgd, momentum=0.9), advice(spec, adam)
        if rank == 0:
            for text, name, instead in zip(said, ("momentum 0.9", "Adam"), (
                    "warmup=64", "update:")):
                begin = f"{name} on top of {spec} is known to cost accuracy; '"
                assert text.startswith(begin) and instead in text, text
                gradwire.check_spec(text[len(begin):].split("'")[0])
            gradwire.check_spec(f"{spec}+momentum:0.9")
    for spec, kind, options in (
            ("gtopk:0.1", sgd, {}), ("dense", sgd, {"momentum": 0.9}), ("dense", adam, {}),
            ("gtopk:0.1+momentum:0.9", sgd, {"momentum": 0.9}), ("topk:1", adam, {}),
            ("local:2+topk:0.1", sgd, {"momentum": 0.9}), ("qsgd:4", adam, {})):
        assert advice(spec, kind, **options) == "", spec


KILLED = ("group", "mesh", "sync")

if __name__ == "__main__":
    case = os.environ.get("AGREE_CASE")
    if case is None:
        os.environ["AGREE_CASE"] = "all"
        good = torch_crew.run([sys.executable, sys.argv[0]], WORKERS)
        for where in KILLED:
            os.environ["AGREE_CASE"] = where
            good = torch_crew.run([sys.executable, sys.argv[0]], WORKERS, {2: DIES}) and good
        sys.exit(0 if good else 1)
    torch_crew.main([states, hooks, copies, joins, momentum] if case == "all"
                    else [killed(case)], ())
