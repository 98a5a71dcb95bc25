# SPDX-License-Identifier: Apache-2.0
"""gradwire for Accelerate:

    model, optimizer, data = accelerator.prepare(model, optimizer, data)
    handle = gradwire.accelerate.attach(accelerator, model, "gtopk:0.01", optimizer)

It comes after prepare(), because the hook of DistributedDataParallelKwargs is registered
before the optimizer is known.
"""
from __future__ import annotations

from typing import Any

from accelerate import Accelerator

from .models.handle import Handle
from .torch_hook import attach as attach_to_torch
from .models.worker_state import WorkerState


def attach(accelerator: Accelerator, model: Any, spec: str, optimizer: Any,
           **options: Any) -> Handle:
    """Makes a model that prepare() returned exchange what `spec` says. Options are those of
    gradwire.attach(). save_state() saves every worker's residual, and load_state() loads
    it."""
    handle = attach_to_torch(model, spec, optimizer, **options)
    accelerator.register_for_checkpointing(
        WorkerState(handle, accelerator.unwrap_model(model, keep_torch_compile=False),
                    optimizer))
    return handle
