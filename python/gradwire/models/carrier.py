# SPDX-License-Identifier: Apache-2.0
"""Carrier: how one kind of model gives its gradients and takes the results.

    DDP model            ddp.py      buckets, by DDP's communication hook
    any other module     plain.py    gradients of parameters, by hooks of autograd
    FSDP2 model          sharded.py  shards of gradients, by FSDP's all-reduce hook

attach() needs nothing else from a model than what is here.
"""
from __future__ import annotations

import weakref
from typing import Any, ContextManager, Dict, Optional

import torch

from .exchange import Exchange
from .optimizer import Moved
from ..sync import Sync

_COMPILED = "_orig_mod."

# Handles by their model. Not in the model itself: its copies are not attached.
attached: "weakref.WeakKeyDictionary[Any, Any]" = weakref.WeakKeyDictionary()


def look_through(model: Any) -> Any:
    """The module that torch.compile() has wrapped, or the model itself."""
    while type(model).__name__ == "OptimizedModule":
        model = model._orig_mod
    return model


def name_of(name: str) -> str:
    """A parameter's name without what torch.compile() puts into it, so that states fit
    the model with and without it."""
    return name.replace(_COMPILED, "")


class Carrier:
    """One model that is to be attached, or is."""

    def __init__(self, model: torch.nn.Module):
        self._model = weakref.ref(model)

    @property
    def model(self) -> Any:
        return self._model()

    @property
    def module(self) -> Any:
        """The model inside of all wrappers."""
        return look_through(getattr(self.model, "module", self.model))

    def group(self) -> Any:
        """The process group whose workers exchange."""
        raise NotImplementedError

    def check(self, spec: str, nonfinite: str) -> None:
        """Raises ValueError for what this kind of model cannot do."""

    def parameters(self) -> Dict[str, torch.nn.Parameter]:
        """The parameters that are exchanged, by name."""
        return {name_of(name): p for name, p in self.model.named_parameters()
                if p.requires_grad}

    def make_exchange(self, sync: Sync, parameters: Dict[str, torch.nn.Parameter],
                      moved: Optional[Moved]) -> Exchange:
        raise NotImplementedError

    def begin(self, handle: Any, exchange: Exchange) -> None:
        """From now on the model's gradients go to the exchange."""
        attached[self.model] = handle

    def end(self) -> None:
        """The model is as it was before."""
        if self.model is not None:
            attached.pop(self.model, None)

    def no_sync(self, exchange: Exchange) -> ContextManager[None]:
        raise NotImplementedError


# ---- models that are refused ---------------------------------------------------

# They are known by where their class comes from, so that nobody has to have them.
# The beginning of a class's module and its name; "" is any class of that package.
_REPLICATE = ("gradwire does not support replicate(), which exchanges gradients itself; give "
              "attach() the module without it")
_REFUSED = (
    ("torch.nn.parallel", "DataParallel",
     "nn.DataParallel keeps its copies in one process; give attach() the module inside it, "
     "in one process per device"),
    ("torch.distributed.fsdp", "FullyShardedDataParallel",
     "gradwire does not support FSDP1 (FullyShardedDataParallel), which exchanges sharded "
     "gradients itself; use fully_shard() with mesh="),
    ("torch.distributed._composable", "ReplicateModule", _REPLICATE),
    ("torch.distributed._composable.replicate", "DDP", _REPLICATE),
    ("deepspeed", "",
     "gradwire does not support DeepSpeed engines, which exchange gradients themselves; "
     "give attach() the module without deepspeed.initialize()"),
    ("fairscale", "",
     "gradwire does not support FairScale's wrappers, which exchange gradients themselves; "
     "give attach() the module without them"),
    ("colossalai", "",
     "gradwire does not support ColossalAI's wrappers, which exchange gradients themselves; "
     "give attach() the module without them"),
    ("torch_xla", "",
     "gradwire does not support the wrappers of PyTorch/XLA; give attach() the module "
     "without them"),
)


def refuse(model: Any) -> None:
    """Raises ValueError if the model, or a module in it, is of a kind that exchanges
    gradients in a way that gradwire can neither use nor replace."""
    for name, module in model.named_modules():
        for kind in type(module).__mro__:
            sentence = _refusal(kind, not name)
            if sentence:
                raise ValueError(f"'{name}': {sentence}" if name else sentence)


def _refusal(kind: type, outermost: bool) -> str:
    """What is wrong with it, or "". Layers of those packages may well be in a model."""
    for package, name, sentence in _REFUSED:
        inside = kind.__module__ == package or kind.__module__.startswith(package + ".")
        if inside and (name == kind.__name__ or (outermost and not name)):
            return sentence
    return ""


def refuse_inner(model: torch.nn.Module) -> None:
    """Raises ValueError if a module inside of the model is in DDP."""
    for name, module in model.named_modules():
        if name and isinstance(module, torch.nn.parallel.DistributedDataParallel):
            raise ValueError(f"'{name}' is in DistributedDataParallel, which exchanges its "
                             "gradients itself; wrap the whole model, or nothing of it")
