# SPDX-License-Identifier: Apache-2.0
"""attach(): a PyTorch model trains with gradwire's exchange.

What kind of model it is decides where its gradients come from (carrier.py). The rest is
the same for all kinds: workers agree that they can, connect, make a sync for the
parameters, and follow the optimizer's steps.
"""
from __future__ import annotations

import contextlib
import sys
import warnings
from typing import Any, Dict, Iterator, List, Optional, Sequence

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from .models.agreement import Agreement, CommAgreement, GroupAgreement
from .models.carrier import Carrier, attached, look_through, refuse
from .comm import Comm
from .joining.group import Group
from .joining.connect import connect
from .joining.view_sync import ViewSync
from .models.ddp import DDP
from .models.device import DeviceSync
from .models.group_transport import group_comm
from .models.handle import Handle
from .models.lasting import Baggage, Lasting
from .models.optimizer import Plan, bare, local, plan
from .models.plain import Plain
from .models.run_log import RunLog, about_of
from .models.sharded import Sharded, is_sharded
from .spec import check_spec, describe, needs_optimizer
from .sync import Sync

__all__ = ["Handle", "attach"]


def attach(model: torch.nn.Module, spec: str,
           optimizer: Optional[torch.optim.Optimizer] = None, *,
           group: Any = None, mesh: Any = None, comm: Optional[Comm] = None,
           momentum: str = "auto", nonfinite: str = "stop", seed: int = 0,
           find_unused_parameters: bool = False, residual: str = "auto",
           timeout: float = 60.0, address: Optional[str] = None,
           transport: str = "sockets", link: Optional[str] = None, log: Optional[str] = None,
           shared: Sequence[Any] = ()) -> Handle:
    """Makes `model` exchange gradients or models as `spec` describes. All workers call it
    together, before the first step. Returns a Handle.

    model      A DistributedDataParallel model, or any other module, which needs no wrapper:
               it begins with worker 0's parameters, and backward() leaves averages in its
               gradients, as with DDP. Both may be compiled by torch.compile(). Or a model
               that fully_shard() has sharded over the workers of one replica.
    optimizer  Always pass it: attach() then adapts the spec to it (gradwire.advise()). It is
               required by nonfinite="skip" and by specs that exchange models
               (gradwire.needs_optimizer() tells which).
    group      The process group of a module without DDP; by default all workers of
               torch.distributed. Or a job of gradwire.join(), which needs none of that, and
               whose workers may die, join and leave: the training goes on
               (docs/elastic.md). Workers that join take the model and the optimizer's
               state from others.
    mesh       The same as a DeviceMesh of one dimension, such as mesh["replicate"]. A model
               of fully_shard() needs it: these are the workers with the same shards.
    comm       A connection of gradwire's own (gradwire.rendezvous(), LocalGroup) in place of
               a process group, for a module without DDP. torch.distributed is not needed
               then. It stays open after detach().
    momentum   "auto" follows the advice; "off" uses the spec unchanged.
    nonfinite  What to do about NaN or infinity in a gradient: "stop" raises on every worker,
               "skip" skips the step on every worker, "ignore" does not check.
    seed       The seed of stochastic rounding, the same on every worker.
    find_unused_parameters
               For a module without DDP that uses some parameters only in some steps: workers
               tell each other in every step which ones they have used.
    residual   Where entries are selected and what is not sent waits: "host", or the model's
               own "device", so that only entries cross to the host; "auto" is "device" for
               a model on a GPU. Specs that cannot select there use the host, and say so.
    timeout    After so many seconds without an answer, a worker counts as dead.
    address    The address by which other hosts reach this one, if gradwire guesses wrong.
    transport  "sockets": gradwire's own connections. "group": messages travel through the
               process group, which must be one for host memory, such as Gloo's.
    link       Emulates a network such as "100mbit,1ms", for workers on one machine.
    log        A directory for the figures of this run, which `gradwire report` shows; worker
               0 writes it. handle.record(loss=...) adds what gradwire does not see.
    shared     With a job of gradwire.join(): objects with state_dict() and load_state_dict(),
               such as schedules, whose states go to workers that join, too."""
    optimizer = bare(optimizer)
    if isinstance(group, Group):
        _group(group, mesh, comm)
        if find_unused_parameters or transport != "sockets" or link is not None or log is not None or (
                residual == "device"):
            raise ValueError("find_unused_parameters=, transport=, link=, log= and residual='device' need "
                             "workers that do not change; give attach() comm=group.comm for that")
        return _attach_to_job(model, spec, optimizer, group, momentum, list(shared),
                              nonfinite=nonfinite, seed=seed)
    if shared:
        raise ValueError("shared= is for workers that join, and needs group=gradwire.join(...)")
    carrier = _carrier(model, _group(group, mesh, comm), comm, find_unused_parameters)
    agreement = _agreement(carrier, comm)
    with agreement:
        check_spec(spec)
        _check_use(carrier, spec, optimizer, nonfinite)
        if residual not in ("auto", "host", "device"):
            raise ValueError(f"invalid residual='{residual}'; expected 'auto', 'host' or 'device'")
        if transport not in ("sockets", "group"):
            raise ValueError(f"invalid transport='{transport}'; expected 'sockets' or 'group'")
        if comm is not None and transport == "group":
            raise ValueError("transport='group' uses a process group; give attach() no comm=")
        made = plan(spec, optimizer, agreement.workers, momentum, carrier.parameters())
        if comm is not None and link is not None:
            raise ValueError("link= emulates a network for connections that attach() makes; "
                             "call comm.link() instead")
    agreement.raise_on_all()
    with _connected(agreement, comm, timeout, address, transport) as line:
        names = carrier.parameters()
        with agreement.telling(line):
            if link is not None:
                line.link(link)
        sync = _sync(names, made.spec, line, residual, nonfinite=nonfinite, seed=seed)
        with agreement.telling(line):
            exchange = carrier.make_exchange(sync, names, made.moved)
        if needs_optimizer(made.spec):
            exchange.start()
        if made.moved is not None:
            made.moved.hand_over(sync)
        line.barrier()
    if line.rank == 0:
        _tell(made)
    handle = Handle(carrier, sync, exchange, spec, owns_comm=comm is None)
    handle._follow(optimizer, made.moved)
    if log is not None and line.rank == 0:
        about = about_of(sync, spec, carrier.module, optimizer, seed)
        handle._write_log(RunLog(log, handle, about))
    return handle


def _attach_to_job(model: torch.nn.Module, spec: str, optimizer: Any, group: Group, momentum: str,
                   shared: List[Any], **options: Any) -> Handle:
    """Others may have trained for long already, so nobody waits for this worker here. If it
    cannot take part, it leaves."""
    try:
        carrier = _carrier(model, None, group, False)
        if not isinstance(carrier, Plain):
            raise ValueError("group=gradwire.join(...) needs a module without DDP and fully_shard()")
        check_spec(spec)
        _check_use(carrier, spec, optimizer, options["nonfinite"])
        names = carrier.parameters()
        # The same for all workers, whenever they come.
        made = plan(spec, optimizer, max(2, *group.limits), momentum, names)
        baggage = Baggage(carrier.model, list(names), optimizer, made.moved, shared)
        layout = [(name, tuple(p.shape)) for name, p in names.items()]
        sync = ViewSync(layout, made.spec, group, pack=baggage.pack, unpack=baggage.unpack, **options)
        exchange = Lasting(sync, names, made.moved, baggage)
        exchange.enter()
    except BaseException:
        group.leave()
        raise
    if sync.comm.rank == 0 and exchange.steps == 0:
        _tell(made)
    handle = Handle(carrier, sync, exchange, spec, owns_comm=False)
    handle._follow(optimizer, made.moved)
    return handle


def _sync(parameters: Dict[str, torch.nn.Parameter], spec: str, line: Comm, residual: str,
          **options: Any) -> Sync:
    """The sync, with its residual where it belongs. Says so if that cannot be."""
    layout = [(name, tuple(local(p.detach()).shape)) for name, p in parameters.items()]
    device = next(iter(parameters.values())).device
    if residual == "host" or (residual == "auto" and device.type == "cpu"):
        return Sync(layout, spec, line, **options)
    sync = DeviceSync(layout, spec, line, device, **options)
    if sync.residual is None and line.rank == 0:
        print(f"gradwire: '{spec}' cannot select on the device, so all {4 * sync.floats:,} bytes "
              f"of a gradient cross to the host and back in a step", file=sys.stderr, flush=True)
    return sync


def _tell(plan: Plan) -> None:
    """Tells the user which spec is used instead, and what is known to cost accuracy."""
    if plan.line:
        print(f"gradwire: {plan.line}", file=sys.stderr, flush=True)
    if plan.warning:
        warnings.warn(plan.warning, stacklevel=4)


# ---- whom it is for ------------------------------------------------------------


def _carrier(model: Any, group: Any, comm: Any, find_unused: bool) -> Carrier:
    """The carrier for this kind of model. What is wrong here is wrong on every worker."""
    if not isinstance(model, torch.nn.Module):
        raise ValueError(f"attach() needs a torch.nn.Module, not {type(model).__name__}")
    model = look_through(model)
    refuse(model)
    if model in attached:
        raise RuntimeError("gradwire is already attached to this model; call detach() of "
                           "its handle first")
    if comm is None and not (dist.is_available() and dist.is_initialized()):
        raise RuntimeError("there is no process group; call "
                           "torch.distributed.init_process_group() first, or give attach() "
                           "a comm")
    if is_sharded(model):
        if comm is not None:
            raise ValueError("a model of fully_shard() needs mesh=, not comm=")
        return Sharded(model, group, find_unused)
    if not isinstance(model, DistributedDataParallel):
        return Plain(model, group, find_unused)
    if comm is not None or group is not None:
        raise ValueError("a DistributedDataParallel model has its own process group; give "
                         "attach() the module inside it to use another one or a comm")
    if find_unused:
        raise ValueError("give find_unused_parameters to DistributedDataParallel itself")
    return DDP(model)


def _group(group: Any, mesh: Any, comm: Optional[Comm]) -> Any:
    """The process group that was given, in whichever way."""
    if sum(given is not None for given in (group, mesh, comm)) > 1:
        raise ValueError("give attach() only one of group=, mesh= and comm=")
    if mesh is None:
        return group
    if mesh.ndim != 1:
        raise ValueError(f"mesh= has {mesh.ndim} dimensions; give one of them, such as "
                         "mesh[\"replicate\"]")
    return mesh.get_group()


def _agreement(carrier: Carrier, comm: Optional[Comm]) -> Agreement:
    if comm is not None:
        return CommAgreement(comm)
    device = next((p.device for p in carrier.model.parameters()), torch.device("cpu"))
    return GroupAgreement(carrier.group(), device)


@contextlib.contextmanager
def _connected(agreement: Agreement, comm: Optional[Comm], timeout: float,
               address: Optional[str], transport: str) -> Iterator[Comm]:
    """The comm to use. One that was made here is closed if something goes wrong."""
    if comm is not None:
        line = comm
    elif isinstance(agreement, GroupAgreement) and transport == "group":
        line = group_comm(agreement.group, timeout)
    else:
        line = connect(agreement.rank, agreement.workers, agreement.exchange, timeout=timeout,
                       address=address)
    try:
        yield line
    except BaseException:
        if comm is None:
            line.close()
        raise


def _check_use(carrier: Carrier, spec: str, optimizer: Any, nonfinite: str) -> None:
    parameters = carrier.parameters()
    devices = {p.device.type for p in parameters.values()}
    if not parameters:
        raise ValueError("the model has no parameters to train")
    if len(devices) > 1:
        raise ValueError("the parameters are on " + " and ".join(sorted(devices)) +
                         "; gradwire needs the whole model on one device")
    if not devices <= {"cpu", "cuda"}:
        raise ValueError(f"parameters on {devices.pop()} are not supported; gradwire "
                         "supports cpu and cuda")
    if optimizer is None and needs_optimizer(spec):
        raise ValueError(f"'{spec}' exchanges models after the optimizer's steps; pass the "
                         "optimizer, as in attach(model, spec, optimizer)")
    if optimizer is None and describe(spec).late:
        raise ValueError(f"'{spec}' has one more result when the training ends; pass the "
                         "optimizer, as in attach(model, spec, optimizer)")
    if optimizer is None and nonfinite == "skip":
        raise ValueError("nonfinite='skip' skips steps of the optimizer; pass the "
                         "optimizer, as in attach(model, spec, optimizer)")
    if optimizer is not None and not isinstance(optimizer, torch.optim.Optimizer):
        raise ValueError("the optimizer must be a torch.optim.Optimizer, not "
                         f"{type(optimizer).__name__}")
    if optimizer is not None:
        _check_optimizer(optimizer, {id(p) for p in parameters.values()})
    carrier.check(spec, nonfinite)


def _check_optimizer(optimizer: torch.optim.Optimizer, exchanged: Any) -> None:
    held = [p for group in optimizer.param_groups for p in group["params"]]
    if not any(id(p) in exchanged for p in held):
        raise ValueError("the optimizer has none of this model's parameters; pass the "
                         "optimizer that trains it")
