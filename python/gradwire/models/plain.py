# SPDX-License-Identifier: Apache-2.0
"""A module without any wrapper: its gradients are taken when autograd has finished them."""
from __future__ import annotations

from typing import Any, Callable, ContextManager, Dict, List, Optional

import torch
import torch.distributed as dist

from .carrier import Carrier, refuse_inner
from ..comm import Comm
from .exchange import Exchange
from .gathered import Gathered
from .optimizer import Moved, local
from ..sync import Sync


class Plain(Carrier):
    def __init__(self, model: torch.nn.Module, group: Any = None, find_unused: bool = False):
        super().__init__(model)
        self._group = group
        self._find_unused = find_unused
        self._hooks: List[Any] = []

    def group(self) -> Any:
        return dist.group.WORLD if self._group is None else self._group

    def check(self, spec: str, nonfinite: str) -> None:
        self._check_tensors()
        refuse_inner(self.model)
        for name, module in self.model.named_modules():
            if isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag)) and module.sparse:
                raise ValueError(f"'{name}' has sparse gradients, which gradwire does not "
                                 "exchange; create it without sparse=True")

    def _check_tensors(self) -> None:
        for name, p in self.model.named_parameters():
            if hasattr(p, "device_mesh"):
                raise ValueError(f"'{name}' is distributed, but not by fully_shard(); gradwire "
                                 "does not support tensor parallelism")

    def make_exchange(self, sync: Sync, parameters: Dict[str, torch.nn.Parameter],
                      moved: Optional[Moved]) -> Exchange:
        begin_alike(self.model, sync.comm)
        return Gathered(sync, parameters, moved, self._find_unused)

    def begin(self, handle: Any, exchange: Any) -> None:
        super().begin(handle, exchange)
        self._hooks = [after_gradient(p, exchange.arrived)
                       for p in self.parameters().values()]

    def end(self) -> None:
        super().end()
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    def no_sync(self, exchange: Any) -> ContextManager[None]:
        return exchange.quiet()


def after_gradient(p: torch.nn.Parameter, act: Callable[[], None]) -> Any:
    """Calls act whenever backward has completed p.grad. The result has remove()."""
    if hasattr(p, "register_post_accumulate_grad_hook"):  # PyTorch 2.1
        return p.register_post_accumulate_grad_hook(_uncompiled(lambda _: act()))
    return _AfterNode(p, act)


def _uncompiled(hook: Callable[[Any], None]) -> Callable[[Any], None]:
    """Compiled autograd traces hooks, and must not trace an exchange."""
    disable = getattr(getattr(torch, "compiler", None), "disable", None)
    return disable(hook) if disable is not None else hook


class _AfterNode:
    """The same with earlier versions: a hook of the node that accumulates the gradient.
    The node lives as long as somebody knows it."""

    def __init__(self, p: torch.nn.Parameter, act: Callable[[], None]):
        self._node = p.expand_as(p).grad_fn.next_functions[0][0]
        self._hook = self._node.register_hook(lambda *_: act())

    def remove(self) -> None:
        self._hook.remove()


@torch.no_grad()
def begin_alike(model: torch.nn.Module, comm: Comm) -> None:
    """Gives all workers worker 0's parameters and buffers, as DDP does."""
    for tensor in [*model.parameters(), *model.buffers()]:
        here = local(tensor.data)
        there = here.cpu().contiguous()  # itself if that is what it is
        if there.numel():
            comm.broadcast(there.data_ptr(), there.numel() * there.element_size())
        if there is not here:
            here.copy_(there)
