# SPDX-License-Identifier: Apache-2.0
"""gradwire: data-parallel SGD for slow links.

With PyTorch, add one line after DistributedDataParallel:

    handle = gradwire.attach(ddp_model, "gtopk:0.01", optimizer)

With numpy, or anything else that keeps its numbers in memory:

    sync = gradwire.Sync([("weight", (10, 784)), ("bias", 10)], "gtopk:0.01", comm)
    sync.gradient(g)

The package needs only numpy. attach() imports torch.
"""
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._api import examples, isa, recipes, version
from .comm import Comm, LocalGroup
from .joining.connect import connect, rendezvous
from .joining.hosting import Meeting
from .joining.group import Group, join
from .errors import (DataError, DifferError, GradwireError, MismatchError,
                     NonFiniteError, PeerError, SpecError)
from .spec import Advice, Description, OptimizerKind, check_spec, describe, describe_stage, needs_optimizer
from .spec import advise as _advise

if TYPE_CHECKING:
    from .models.handle import Handle
    from .sync import Sync

__version__ = version()

__all__ = [
    "Advice", "Comm", "DataError", "Description", "DifferError", "GradwireError", "Group", "Handle",
    "LocalGroup", "Meeting", "MismatchError", "NonFiniteError", "OptimizerKind", "PeerError", "SpecError",
    "Sync", "advise", "attach", "check_spec", "connect", "describe", "describe_stage",
    "examples", "isa", "join", "needs_optimizer", "recipes", "rendezvous", "version",
]


def attach(model: Any, spec: str, optimizer: Any = None, **options: Any) -> Handle:
    """Makes a PyTorch model exchange gradients or models as `spec` describes ("gtopk:0.01",
    "local:8", ...). All workers call it together, before the first step. Returns a Handle.

    model      a DistributedDataParallel model, any other module, a model of fully_shard(); all
               of them also compiled by torch.compile()
    optimizer  always pass it: the spec is adapted to it (gradwire.advise())
    options    group, mesh, comm: who exchanges, if not DDP's own process group;
               momentum, nonfinite, seed, find_unused_parameters: how;
               timeout, address, transport, link: by which network; residual: on which device;
               log: a run directory.
               help(gradwire.torch_hook.attach) explains each

    handle = gradwire.attach(model, "gtopk:0.01", optimizer)
    ...                                  # the training as it was
    handle.finish()"""
    from .torch_hook import attach as attach_to_torch
    return attach_to_torch(model, spec, optimizer, **options)


def advise(spec: str, optimizer: Any, workers: int, steps: int = 0) -> Advice:
    """Returns the spec that does what `spec` asks for without a loss of accuracy with
    this optimizer, and what else is known about the two. attach() follows this advice.

    optimizer  a torch.optim.Optimizer, or an OptimizerKind, which does not need torch
    steps      of the whole training; some methods cost more in short ones. 0: not known"""
    if not isinstance(optimizer, OptimizerKind):
        from .models.optimizer import kind_of
        optimizer = kind_of(optimizer)
    return _advise(spec, optimizer, workers, steps)


def __getattr__(name: str) -> Any:
    # These exist, but importing gradwire must import neither numpy, torch nor a framework.
    if name in ("accelerate", "hf", "lightning"):
        return importlib.import_module(f".{name}", __name__)
    if name == "Sync":
        from .sync import Sync
        return Sync
    if name == "Handle":
        from .models.handle import Handle
        return Handle
    raise AttributeError(f"module 'gradwire' has no attribute '{name}'")
