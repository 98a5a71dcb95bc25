# SPDX-License-Identifier: Apache-2.0
"""The user's optimizer: what kind it is, and what of SGD the sync does in its place.

    backward    gradient + weight decay -> sync: + momentum, selection, exchange
    step()      SGD without weight decay and momentum, on what came of it

The optimizer's groups keep their values, and have 0 only while a step runs. So schedules
write them and are followed, states of the optimizer have them, and after detach() there
is nothing to put back but the velocity.
"""
from __future__ import annotations

import contextlib
import warnings
import weakref
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence

import numpy as np
import torch

from ..errors import GradwireError
from ..spec import Advice, OptimizerKind, advise, needs_optimizer
from ..sync import Sync

Parameters = Mapping[str, torch.nn.Parameter]

# The least and the most that a sync takes for a momentum between 0 and 1.
_LEAST, _MOST = 1e-9, 1 - 1e-9


def _values(optimizer: torch.optim.Optimizer, key: str) -> List[float]:
    """What the groups have there, each value once."""
    return list(dict.fromkeys(float(g.get(key, 0)) for g in optimizer.param_groups))


def bare(optimizer: Any) -> Any:
    """The optimizer that steps, without the wrapper that Accelerate and Lightning give out."""
    while type(optimizer).__name__ in ("AcceleratedOptimizer", "LightningOptimizer"):
        optimizer = optimizer.optimizer
    return optimizer


def kind_of(optimizer: torch.optim.Optimizer) -> OptimizerKind:
    """SGD, with its largest momentum, is SGD; anything else is adaptive."""
    if not isinstance(optimizer, torch.optim.SGD):
        return OptimizerKind(adaptive=True, beta1=_least_beta1(optimizer))
    momentum = max(0.0, *_values(optimizer, "momentum"))
    dampening = max(0.0, *_values(optimizer, "dampening"))
    return OptimizerKind(momentum=min(momentum, _MOST), dampening=min(dampening, 1.0),
                         nesterov=any(_values(optimizer, "nesterov")))


def _has_beta1(optimizer: torch.optim.Optimizer) -> bool:
    """Whether betas[0] weighs a running mean of gradients that is the step, as others by
    that name may not."""
    return isinstance(optimizer, (torch.optim.Adam, torch.optim.AdamW))


def _least_beta1(optimizer: torch.optim.Optimizer) -> float:
    groups = optimizer.param_groups if _has_beta1(optimizer) else []
    values = [float(g["betas"][0]) for g in groups]
    return max(0.0, min(values)) if values and max(values) < 1 else 0.0


@contextlib.contextmanager
def fitted(optimizer: torch.optim.Optimizer, sync: Sync) -> Iterator[None]:
    """An optimizer whose changes of the model the sync exchanges steps without what the
    sync does: the sync multiplies changes by a scale, but AdamW's decay of weights must
    not become stronger by it; and it has some of Adam's beta1."""
    groups = optimizer.param_groups if _has_beta1(optimizer) else []
    held = [{k: g[k] for k in ("betas", "weight_decay")} for g in groups]
    scale, lent = sync.scale, sync.momentum
    try:
        for group in groups:
            if isinstance(optimizer, torch.optim.AdamW):
                group["weight_decay"] = group["weight_decay"] / scale
            if lent:
                first, *others = group["betas"]
                group["betas"] = (max(float(first) - lent, 0.0), *others)
        yield
    finally:
        for group, values in zip(groups, held):
            group.update(values)


# ---- what is made of a spec ----------------------------------------------------


class Plan(NamedTuple):
    spec: str
    moved: Optional[Moved] = None
    line: str = ""     # what was changed
    warning: str = ""  # what is known to cost accuracy


def plan(spec: str, optimizer: Optional[torch.optim.Optimizer], workers: int,
         momentum: str, parameters: Parameters) -> Plan:
    """Takes the library's advice, or says why not."""
    if momentum not in ("auto", "off"):
        raise ValueError(f"momentum='{momentum}' is neither 'auto' nor 'off'")
    if optimizer is None:
        return Plan(spec)
    advice = advise(spec, kind_of(optimizer), workers)
    _refuse_two_exchanges(optimizer, spec, spec if momentum == "off" else advice.spec)
    if momentum == "off":
        return Plan(spec, warning=_warning_of_off(spec, optimizer, advice))
    why = _obstacle(optimizer, parameters) if advice.takes_momentum else ""
    if why:
        return Plan(spec, warning=f"momentum stays in the optimizer, where it costs accuracy "
                    f"with {spec}, because {why} (docs/pytorch.md)")
    moved = Moved(optimizer, parameters) if advice.takes_momentum else None
    line = f"'{spec}' becomes '{advice.spec}': {advice.reason}" if advice.reason else ""
    return Plan(advice.spec, moved, line, advice.warning)


def _exchanges_models(optimizer: torch.optim.Optimizer) -> bool:
    """Whether it does so in step(). It is known by its name, so that nobody has to import
    it."""
    return any(kind.__name__ == "ZeroRedundancyOptimizer" for kind in type(optimizer).__mro__)


def _refuse_two_exchanges(optimizer: torch.optim.Optimizer, asked: str, spec: str) -> None:
    """An optimizer that makes the workers' models equal in step() leaves nothing to
    exchange after it."""
    if not (needs_optimizer(spec) and _exchanges_models(optimizer)):
        return
    what = (f"'{asked}' does, too; take a method that exchanges gradients" if needs_optimizer(asked)
            else f"'{spec}' would do, too; give attach() momentum='off' to use '{asked}' as it is")
    raise ValueError(f"ZeroRedundancyOptimizer exchanges models itself, which {what}")


def _warning_of_off(spec: str, optimizer: torch.optim.Optimizer, advice: Advice) -> str:
    adaptive = not isinstance(optimizer, torch.optim.SGD)
    if not advice.takes_momentum and not (adaptive and advice.reason):
        return advice.warning
    name = type(optimizer).__name__ if adaptive else (
        f"momentum {max(_values(optimizer, 'momentum')):g}")
    remedy = ("the remedy exchanges models, as it does itself" if _exchanges_models(optimizer)
              else f"'{advice.spec}' is what momentum='auto' would take")
    return f"{name} on top of {spec} is known to cost accuracy; {remedy} (docs/choosing.md)"


def _obstacle(optimizer: torch.optim.Optimizer, parameters: Parameters) -> str:
    """Why the sync cannot do this SGD's momentum; "" if it can."""
    for key in ("momentum", "dampening", "nesterov"):
        values = _values(optimizer, key)
        if len(values) > 1:
            return (f"its groups differ in {key}, " +
                    " and ".join(f"{v:g}" for v in values))
        limit = _MOST if key == "momentum" else 1
        if not 0 <= values[0] <= limit:
            return f"a {key} of {values[0]:g} is not between 0 and 1"
    exchanged = {id(p) for p in parameters.values()}
    others = sum(p.requires_grad and id(p) not in exchanged
                 for group in optimizer.param_groups for p in group["params"])
    return f"it has {others} parameters that DDP does not exchange" if others else ""


# ---- momentum and weight decay in the sync -------------------------------------


class Moved:
    """Momentum and weight decay of an SGD, which the sync does while this is in use."""

    def __init__(self, optimizer: torch.optim.SGD, parameters: Parameters):
        self._optimizer = weakref.ref(optimizer)
        self._parameters = parameters
        self.held: List[Dict[str, Any]] = []  # values of the groups during a step
        self._decay: Dict[int, float] = {}     # by id of the parameter
        self._told = False
        self._noted: Optional[torch.Tensor] = None  # what backward left in the smallest
        self._smallest = min(parameters.values(), key=lambda p: p.numel())
        self.momentum = _LEAST
        self.rate = 0.0  # of the first group; schedules change all groups alike
        self.read()

    def read(self) -> None:
        """Looks what the groups say now: a schedule may have changed it."""
        optimizer = self._optimizer()
        if optimizer is None:
            return
        groups = optimizer.param_groups
        values = self.held or [{k: g[k] for k in ("momentum", "weight_decay")} for g in groups]
        self.momentum = max(float(values[0]["momentum"]), _LEAST)
        self.rate = float(groups[0]["lr"])
        if not self._told and any(v["momentum"] != values[0]["momentum"] for v in values):
            self._told = True
            warnings.warn("the optimizer's groups differ in momentum now; all have that of "
                          f"the first, {self.momentum:g}")
        self._decay = {id(p): -v["weight_decay"] if g.get("maximize") else v["weight_decay"]
                       for g, v in zip(groups, values) if v["weight_decay"]
                       for p in g["params"]}

    @torch.no_grad()
    def add_decay(self, buffer: torch.Tensor, parameters: Sequence[torch.Tensor],
                  gradients: Sequence[torch.Tensor]) -> None:
        """Adds what SGD adds to gradients before its momentum."""
        if not self._decay:
            return
        for p, g in zip(parameters, gradients):
            if id(p) in self._decay:
                # DDP lays a gradient out as its parameter is laid out.
                place = g if p.is_contiguous() else buffer.as_strided(
                    p.shape, p.stride(), g.storage_offset())
                place.add_(p.detach(), alpha=self._decay[id(p)])

    @torch.no_grad()
    def add_decay_to(self, p: torch.nn.Parameter) -> None:
        """The same for a gradient that lies in p.grad."""
        if id(p) in self._decay:
            local(p.grad).add_(local(p.detach()), alpha=self._decay[id(p)])

    def note(self) -> None:
        """After backward: what the optimizer should find."""
        gradient = self._smallest.grad
        self._noted = None if gradient is None else local(gradient).clone()

    def changed(self) -> bool:
        """Whether somebody has changed gradients since backward, such as by clipping."""
        noted, self._noted = self._noted, None
        now = self._smallest.grad
        return noted is not None and now is not None and not torch.equal(noted, local(now))

    @contextlib.contextmanager
    def left_out(self) -> Iterator[None]:
        """The optimizer steps without momentum and weight decay meanwhile."""
        optimizer = self._optimizer()
        groups = optimizer.param_groups if optimizer is not None else []
        held = [{k: g[k] for k in ("momentum", "weight_decay")} for g in groups]
        self.held = held
        try:
            for group in groups:
                group.update(momentum=0, weight_decay=0)
            yield
        finally:
            self.held = []
            for group, values in zip(groups, held):
                group.update(values)

    # ---- the velocity ----------------------------------------------------------

    def _sign(self) -> Dict[int, float]:
        """SGD has velocities of gradients that it turns round to maximize."""
        optimizer = self._optimizer()
        groups = optimizer.param_groups if optimizer is not None else []
        return {id(p): -1.0 if g.get("maximize") else 1.0
                for g in groups for p in g["params"]}

    @torch.no_grad()
    def hand_over(self, sync: Sync) -> None:
        """Gives the sync the velocity of an optimizer that has made steps already. All
        workers call it together; they take worker 0's."""
        optimizer, sign = self._optimizer(), self._sign()
        vector = np.zeros(sync.floats, np.float32)
        for part in sync.parts:
            p = self._parameters[part.name]
            velocity = optimizer.state.get(p, {}).pop("momentum_buffer", None)
            if velocity is not None:
                laid_out = torch.empty_like(local(p)).copy_(local(velocity))
                vector[part.offset:part.offset + part.size] = _flat(
                    laid_out.mul_(sign[id(p)])).float().cpu()
        if any(sync.comm.allgather(b"1" if vector.any() else b"", limit=1)):
            sync.remember("velocity", vector)

    @torch.no_grad()
    def give_back(self, sync: Sync) -> None:
        """Gives the optimizer the velocity, unless a failure has spoiled it."""
        optimizer, sign = self._optimizer(), self._sign()
        try:
            held = sync.state_dict()
        except (GradwireError, ValueError):
            return
        if optimizer is None or held["step"] == 0:
            return
        for name, p in self._parameters.items():
            if id(p) in sign and name in held["velocity"]:
                velocity = torch.empty_like(p)
                _flat(local(velocity)).copy_(
                    torch.from_numpy(held["velocity"][name].reshape(-1)))
                optimizer.state[p]["momentum_buffer"] = velocity.mul_(sign[id(p)])


def local(tensor: torch.Tensor) -> torch.Tensor:
    """What this worker has of a tensor: its shard, if FSDP has sharded it."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """Its numbers as they lie in memory."""
    return tensor.as_strided((tensor.numel(),), (1,))
