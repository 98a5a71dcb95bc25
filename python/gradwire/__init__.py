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

from typing import TYPE_CHECKING, Any

from ._api import examples, isa, recipes, version
from .comm import Comm, LocalGroup
from .connect import connect, rendezvous
from .errors import (DataError, DifferError, GradwireError, MismatchError,
                     NonFiniteError, PeerError, SpecError)
from .spec import Advice, Description, OptimizerKind, check_spec, describe, describe_stage, needs_optimizer
from .spec import advise as _advise
from .sync import Sync

if TYPE_CHECKING:
    from .torch_hook import Handle

__version__ = version()

__all__ = [
    "Advice", "Comm", "DataError", "Description", "DifferError", "GradwireError", "Handle",
    "LocalGroup", "MismatchError", "NonFiniteError", "OptimizerKind", "PeerError", "SpecError",
    "Sync", "advise", "attach", "check_spec", "connect", "describe", "describe_stage",
    "examples", "isa", "needs_optimizer", "recipes", "rendezvous", "version",
]


def attach(model: Any, spec: str, optimizer: Any = None, **options: Any) -> Handle:
    """Makes DistributedDataParallel exchange gradients or models with gradwire.

    See gradwire.torch_hook.attach for every option."""
    from .torch_hook import attach as attach_to_torch
    return attach_to_torch(model, spec, optimizer, **options)


def advise(spec: str, optimizer: Any, workers: int) -> Advice:
    """Returns the spec that does what `spec` asks for without a loss of accuracy with
    this optimizer, and what else is known about the two. attach() follows this advice.

    optimizer  a torch.optim.Optimizer, or an OptimizerKind, which does not need torch"""
    if not isinstance(optimizer, OptimizerKind):
        from .optimizer import kind_of
        optimizer = kind_of(optimizer)
    return _advise(spec, optimizer, workers)


def __getattr__(name: str) -> Any:
    # gradwire.Handle exists, but importing gradwire must not import torch.
    if name == "Handle":
        from .torch_hook import Handle
        return Handle
    raise AttributeError(f"module 'gradwire' has no attribute '{name}'")
