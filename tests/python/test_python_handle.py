#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a handle protects from: models that stay different, states that count twice; and
the run directory that it writes."""
import inspect
import json
import os
import subprocess
import sys
import tempfile

import torch_crew

torch_crew.skip_without("numpy", "torch")
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import gradwire


class Run:
    def __init__(self, rank, spec, ddp=True, **options):
        torch.manual_seed(1)
        net = nn.Sequential(nn.Linear(10, 30), nn.Tanh(), nn.Linear(30, 3))
        self.rank, self.model = rank, DistributedDataParallel(net) if ddp else net
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.handle = gradwire.attach(self.model, spec, self.optimizer, **options)

    def steps(self, begin, end):
        for step in range(begin, end):
            g = torch.Generator().manual_seed(100 * step + self.rank)
            self.optimizer.zero_grad()
            loss = self.model(torch.randn(4, 10, generator=g)).square().mean()
            loss.backward()
            self.optimizer.step()
            self.handle.record(loss=loss.item())
        return self

    def vector(self):
        return torch.cat([p.detach().reshape(-1) for p in self.model.parameters()])


def gathered(x):
    everybody = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(everybody, x)
    return everybody


def equal_on_all(x):
    return all(torch.equal(x, other) for other in gathered(x))


def averages_before_it_leaves(rank, workers):
    for ddp in (True, False):
        run = Run(rank, "local:8", ddp).steps(0, 3)
        mean = torch.stack(gathered(run.vector())).mean(0)
        assert not equal_on_all(run.vector())
        run.handle.detach()
        assert equal_on_all(run.vector())
        assert torch.allclose(mean, run.vector(), atol=1e-6)


def evaluates_in_the_middle(rank, workers):
    """averaged() shows the average, and the training does not notice."""
    plain = Run(rank, "local:4").steps(0, 10)
    plain.handle.finish()
    run = Run(rank, "local:4").steps(0, 3)
    own = run.vector()
    mean = torch.stack(gathered(own)).mean(0)
    with run.handle.averaged():
        assert equal_on_all(run.vector())
        assert torch.allclose(mean, run.vector(), atol=1e-6)
    assert torch.equal(own, run.vector())
    try:
        with run.handle.averaged():
            raise KeyError
    except KeyError:
        assert torch.equal(own, run.vector())
    run.steps(3, 10)
    run.handle.finish()
    assert torch.equal(plain.vector(), run.vector())
    for one in (plain, run):
        one.handle.detach()
    run = Run(rank, "dense").steps(0, 2)
    sent = run.handle.stats()["bytes_sent"]
    with run.handle.averaged():
        assert run.handle.stats()["bytes_sent"] == sent
    run.handle.detach()


def refuses_one_state_for_all(rank, workers):
    run = Run(rank, "topk:0.1").steps(0, 2)
    state = run.handle.state_dict()
    shared = [state]
    dist.broadcast_object_list(shared, src=0)
    torch_crew.raises(gradwire.DataError, "both load the state that worker 0 has saved",
                      lambda: run.handle.load_state_dict(shared[0]))
    run.handle.load_state_dict(state)
    everybody = [None] * workers
    dist.all_gather_object(everybody, state)
    run.handle.load_state_dict(everybody[(rank + 1) % workers])  # ranks may change
    run.handle.load_state_dict(everybody)
    run.steps(2, 3)
    run.handle.detach()
    # Where nothing is remembered, nothing counts twice.
    run = Run(rank, "dense").steps(0, 2)
    shared = [run.handle.state_dict()]
    dist.broadcast_object_list(shared, src=0)
    run.handle.load_state_dict(shared[0])
    run.handle.detach()


def says_what_it_is(rank, workers):
    run = Run(rank, "topk:0.1").steps(0, 2)
    said = repr(run.handle)
    assert f"worker {rank} of {workers}: 2 steps" in said and "topk:0.1" in said, said
    run.handle.detach()
    assert "detached" in repr(run.handle)
    for function in (gradwire.attach, gradwire.torch_hook.attach):
        assert len(inspect.getdoc(function).splitlines()) > 8


def writes_a_run(rank, workers):
    with tempfile.TemporaryDirectory() as directory:
        here = os.path.join(directory, "a")
        run = Run(rank, "topk:0.1", log=here).steps(0, 25)
        run.handle.record(test_accuracy=0.5, test_loss=1.25, epoch=1)
        run.handle.finish()
        if rank == 0:
            with open(os.path.join(here, "metrics.jsonl")) as f:
                lines = [json.loads(line) for line in f]
            assert [line["step"] for line in lines] == [10, 20, 25], lines
            assert lines[0]["loss"] > 0 and lines[0]["bytes_sent"] > 0, lines[0]
            assert lines[2]["test_accuracy"] == 0.5 and lines[2]["evaluated"] == "test"
            with open(os.path.join(here, "summary.json")) as f:
                summary = json.load(f)
            assert summary["workers"] == workers and summary["steps"] == 25, summary
            assert summary["sync_asked"] == "topk:0.1" and summary["test_loss"] == 1.25
            page = os.path.join(directory, "page.html")
            made = subprocess.run([os.environ["GRADWIRE"], "report", here, "--out", page],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            assert made.returncode == 0, made.stdout
            with open(page) as f:
                assert "topk" in f.read()
        else:
            assert not os.path.exists(here) or os.listdir(here)  # worker 0's alone
        run.handle.detach()


# ---- at the end of a process ---------------------------------------------------

FORGETS = """
import sys, threading, torch, gradwire
def work(rank, finishes):
    comm = group.join(rank)
    net = torch.nn.Linear(3, 3)
    sgd = torch.optim.SGD(net.parameters(), lr=0.1)
    handle = gradwire.attach(net, sys.argv[1], sgd, comm=comm)
    net(torch.ones(2, 3)).sum().backward()
    sgd.step()
    if finishes:
        handle.finish()
    kept.append((net, sgd, handle, comm))
kept, group = [], gradwire.LocalGroup(2)
threads = [threading.Thread(target=work, args=(r, "finish" in sys.argv)) for r in range(2)]
[t.start() for t in threads]
[t.join() for t in threads]
"""


def test_forgotten_finish():
    for arguments, notice in ((["local:4"], True), (["local:4", "finish"], False),
                              (["dense"], False)):
        out = subprocess.run([sys.executable, "-c", FORGETS, *arguments], text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert out.returncode == 0, out.stderr
        assert ("without handle.finish()" in out.stderr) == notice, (arguments, out.stderr)


CASES = [averages_before_it_leaves, evaluates_in_the_middle, refuses_one_state_for_all,
         says_what_it_is, writes_a_run]

if __name__ == "__main__":
    if not torch_crew.is_worker():
        test_forgotten_finish()
    torch_crew.main(CASES, (2,))
