# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel: its buckets come by its communication hook.

    autograd thread          thread of the comm                library's own threads
    bucket ready -> hook ->  dense: parts are handed on   ->   exchange beside backward
    last bucket  -> hook ->  the whole vector is exchanged
    end of backward waits,
    raises what went wrong

The model is one vector, whatever DDP's buckets are (arrangement.py); what is remembered
belongs to parameters and stays with them.
"""
from __future__ import annotations

import types
import weakref
from typing import Any, ContextManager, Dict, Optional

import torch
from torch.nn.parallel import DistributedDataParallel

from .carrier import Carrier, attached, name_of, refuse_inner
from .exchange import Exchange
from .optimizer import Moved
from ..sync import Sync


class DDP(Carrier):
    def group(self) -> Any:
        return self.model.process_group

    def check(self, spec: str, nonfinite: str) -> None:
        model = self.model
        if getattr(model, "_use_python_reducer", False):
            raise ValueError("gradwire does not support DDP's python_reducer; leave "
                             "torch._dynamo.config.optimize_ddp at True, or attach gradwire "
                             "to the module without DDP")
        refuse_inner(model)
        for name, module in model.module.named_modules():
            if isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag)) and module.sparse:
                raise ValueError(f"'{name}' has sparse gradients, which DDP does not pass to "
                                 "hooks; create it without sparse=True")

    def parameters(self) -> Dict[str, torch.nn.Parameter]:
        ignored = getattr(self.model, "parameters_to_ignore", ())
        return {name_of(name): p for name, p in self.model.module.named_parameters()
                if p.requires_grad and name not in ignored}

    def make_exchange(self, sync: Sync, parameters: Dict[str, torch.nn.Parameter],
                      moved: Optional[Moved]) -> Exchange:
        _register_hook(self.model)
        return Exchange(sync, parameters, moved)

    def begin(self, handle: Any, exchange: Exchange) -> None:
        super().begin(handle, exchange)
        _switches[self.model].exchange = exchange
        _refuse_join(self.model)

    def end(self) -> None:
        super().end()
        if self.model is not None:
            _switches[self.model].exchange = None
            self.model.__dict__.pop("join_hook", None)

    def no_sync(self, exchange: Exchange) -> ContextManager[None]:
        return self.model.no_sync()


# ---- the hook ------------------------------------------------------------------


class _Switch:
    """DDP keeps a hook forever, so this hook is switched on and off. A copy of the model
    needs a hook of its own, so a copy of this one does nothing."""

    def __init__(self, group: Any = None):
        self.group = group
        self.exchange: Optional[Exchange] = None

    def __reduce__(self) -> Any:
        return _Switch, ()


class _Unsaved(list):  # type: ignore[type-arg]
    """The list of hooks in models of PyTorch 2. Copies and saved models have an empty one,
    so who loads such a model need not have gradwire."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        return list, ()


_switches: "weakref.WeakKeyDictionary[Any, _Switch]" = weakref.WeakKeyDictionary()


# DDP reads annotations of hooks and does not understand postponed ones: none here.
def _hook(switch, bucket):  # type: ignore[no-untyped-def]
    if switch.exchange is not None:
        return switch.exchange.bucket(bucket)
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
    return allreduce_hook(switch.group, bucket)


def _register_hook(model: DistributedDataParallel) -> None:
    """Registers the hook, once for each model."""
    if model in _switches:
        return
    switch = _Switch(model.process_group)
    try:
        model.register_comm_hook(switch, _hook)
    except RuntimeError as error:
        raise RuntimeError("this model already has a communication hook, and DDP accepts "
                           f"only one; attach gradwire instead of it ({error})") from None
    if hasattr(model, "_comm_hooks"):
        model._comm_hooks = _Unsaved(model._comm_hooks)
    _switches[model] = switch


def _refuse_join(model: DistributedDataParallel) -> None:
    """Makes model.join() fail at once. It would let a worker without data take part in
    DDP's own exchange, but not in gradwire's. A bound method is copied, and saved, as the
    copy's own."""
    def join_hook(self: Any, **options: Any) -> Any:
        if self in attached:
            raise RuntimeError("model.join() cannot be used with gradwire, which needs "
                               "every worker in every step; give all workers the same "
                               "number of batches, or call detach() first")
        return type(self).join_hook(self, **options)

    model.join_hook = types.MethodType(join_hook, model)  # type: ignore[method-assign]
