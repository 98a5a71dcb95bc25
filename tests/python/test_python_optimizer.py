#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""attach() with the optimizer that a script has anyway: SGD's momentum and weight decay
are done by the sync, and are exactly SGD's where everything is sent; others exchange the
changes that they make."""
import contextlib
import copy
import io
import os
import tempfile
import warnings

import torch_crew

torch_crew.skip_without("numpy", "torch")
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import gradwire

SGD, STEPS, RATE = torch.optim.SGD, 20, 0.05
# Chooses entries, but leaves out none that matters.
ALL = "topk:0.99999,warmup=0"
SPARSE = "gtopk:0.05,warmup=2"


class Net(nn.Sequential):
    def __init__(self):
        torch.manual_seed(1)
        super().__init__(nn.Conv2d(2, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(144, 60),
                         nn.Tanh(), nn.Linear(60, 10))


class Run:
    def __init__(self, rank, spec=None, kind=SGD, groups=None, layout=None, attach=True,
                 moves="auto", **settings):
        net = Net() if layout is None else Net().to(memory_format=layout)
        self.rank, self.at = rank, 0
        self.model = DistributedDataParallel(net)
        self.optimizer = kind(groups(net) if groups else net.parameters(), **settings)
        self.handle = None
        if spec is not None and attach:
            self.attach(spec, moves)

    def attach(self, spec, moves="auto"):
        self.handle = gradwire.attach(self.model, spec, self.optimizer, momentum=moves)

    def backward(self):
        g = torch.Generator().manual_seed(1000 * self.at + self.rank)
        x = torch.randn(8, 2, 8, 8, generator=g)
        y = torch.randint(10, (8,), generator=g)
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(x), y)
        if any(group.get("maximize") for group in self.optimizer.param_groups):
            loss = -loss
        loss.backward()
        return loss

    def steps(self, n, after=None, closure=False):
        for _ in range(n):
            if closure:
                self.optimizer.step(self.backward)
            else:
                self.backward()
                self.optimizer.step()
            self.at += 1
            if after is not None:
                after()
        return self

    def parameters(self):
        return torch.cat([p.detach().reshape(-1) for p in self.model.parameters()])

    def close(self):
        if self.handle is not None:
            self.handle.detach()
        return self


def assert_close(a, b, limit=1e-5):
    far = float((a - b).abs().max())
    assert far <= limit, f"{far} apart"


def assert_equal_on_all(x):
    everybody = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(everybody, x)
    assert all(torch.equal(x, other) for other in everybody)


def heard(act):
    """Lines on the standard error, and warnings, that act gives rise to."""
    lines = io.StringIO()
    with warnings.catch_warnings(record=True) as found, contextlib.redirect_stderr(lines):
        warnings.simplefilter("always")
        result = act()
    ours = [w for w in found if w.category is UserWarning]
    return result, lines.getvalue().splitlines(), ours


# ---- SGD -----------------------------------------------------------------------


def two_groups(net):
    return [{"params": [p for p in net.parameters() if p.dim() > 1], "lr": RATE / 2},
            {"params": [p for p in net.parameters() if p.dim() == 1], "weight_decay": 0.0}]


VALUES = (dict(momentum=0.9), dict(momentum=0.9, nesterov=True),
          dict(momentum=0.8, dampening=0.3), dict(momentum=0.9, weight_decay=0.05),
          dict(momentum=0.9, weight_decay=0.05, nesterov=True, maximize=True),
          dict(momentum=0.7, weight_decay=0.05, dampening=0.1, groups=two_groups),
          dict(momentum=0.9, weight_decay=0.05, layout=torch.channels_last))


def equals_sgd(rank, workers):
    for values in VALUES:
        plain = Run(rank, lr=RATE, **values).steps(STEPS).parameters()
        for spec in (ALL, "gtopk:0.01,warmup=1000"):
            ours = Run(rank, spec, lr=RATE, **values).steps(STEPS)
            assert "+momentum:" in ours.handle.spec, ours.handle.spec
            assert_close(plain, ours.close().parameters())
            assert_equal_on_all(ours.parameters())


def equals_sgd_with_closure(rank, workers):
    values = dict(lr=RATE, momentum=0.9, weight_decay=0.05)
    plain = Run(rank, **values).steps(STEPS, closure=True).parameters()
    ours = Run(rank, ALL, **values).steps(STEPS, closure=True)
    assert_close(plain, ours.close().parameters())


def follows_schedules(rank, workers):
    """Momentum that a schedule writes, whether it is made before attach() or after."""
    results = []
    for spec, first in ((None, True), (ALL, True), (ALL, False)):
        run = Run(rank, spec, attach=first, lr=RATE, momentum=0.9, weight_decay=0.01)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            run.optimizer, max_lr=2 * RATE, total_steps=STEPS + 1, base_momentum=0.5,
            max_momentum=0.95)
        if spec is not None and not first:
            run.attach(spec)
        run.steps(STEPS, after=schedule.step)
        results.append((run.parameters(), run.optimizer.param_groups[0]["momentum"]))
        run.close()
    for ours, momentum in results[1:]:
        assert_close(results[0][0], ours)
        assert momentum == results[0][1], momentum


def attaches_in_the_middle(rank, workers):
    """The velocity goes to the sync and comes back: plain DDP before and after."""
    for values in (dict(), dict(maximize=True), dict(layout=torch.channels_last)):
        values.update(lr=RATE, momentum=0.9, nesterov=True, weight_decay=0.01)
        plain = Run(rank, **values).steps(15).parameters()
        run = Run(rank, **values).steps(5)
        run.attach(ALL)
        run.steps(5).close()
        group, = run.optimizer.param_groups
        assert (group["momentum"], group["dampening"], group["nesterov"],
                group["weight_decay"]) == (0.9, 0, True, 0.01), group
        assert "step" not in run.optimizer.__dict__
        assert_close(plain, run.steps(5).parameters())


def keeps_the_values(rank, workers):
    """Who looks at the optimizer sees what it was made with."""
    run = Run(rank, SPARSE, lr=RATE, momentum=0.9, weight_decay=0.01).steps(3)
    saved = run.optimizer.state_dict()["param_groups"][0]
    assert saved["momentum"] == 0.9 and saved["weight_decay"] == 0.01, saved
    run.close()


def resumes(rank, workers):
    """A run that is stopped and resumed is the run that was not."""
    def schedule_of(run):
        if not isinstance(run.optimizer, SGD):
            return torch.optim.lr_scheduler.StepLR(run.optimizer, 3)
        return torch.optim.lr_scheduler.OneCycleLR(
            run.optimizer, max_lr=RATE, total_steps=20, base_momentum=0.8)

    for kind, values in ((SGD, dict(momentum=0.9, weight_decay=0.01)),
                         (torch.optim.AdamW, {})):
        spec = SPARSE if kind is SGD else (
            "update:scale=auto+gtopk:0.05,warmup=2+momentum:0.6,dampening=0.6")
        whole = Run(rank, spec, kind, lr=RATE, **values)
        schedule = schedule_of(whole)
        whole.steps(5, schedule.step)
        with tempfile.TemporaryFile() as file:
            torch.save({"model": whole.model.module.state_dict(),
                        "optimizer": whole.optimizer.state_dict(),
                        "schedule": schedule.state_dict(),
                        "gradwire": whole.handle.state_dict()}, file)
            whole.steps(5, schedule.step)
            file.seek(0)
            saved = torch.load(file)
        for attach_first in (True, False):
            again = Run(rank, spec, kind, attach=attach_first, lr=RATE, **values)
            schedule = schedule_of(again)
            again.model.module.load_state_dict(saved["model"])
            # PyTorch 2 keeps the tensors that it is given.
            again.optimizer.load_state_dict(copy.deepcopy(saved["optimizer"]))
            schedule.load_state_dict(saved["schedule"])
            if not attach_first:  # the momentum is that of step 5 now
                again.attach(spec)
            again.handle.load_state_dict(saved["gradwire"])
            again.at = 5
            again.steps(5, schedule.step)
            assert torch.equal(whole.parameters(), again.parameters()), kind
            a, b = whole.handle.state_dict(), again.handle.state_dict()
            for memory in ("velocity", "residual", "reference"):
                for name in a.get(memory, ()):
                    assert torch.equal(a[memory][name], b[memory][name]), (memory, name)
            assert kind is SGD or (a["scale"] == b["scale"]).all() and a["scale"][0] > 1
            again.close()
        whole.close()


def resumes_with_others(rank, workers):
    """A state of another number of workers, and one for which the advice was another."""
    run = Run(rank, "gtopk:0.05", torch.optim.AdamW, lr=1e-3)
    state = run.handle.state_dict()
    assert state["asked"] == "gtopk:0.05" and "warmup=64" in state["spec"], state["spec"]
    other = dict(state, workers=1, spec=state["spec"].replace("warmup=64", "warmup=32"))
    run.handle.load_state_dict([other])
    assert run.handle.state_dict()["spec"] == state["spec"]
    foreign = dict(other, asked="gtopk:0.06")
    torch_crew.raises(gradwire.DataError, "was saved with 'update", lambda:
                      run.handle.load_state_dict([foreign]))
    run.close()


# ---- others --------------------------------------------------------------------


def decay_is_not_scaled(rank, workers):
    """Decay that AdamW applies to weights by itself is that of plain training, whatever the
    scale of changes: without gradients nothing else moves them."""
    def still(run):
        for _ in range(5):
            run.optimizer.zero_grad()
            (0 * run.model(torch.ones(2, 2, 8, 8))).sum().backward()
            run.optimizer.step()
        return run.parameters()

    settings = dict(lr=0.1, weight_decay=0.5)
    plain = still(Run(rank, None, torch.optim.AdamW, **settings))
    run = Run(rank, "update:start=0,scale=2+topk:1", torch.optim.AdamW, **settings)
    assert_close(plain, still(run), 1e-6)
    assert run.optimizer.param_groups[0]["weight_decay"] == 0.5
    run.close()


def beta1_is_shared(rank, workers):
    """What of Adam's beta1 the sync has is not in the optimizer while that steps, so that
    its mean of gradients is the last one here; and is there again afterwards."""
    run = Run(rank, "update:start=1+topk:0.5,warmup=9+momentum:0.9,dampening=0.9",
              torch.optim.Adam, lr=1e-3)
    weight = run.model.module[3].weight
    for step in range(4):
        run.steps(1)
        share = 0.1 if step == 0 else 1  # gradients are averaged in the first
        assert_close(share * weight.grad, run.optimizer.state[weight]["exp_avg"], 1e-6)
        assert run.optimizer.param_groups[0]["betas"] == (0.9, 0.999)
        assert_equal_on_all(run.parameters())
    run.close()


def adaptive(rank, workers):
    """Gradients are averaged at first, then each steps on its own; models are equal."""
    kinds = (torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad)
    for kind in kinds:
        run = Run(rank, "gtopk:0.05", kind, lr=1e-3)
        assert run.handle.spec.startswith("update:"), run.handle.spec
        run.steps(66 if kind is torch.optim.AdamW else 1)
        assert_equal_on_all(run.parameters())
        run.close()
    run = Run(rank, "update:start=3,scale=1.4+gtopk:0.05", torch.optim.AdamW, lr=1e-3)
    plain = Run(rank, None, torch.optim.AdamW, lr=1e-3)
    for step in range(10):
        run.steps(1)
        plain.steps(1)
        assert_equal_on_all(run.parameters())
        if step < 3:  # as plain DDP
            assert_close(plain.parameters(), run.parameters(), 1e-6)
        gradient = run.model.module[3].weight.grad
        other = gradient.clone()
        dist.broadcast(other, 0)
        assert torch.equal(gradient, other) == (step < 3 or rank == 0), step
    run.handle.finish()
    assert_equal_on_all(run.parameters())
    run.close()
    # The average of all changes of plain SGD is its step on the average.
    plain = Run(rank, lr=RATE).steps(6).parameters()
    ours = Run(rank, "update:start=2+topk:1", lr=RATE).steps(6)
    assert_close(plain, ours.close().parameters())


# ---- what is said --------------------------------------------------------------


def attached(rank, spec, kind=SGD, **settings):
    """(spec, lines, warnings) of an attach() on this worker."""
    run = Run(rank, kind=kind, lr=RATE, **settings)
    (_, lines, found) = heard(lambda: run.attach(spec))
    spec = run.handle.spec
    (_, more, later) = heard(lambda: run.steps(2))
    assert not more and not later, (more, later)
    run.close()
    assert rank == 0 or not lines and not found, (lines, found)
    assert all(w.filename == __file__ for w in found), found[0].filename
    return spec, lines, [str(w.message) for w in found]


def says_what_it_does(rank, workers):
    spec, lines, found = attached(rank, "gtopk:0.01", weight_decay=0.1)
    assert (spec, lines, found) == (gradwire.check_spec("gtopk:0.01"), [], []), spec
    run = Run(rank, kind=SGD, lr=RATE, momentum=0.9)
    _, lines, found = heard(lambda: run.attach("gtopk:0.001"))
    run.close()
    if rank == 0:
        assert lines == ["gradwire: 'gtopk:0.001' becomes 'gtopk:0.001,warmup=64,ladder=64,putback=keep"
                         "+momentum:0.9': the optimizer's momentum of 0.9 moves in front of the "
                         "selection, since entries are sent late"], lines
        assert len(found) == 1 and "so low a density" in str(found[0].message), found
    for spec, kind in (("dense", SGD), ("qsgd:4", torch.optim.Adam), ("local:2", SGD)):
        assert attached(rank, spec, kind)[1:] == ([], []), spec


def warns_of_clipping(rank, workers):
    run = Run(rank, ALL, lr=RATE, momentum=0.9, weight_decay=0.01)
    steps = []

    def clipped():
        run.backward()
        nn.utils.clip_grad_norm_(run.model.parameters(), 0.01)
        run.optimizer.step()
        run.at += 1

    for act in (lambda: run.steps(2), lambda: run.steps(2, closure=True), clipped, clipped):
        _, lines, found = heard(act)
        assert not lines
        steps.append([w for w in found if "gradients were changed" in str(w.message)])
    assert [len(found) for found in steps] == [0, 0, rank == 0, 0], steps
    assert rank != 0 or steps[2][0].filename == __file__, steps[2][0].filename
    run.close()


def leaves_alone(rank, workers):
    """momentum="off", and groups that one momentum does not fit."""
    def differ(net):
        return [{"params": net[0].parameters(), "momentum": 0.5},
                {"params": [*net[3].parameters(), *net[5].parameters()], "momentum": 0.9}]

    def others(net):
        return [*net.parameters(), nn.Parameter(torch.zeros(3))]

    asked = gradwire.check_spec("gtopk:0.05")
    for kind, moves, options, text in (
            (torch.optim.Adam, "off", {}, "Adam on top of gtopk:0.05 is known to cost"),
            (SGD, "off", {"groups": differ}, "momentum 0.9 on top of gtopk:0.05 is known"),
            (SGD, "auto", {"groups": differ}, "differ in momentum, 0.5 and 0.9"),
            (SGD, "auto", {"groups": others, "momentum": 0.9}, "1 parameters that DDP does "
             "not exchange"),
            (SGD, "auto", {"momentum": 1.0}, "a momentum of 1 is not between 0 and 1")):
        run = Run(rank, kind=kind, lr=RATE / 10, **options)
        _, lines, found = heard(lambda: run.attach("gtopk:0.05", moves))
        assert run.handle.spec == asked and not lines, (run.handle.spec, lines)
        assert rank != 0 or len(found) == 1 and text in str(found[0].message), found
        run.steps(2)
        if kind is SGD:  # which has its own velocity, then
            assert run.optimizer.state[run.model.module[3].weight]["momentum_buffer"].any()
        run.close()
    torch_crew.raises(ValueError, "momentum='no' is neither 'auto' nor 'off'",
                      lambda: Run(rank, "dense", moves="no", lr=RATE))


def advises(rank, workers):
    net = Net()
    advice = gradwire.advise("topk:0.01", SGD(net.parameters(), RATE, momentum=0.9), 4)
    assert advice.takes_momentum and advice.reason and not advice.warning, advice
    assert advice.spec == "topk:0.01,warmup=64,ladder=64+momentum:0.9", advice
    advice = gradwire.advise("topk:0.01", SGD(net.parameters(), RATE, momentum=0.9), 4, steps=200)
    assert "the first 256 steps" in advice.warning, advice
    advice = gradwire.advise("topk:0.01", torch.optim.Adam(net.parameters()), 4)
    assert not advice.takes_momentum and advice.spec == (
        "update:scale=auto+topk:0.01,warmup=64,ladder=64+momentum:0.6,dampening=0.6"), advice
    advice = gradwire.advise("topk:0.01", torch.optim.RMSprop(net.parameters()), 4)
    assert advice.spec == "update:scale=auto+topk:0.01,warmup=64,ladder=64", advice


CASES = [equals_sgd, equals_sgd_with_closure, follows_schedules, attaches_in_the_middle,
         keeps_the_values, resumes, resumes_with_others, decay_is_not_scaled, beta1_is_shared, adaptive,
         says_what_it_does, warns_of_clipping, leaves_alone, advises]

if __name__ == "__main__":
    torch_crew.main([case for case in CASES
                     if os.environ.get("CASE", case.__name__) == case.__name__], (2,))
