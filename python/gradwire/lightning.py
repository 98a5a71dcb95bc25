# SPDX-License-Identifier: Apache-2.0
"""gradwire for Lightning's Trainer, with strategy="ddp":

    trainer = Trainer(strategy="ddp", callbacks=[gradwire.lightning.Sync("gtopk:0.01")])

The communication hook that DDPStrategy takes is not used: Lightning ignores it on CPUs,
and registers it before there is an optimizer.
"""
from __future__ import annotations

from typing import Any, Dict, Optional

from lightning.pytorch import Callback
from torch.nn.parallel import DistributedDataParallel

from .models.handle import Handle
from .torch_hook import attach
from .models.worker_state import WorkerState


class Sync(Callback):
    """Makes the Trainer exchange what `spec` says. Options are those of
    gradwire.attach(). Checkpoints of the Trainer contain every worker's residual."""

    def __init__(self, spec: str, **options: Any):
        self.spec, self.options = spec, options
        self.handle: Optional[Handle] = None  # while training and after it
        self._state: Optional[WorkerState] = None
        self._loaded: Optional[Dict[str, Any]] = None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        if self.handle is not None:
            self.handle.detach()
        model = trainer.strategy.model
        inside = getattr(model, "_orig_mod", model)
        if not isinstance(inside, DistributedDataParallel):
            raise ValueError("gradwire.lightning.Sync needs Trainer(strategy=\"ddp\"), not "
                             f"{type(trainer.strategy).__name__}")
        if len(trainer.optimizers) != 1:
            raise ValueError("gradwire.lightning.Sync needs exactly one optimizer, not "
                             f"{len(trainer.optimizers)}")
        optimizer = trainer.optimizers[0]
        self.handle = attach(model, self.spec, optimizer, **self.options)
        self._state = WorkerState(self.handle, inside.module, optimizer)
        if self._loaded:
            self._state.load_state_dict(self._loaded)
            self._loaded = None

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        if self.handle is not None:
            self.handle.finish()

    def state_dict(self) -> Dict[str, Any]:
        return {} if self._state is None else self._state.state_dict()

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        # Lightning calls it before the optimizer has its state.
        self._loaded = state_dict
