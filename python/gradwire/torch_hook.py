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
    """What attach() returns. It gives statistics and states, and detaches."""

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
        """The spec with all defaults written out."""
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
        """Returns this worker's totals over all steps so far: steps, skipped, bytes_sent,
        bytes_received, messages_sent, messages_received, encode_seconds, wait_seconds and
        decode_seconds; and lost_mass and applied_mass, which are 0 except for gtopk with
        putback=paper."""
        return self._open().stats()

    def residual_norm(self) -> float:
        """Returns the Euclidean norm of what this worker has not sent yet."""
        return self._open().residual_norm()

    def health(self) -> Dict[str, Any]:
        """How the residual of this worker is doing, as last measured: step,
        residual_norm, vector_norm, growth since step `since`, runs_away, warning. Worker
        0 gives that warning by itself, once."""
        return self._open().health()

    def log(self, writer: Any, step: int) -> None:
        """Writes this worker's figures as "gradwire/NAME" to a TensorBoard SummaryWriter, or
        to a W&B run or its module: bytes_sent, bytes_per_step, wait_seconds,
        encode_seconds, decode_seconds, skipped, and residual_norm as last measured. All are
        totals except the last and bytes_per_step, the mean of all steps so far."""
        stats = self.stats()
        names = ("bytes_sent", "wait_seconds", "encode_seconds", "decode_seconds", "skipped")
        figures = {f"gradwire/{name}": float(stats[name]) for name in names}
        figures["gradwire/bytes_per_step"] = stats["bytes_sent"] / max(1, stats["steps"])
        figures["gradwire/residual_norm"] = float(self.health()["residual_norm"])
        if hasattr(writer, "add_scalar"):
            for name, value in figures.items():
                writer.add_scalar(name, value, step)
        elif hasattr(writer, "log"):
            writer.log(figures, step=step)
        else:
            raise TypeError("log() takes a TensorBoard SummaryWriter or a W&B run, not "
                            f"{type(writer).__name__}")

    def finish(self) -> None:
        """Ends the training. Methods that let models differ leave their average in the
        parameters. All workers call it together."""
        self._open()
        self._exchange.finish()

    def state_dict(self) -> Dict[str, Any]:
        """Returns everything this worker remembers, by the names of the parameters. Every
        worker saves its own, between steps. Raises GradwireError if the last step is
        incomplete."""
        sync = self._open()
        self._exchange.note_half_steps()
        return {key: _to_torch(value) for key, value in sync.state_dict().items()} | {
            "order": [part.name for part in sync.parts], "asked": self._asked}

    def load_state_dict(self, states: Union[Mapping[str, Any],
                                            Sequence[Mapping[str, Any]]]) -> None:
        """Continues from saved states. Either each worker gives one state, every worker
        another one; or all workers give the list of all states, which another number of
        workers may have saved. All workers call it together, and it fails on all of
        them."""
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
        """Restores plain DDP and the optimizer's own step, which has its momentum again.
        The residual is dropped. attach() can be called again afterwards."""
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
    """DDP keeps a hook forever, so this hook is switched on and off. A copy of the model
    needs a hook of its own, so a copy of this one does nothing."""

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
    """Makes model.join() fail at once. It would let a worker without data take part in
    DDP's own exchange, but not in gradwire's. A bound method is copied, and saved, as the
    copy's own."""
    def join_hook(self: Any, **options: Any) -> Any:
        switch = _switches.get(self)
        if switch is not None and switch.handle is not None:
            raise RuntimeError("model.join() cannot be used with gradwire, which needs "
                               "every worker in every step; give all workers the same "
                               "number of batches, or call detach() first")
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
    """Makes `model` exchange gradients or models as `spec` describes. All workers of its
    process group call it together, before the first step. Returns a Handle.

    optimizer  Always pass it: attach() then adapts the spec to it (gradwire.advise()). It is
               required by nonfinite="skip" and by specs that exchange models
               (gradwire.needs_optimizer() tells which); its step() is wrapped.
    momentum   "auto" follows that advice; "off" uses the spec unchanged.
    nonfinite  What to do about NaN or infinity in a gradient: "stop" raises on every worker,
               "skip" skips the step on every worker, "ignore" does not check.
    seed       The seed of stochastic rounding, the same on every worker.
    timeout    After so many seconds without an answer, a worker counts as dead.
    address    The address by which other hosts reach this one, if gradwire guesses wrong.
    link       Emulates a network such as "100mbit,1ms", for workers on one machine."""
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
    """Tells the user which spec is used instead, and what is known to cost accuracy."""
    if plan.line:
        print(f"gradwire: {plan.line}", file=sys.stderr, flush=True)
    if plan.warning:
        warnings.warn(plan.warning, stacklevel=4)


def _check_model(model: Any) -> None:
    if not isinstance(model, DistributedDataParallel):
        raise ValueError("attach() needs a DistributedDataParallel model, not "
                         f"{type(model).__name__}")
    if not dist.is_initialized():
        raise RuntimeError("there is no process group; call "
                           "torch.distributed.init_process_group() first")
    switch = _switches.get(model)
    if switch is not None and switch.handle is not None:
        raise RuntimeError("gradwire is already attached to this model; call detach() of "
                           "its handle first")


def _check_use(model: DistributedDataParallel, spec: str, optimizer: Any,
               nonfinite: str) -> None:
    devices = {p.device.type for p in _parameters(model).values()}
    if len(devices) > 1:
        raise ValueError("the parameters are on " + " and ".join(sorted(devices)) +
                         "; gradwire needs the whole model on one device")
    if not devices <= {"cpu", "cuda"}:
        raise ValueError(f"parameters on {devices.pop()} are not supported; gradwire "
                         "supports cpu and cuda")
    if optimizer is None and needs_optimizer(spec):
        raise ValueError(f"'{spec}' exchanges models after the optimizer's steps; pass the "
                         "optimizer, as in attach(model, spec, optimizer)")
    if optimizer is None and nonfinite == "skip":
        raise ValueError("nonfinite='skip' skips steps of the optimizer; pass the "
                         "optimizer, as in attach(model, spec, optimizer)")
    if optimizer is not None and not isinstance(optimizer, torch.optim.Optimizer):
        raise ValueError("the optimizer must be a torch.optim.Optimizer, not "
                         f"{type(optimizer).__name__}")
    for name, module in model.module.named_modules():
        if isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag)) and module.sparse:
            raise ValueError(f"'{name}' has sparse gradients, which DDP does not pass to "
                             "hooks; create it without sparse=True")


def _parameters(model: DistributedDataParallel) -> Dict[str, torch.nn.Parameter]:
    """Returns the parameters that DDP exchanges, by name."""
    ignored = getattr(model, "parameters_to_ignore", ())
    return {name: p for name, p in model.module.named_parameters()
            if p.requires_grad and name not in ignored}


def _register_hook(model: DistributedDataParallel, group: Any) -> None:
    """Registers the hook, once for each model."""
    if model in _switches:
        return
    switch = _Switch(group)
    try:
        model.register_comm_hook(switch, _hook)
    except RuntimeError as error:
        raise RuntimeError("this model already has a communication hook, and DDP accepts "
                           f"only one; attach gradwire instead of it ({error})") from None
    _switches[model] = switch


def _device(model: DistributedDataParallel) -> Any:
    return next((p.device for p in model.parameters()), torch.device("cpu"))


# ---- states --------------------------------------------------------------------


def _order_of(state: Mapping[str, Any], sync: Sync) -> List[str]:
    """Returns the order of the tensors in a saved state, or [] if the state is not one of
    this model."""
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
