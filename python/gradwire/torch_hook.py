# SPDX-License-Identifier: Apache-2.0
"""attach(): DistributedDataParallel with gradwire's exchange.

    autograd thread          thread of the comm                library's own threads
    bucket ready -> hook ->  dense: parts are handed on   ->   exchange beside backward
    last bucket  -> hook ->  the whole vector is exchanged
    end of backward waits,
    raises what went wrong

The model is one vector, whatever DDP's buckets are (arrangement.py); what is remembered
belongs to parameters and stays with them.
"""
from __future__ import annotations

import hashlib
import sys
import types
import warnings
import weakref
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from .agreement import Agreement
from .connect import connect
from .exchange import Exchange
from .optimizer import Moved, Plan, Stepper, plan
from .spec import check_spec, describe, needs_optimizer
from .sync import Sync


class Handle:
    """What attach() returns: statistics, state, and the way back."""

    def __init__(self, model: DistributedDataParallel, sync: Sync, exchange: Exchange,
                 asked: str, stepper: Optional[Stepper] = None,
                 moved: Optional[Moved] = None):
        self._model = weakref.ref(model)
        self._sync = sync
        self._exchange = exchange
        self._asked = asked
        self._stepper = stepper
        self._moved = moved
        self._closed = False

    @property
    def spec(self) -> str:
        """The spec with every choice made."""
        return self._open().spec

    @property
    def rank(self) -> int:
        return self._open().comm.rank

    @property
    def workers(self) -> int:
        return self._open().comm.workers

    def _open(self) -> Sync:
        if self._closed:
            raise RuntimeError("this handle is detached")
        return self._sync

    def stats(self) -> Dict[str, float]:
        """Sums over all steps so far, for this worker: steps, skipped, bytes_sent,
        bytes_received, messages_sent, messages_received, encode_seconds,
        wait_seconds, decode_seconds; and of gtopk with putback=paper lost_mass and
        applied_mass, which are 0 for all others."""
        return self._open().stats()

    def residual_norm(self) -> float:
        """The Euclidean norm of what this worker has not sent yet."""
        return self._open().residual_norm()

    def finish(self) -> None:
        """Ends the training: recipes that let models differ leave their average in the
        parameters. All workers call it together."""
        self._open()
        self._exchange.finish()

    def state_dict(self) -> Dict[str, Any]:
        """Everything this worker remembers, by the names of the parameters. Every worker
        saves its own, between steps: after one that ended in the middle it raises."""
        sync = self._open()
        self._exchange.note_half_steps()
        return {key: _to_torch(value) for key, value in sync.state_dict().items()} | {
            "order": [part.name for part in sync.parts], "asked": self._asked}

    def load_state_dict(self, states: Union[Mapping[str, Any],
                                            Sequence[Mapping[str, Any]]]) -> None:
        """Goes on where workers stopped. Each worker gives one state, every worker
        another's; or all give the list of all, which may have been saved by another
        number of workers. All workers call it together, and it fails on all."""
        sync = self._open()
        plain: Any = None
        order: List[str] = []
        try:
            plain = self._own(states) if isinstance(states, Mapping) else [
                self._own(s) for s in states]
            order = _order_of(plain if isinstance(plain, Mapping) else plain[0], sync)
        except Exception:  # the sync complains of it, on all workers
            pass
        # The same order gives the same bits.
        digest = hashlib.sha256("\n".join(order).encode()).digest() if order else b""
        if set(sync.comm.allgather(digest, limit=32)) == {digest} and digest:
            self._exchange.pin(order)
        sync.load_state_dict(states if plain is None else plain)

    def _own(self, state: Mapping[str, Any]) -> Any:
        """A state in arrays. What advice has put into the spec may have other numbers
        than here, since it follows the number of workers and a schedule's momentum."""
        found, spec = _to_numpy(state), check_spec(self._sync.asked)
        if found.get("asked") == self._asked and (
                describe(found["spec"]).stages == describe(spec).stages):
            found["spec"] = spec
        return found

    def detach(self) -> None:
        """Back to plain DDP and to the optimizer's own step, which has its momentum
        again. What was not sent yet is dropped. attach() works again afterwards."""
        if self._closed:
            return
        self._closed = True
        model = self._model()
        if model is not None:
            _switches[model].handle = None
            _allow_join(model)
        if self._stepper is not None:
            self._stepper.undo()
        if self._moved is not None:
            self._moved.give_back(self._sync)
        self._exchange.close()
        self._sync.comm.close()


class _Switch:
    """DDP takes one hook for good; this is its state, and says what it does now. A copy
    of the model has a hook of its own to take, so a copy of this does nothing."""

    def __init__(self, group: Any = None):
        self.group = group
        self.handle: Optional[Handle] = None

    def __reduce__(self) -> Any:
        return _Switch, ()


# Not in the model itself: its copies are not attached.
_switches: "weakref.WeakKeyDictionary[Any, _Switch]" = weakref.WeakKeyDictionary()


# DDP reads annotations of hooks and does not understand postponed ones: none here.
def _hook(switch, bucket):  # type: ignore[no-untyped-def]
    if switch.handle is not None:
        return switch.handle._exchange.bucket(bucket)
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
    return allreduce_hook(switch.group, bucket)


def _refuse_join(model: DistributedDataParallel) -> None:
    """Makes model.join() fail at once: it lets a worker that has no more data take part
    in DDP's own exchange, and gradwire's is another. A bound method is copied, and
    saved, as the copy's own."""
    def join_hook(self: Any, **options: Any) -> Any:
        switch = _switches.get(self)
        if switch is not None and switch.handle is not None:
            raise RuntimeError("model.join() does not go with gradwire, which needs every "
                               "worker in every step: give all workers as many batches, "
                               "or detach() first")
        return type(self).join_hook(self, **options)

    model.join_hook = types.MethodType(join_hook, model)  # type: ignore[method-assign]


def _allow_join(model: DistributedDataParallel) -> None:
    model.__dict__.pop("join_hook", None)


# ---- attach --------------------------------------------------------------------


def attach(model: DistributedDataParallel, spec: str,
           optimizer: Optional[torch.optim.Optimizer] = None, *,
           momentum: str = "auto", nonfinite: str = "stop", seed: int = 0,
           timeout: float = 60.0, address: Optional[str] = None,
           link: Optional[str] = None) -> Handle:
    """Makes `model` exchange gradients, or models, as `spec` says. All workers of its
    process group call it together, before the first step.

    optimizer  give it always: the spec is then made to fit it (gradwire.advise()). Needed
               by specs that exchange models (gradwire.needs_optimizer() says which), whose
               step is wrapped, and by nonfinite="skip"
    momentum   "auto" takes that advice, "off" takes the spec as it is
    nonfinite  what to do about NaN or infinity in a gradient: "stop" raises on every
               worker; "skip" leaves out the step on every worker; "ignore" does not look
    seed       of stochastic rounding, the same on every worker
    timeout    seconds without an answer after which a worker is given up
    address    by which other hosts reach this one, if the guess is wrong
    link       behave like a network such as "100mbit,1ms" (workers on one machine)
    """
    _check_model(model)
    group = model.process_group
    agreement = Agreement(group, _device(model))
    with agreement:
        check_spec(spec)
        _check_use(model, spec, optimizer, nonfinite)
        made = plan(spec, optimizer, agreement.workers, momentum, _parameters(model))
    agreement.raise_on_all()
    comm = connect(agreement.rank, agreement.workers, agreement.exchange, timeout=timeout,
                   address=address)
    try:
        names = _parameters(model)
        with agreement.telling(comm):
            if link is not None:
                comm.link(link)
        sync = Sync([(name, tuple(p.shape)) for name, p in names.items()], made.spec, comm,
                    nonfinite=nonfinite, seed=seed)
        with agreement.telling(comm):
            _register_hook(model, group)
            exchange = Exchange(sync, names, made.moved)
        if needs_optimizer(made.spec):
            exchange.start()
        if made.moved is not None:
            made.moved.hand_over(sync)
        comm.barrier()
    except BaseException:
        comm.close()
        raise
    if comm.rank == 0:
        _tell(made)
    stepper = None if optimizer is None else Stepper(optimizer, exchange, made.moved)
    handle = Handle(model, sync, exchange, spec, stepper, made.moved)
    _switches[model].handle = handle
    _refuse_join(model)
    return handle


def _tell(plan: Plan) -> None:
    """What was made of the spec, and what is known to cost accuracy."""
    if plan.line:
        print(f"gradwire: {plan.line}", file=sys.stderr, flush=True)
    if plan.warning:
        warnings.warn(plan.warning, stacklevel=4)


def _check_model(model: Any) -> None:
    if not isinstance(model, DistributedDataParallel):
        raise ValueError("attach() wants a DistributedDataParallel model, not "
                         f"{type(model).__name__}")
    if not dist.is_initialized():
        raise RuntimeError("there is no process group: call "
                           "torch.distributed.init_process_group() first")
    switch = _switches.get(model)
    if switch is not None and switch.handle is not None:
        raise RuntimeError("gradwire is attached to this model already: call detach() "
                           "of the handle first")


def _check_use(model: DistributedDataParallel, spec: str, optimizer: Any,
               nonfinite: str) -> None:
    devices = {p.device.type for p in _parameters(model).values()}
    if len(devices) > 1:
        raise ValueError("the parameters are on " + " and ".join(sorted(devices)) +
                         ": gradwire wants all of a model in one place")
    if not devices <= {"cpu", "cuda"}:
        raise ValueError(f"parameters on {devices.pop()} are not supported: gradwire "
                         "knows cpu and cuda")
    if optimizer is None and needs_optimizer(spec):
        raise ValueError(f"'{spec}' exchanges models after each step of the optimizer: "
                         "give it, attach(model, spec, optimizer)")
    if optimizer is None and nonfinite == "skip":
        raise ValueError("nonfinite='skip' leaves out steps of the optimizer: give it, "
                         "attach(model, spec, optimizer)")
    if optimizer is not None and not isinstance(optimizer, torch.optim.Optimizer):
        raise ValueError("the optimizer is a torch.optim.Optimizer, not "
                         f"{type(optimizer).__name__}")
    for name, module in model.module.named_modules():
        if isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag)) and module.sparse:
            raise ValueError(f"'{name}' has sparse gradients, which DDP does not hand "
                             "to hooks: make it without sparse=True")


def _parameters(model: DistributedDataParallel) -> Dict[str, torch.nn.Parameter]:
    """What DDP exchanges, by name."""
    ignored = getattr(model, "parameters_to_ignore", ())
    return {name: p for name, p in model.module.named_parameters()
            if p.requires_grad and name not in ignored}


def _register_hook(model: DistributedDataParallel, group: Any) -> None:
    """Registers the hook, once in the life of the model."""
    if model in _switches:
        return
    switch = _Switch(group)
    try:
        model.register_comm_hook(switch, _hook)
    except RuntimeError as error:
        raise RuntimeError("this model has another communication hook, and DDP takes "
                           f"one only: attach gradwire instead of it ({error})") from None
    _switches[model] = switch


def _device(model: DistributedDataParallel) -> Any:
    return next((p.device for p in model.parameters()), torch.device("cpu"))


# ---- states --------------------------------------------------------------------


def _order_of(state: Mapping[str, Any], sync: Sync) -> List[str]:
    """The order of the tensors in a saved state; [] if it is not one of this model's."""
    order = list(state["order"])
    return order if sorted(order) == sorted(part.name for part in sync.parts) else []


def _to_torch(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _to_torch(v) for k, v in value.items()}
    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value


def _to_numpy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _to_numpy(v) for k, v in value.items()}
    return value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else value
