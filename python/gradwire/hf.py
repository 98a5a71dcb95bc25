# SPDX-License-Identifier: Apache-2.0
"""gradwire for the Trainer of Hugging Face Transformers:

    trainer = Trainer(model, args, train_dataset=data)
    gradwire.hf.attach(trainer, "gtopk:0.01")
    trainer.train()

A hook given to Accelerate would not arrive, because the Trainer makes its own
DistributedDataParallelKwargs.
"""
from __future__ import annotations

import functools
import os
from typing import Any, Dict, List, Optional

import torch
from transformers import Trainer, TrainerCallback
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, get_last_checkpoint

from .errors import DataError
from .models.handle import Handle
from .torch_hook import attach as attach_to_torch
from .models.worker_state import WorkerState


def attach(trainer: Trainer, spec: str, **options: Any) -> Sync:
    """Makes the Trainer exchange what `spec` says, from its next train() on. Options are
    those of gradwire.attach(). Every worker adds a file to each checkpoint, and
    train(resume_from_checkpoint=...) continues from these files."""
    sync = Sync(trainer, spec, options)
    trainer.add_callback(sync)
    train = trainer.train

    # Callbacks are not told which checkpoint a training continues from.
    @functools.wraps(train)
    def noted(resume_from_checkpoint: Any = None, *args: Any, **kwargs: Any) -> Any:
        sync.resume_from(resume_from_checkpoint)
        return train(resume_from_checkpoint, *args, **kwargs)

    trainer.train = noted
    return sync


class Sync(TrainerCallback):
    """What attach() adds to the Trainer. Its `handle` is there from the beginning of the
    training."""

    def __init__(self, trainer: Trainer, spec: str, options: Dict[str, Any]):
        self.spec, self.options = spec, options
        self.handle: Optional[Handle] = None
        self._trainer = trainer
        self._state: Optional[WorkerState] = None
        self._checkpoint: Optional[str] = None

    def resume_from(self, checkpoint: Any) -> None:
        """Notes the argument of train(): a folder, True for the last one, or none."""
        if checkpoint is True:
            checkpoint = get_last_checkpoint(self._trainer.args.output_dir)
        self._checkpoint = checkpoint or None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.handle is not None:
            self.handle.detach()
        trainer = self._trainer
        if trainer.model_wrapped is trainer.model:
            raise ValueError("gradwire.hf.attach() needs a Trainer of several processes; "
                             "start the script with torchrun")
        self.handle = attach_to_torch(trainer.model_wrapped, self.spec, trainer.optimizer,
                                      **self.options)
        self._state = WorkerState(self.handle, trainer.model, trainer.optimizer)
        if self._checkpoint is not None:
            self._state.load_own(_load(self._checkpoint, self.handle))

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._state is None or args.save_only_model:
            return
        assert self.handle is not None
        folder = os.path.join(args.output_dir, f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}")
        os.makedirs(folder, exist_ok=True)
        path = _path(folder, self.handle.rank, self.handle.workers)
        torch.save(self._state.own(), path + ".part")
        os.replace(path + ".part", path)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.handle is not None:
            self.handle.finish()


# ---- files ---------------------------------------------------------------------


def _path(folder: str, rank: int, workers: int) -> str:
    return os.path.join(folder, f"gradwire-{rank}-of-{workers}.pt")


def _load(folder: str, handle: Handle) -> List[Dict[str, Any]]:
    """The states of all workers that saved this checkpoint. If there are as many now, only
    the own one is read: each host may have its own files."""
    saved = _workers_of(folder)
    return [torch.load(_path(folder, rank, saved), map_location="cpu", weights_only=True)
            if saved != handle.workers or rank == handle.rank else {}
            for rank in range(saved)]


def _workers_of(folder: str) -> int:
    """How many workers saved their states there."""
    counts = {name[:-len(".pt")].rpartition("-")[2] for name in os.listdir(folder)
              if name.startswith("gradwire-") and name.endswith(".pt")}
    if len(counts) != 1 or not min(counts).isdigit():
        raise DataError(f"{folder} has no states of gradwire's workers, or those of several "
                        "runs; it cannot be resumed with gradwire")
    return int(min(counts))
