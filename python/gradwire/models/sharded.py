# SPDX-License-Identifier: Apache-2.0
"""FSDP2: a model that fully_shard() has sharded inside a fast group, with replicas of it
that are connected by a slow network.

    replica 0    worker 0: shard A <--reduce-scatter--> worker 1: shard B
                        |                                      |
                     gradwire                               gradwire
                        |                                      |
    replica 1    worker 2: shard A <--reduce-scatter--> worker 3: shard B

FSDP averages gradients inside a replica, and calls its all-reduce hook after each group
of parameters. When backward has ended, this worker's shards of all gradients are
exchanged with the workers that have the same shards. So a method sees a worker's shards
as one vector, and its memory has the names of parameters and the sizes of shards.
"""
from __future__ import annotations

import contextlib
import sys
from typing import Any, Dict, Iterator, List

import torch
import torch.distributed as dist

from .carrier import Carrier
from .optimizer import local
from .plain import Plain


def is_sharded(model: torch.nn.Module) -> bool:
    return any(True for _ in _modules(model))


def _modules(model: torch.nn.Module) -> Iterator[Any]:
    """The modules that fully_shard() was called for."""
    kind = _kind()
    return (m for m in model.modules() if kind is not None and isinstance(m, kind))


def _kind() -> Any:
    """FSDPModule of PyTorch 2.6 or later, if anybody uses it: its import takes long, and
    fails with some versions."""
    kind = getattr(sys.modules.get("torch.distributed.fsdp"), "FSDPModule", None)
    return kind if hasattr(kind, "set_all_reduce_hook") else None


class Sharded(Plain):
    def check(self, spec: str, nonfinite: str) -> None:
        if self._group is None:
            raise ValueError("a model of fully_shard() needs the mesh of its replicas, as in "
                             "attach(model, spec, optimizer, mesh=mesh[\"replicate\"])")
        if nonfinite == "skip":
            raise ValueError("nonfinite='skip' is not supported with fully_shard(), because "
                             "workers with other shards would not skip the step")
        super().check(spec, nonfinite)
        if self._others_hook():
            raise RuntimeError("this model already has an all-reduce hook; attach gradwire "
                               "instead of it")

    def _check_tensors(self) -> None:
        for name, p in self.model.named_parameters():
            self._check_parameter(name, p)

    def _check_parameter(self, name: str, p: Any) -> None:
        mesh = getattr(p, "device_mesh", None)
        if mesh is None:
            raise ValueError(f"'{name}' is not sharded; call fully_shard() for the whole "
                             "model, too")
        if mesh.ndim != 1:
            raise ValueError(f"the mesh of '{name}' has {mesh.ndim} dimensions, and FSDP's own "
                             "all-reduce of such meshes cannot be replaced; call "
                             "fully_shard() with a mesh of one, as in "
                             "fully_shard(model, mesh=mesh[\"shard\"])")
        shared = {int(r) for r in mesh.mesh.flatten()} & set(
            dist.get_process_group_ranks(self._group))
        if shared != {dist.get_rank()}:
            raise ValueError("mesh= must have the workers with the same shards in other "
                             f"replicas, but has workers {sorted(shared)} of one replica")

    def _others_hook(self) -> bool:
        return any(getattr(group, "_all_reduce_hook", None) is not None
                   for module in _modules(self.model)
                   for group in getattr(module._get_fsdp_state(), "_fsdp_param_groups", []))

    def parameters(self) -> Dict[str, torch.nn.Parameter]:
        # A shard may have nothing of a small parameter.
        return {name: p for name, p in super().parameters().items()
                if local(p.detach()).numel()}

    def begin(self, handle: Any, exchange: Any) -> None:
        Carrier.begin(self, handle, exchange)
        for module in _modules(self.model):
            module.set_all_reduce_hook(lambda _: exchange.arrived())

    def end(self) -> None:
        for module in _modules(self.model) if self.model is not None else ():
            module.set_all_reduce_hook(None)
        super().end()

    @contextlib.contextmanager
    def no_sync(self, exchange: Any) -> Iterator[None]:
        """FSDP adds gradients up before it reduces them."""
        modules: List[Any] = list(_modules(self.model))
        for module in modules:
            module.set_requires_gradient_sync(False, recurse=False)
        try:
            with exchange.quiet():
                yield
        finally:
            for module in modules:
                module.set_requires_gradient_sync(True, recurse=False)
