# SPDX-License-Identifier: Apache-2.0
"""What a worker has to itself, for checkpoints of frameworks that save rank 0's model.

    always                    what the handle remembers: the residual, the velocity
    if workers step alone     the state of this worker's optimizer
    if models differ          this worker's parameters

A framework either has a file for each worker, or calls state_dict() everywhere and keeps
what rank 0 returns. For these, the workers send their states to rank 0 as bytes. Rank 0
saves the bytes and does not look into them.
"""
from __future__ import annotations

import io
from typing import Any, Dict, List, Mapping, Sequence

import numpy as np
import torch

from ..errors import DataError
from .optimizer import bare
from ..spec import needs_optimizer

_MARGIN = 1 << 20


class WorkerState:
    """The state of one handle, its model (inside all wrappers) and its optimizer."""

    def __init__(self, handle: Any, model: torch.nn.Module, optimizer: Any):
        self._handle, self._model, self._optimizer = handle, model, bare(optimizer)

    # ---- of this worker alone --------------------------------------------------

    def own(self) -> Dict[str, Any]:
        """What this worker has. Call it between steps."""
        found = {"handle": self._handle.state_dict()}
        if needs_optimizer(self._handle.spec):
            found["optimizer"] = self._optimizer.state_dict()
        if not self._handle._open().keeps_equal:
            found["model"] = {name: p.detach() for name, p in self._model.named_parameters()}
        return found

    def load_own(self, states: List[Mapping[str, Any]]) -> None:
        """Takes up this worker's part of what all workers had, in the order of ranks. If
        there were as many workers as now, only the own one need be there. All workers
        call it together."""
        same = len(states) == self._handle.workers
        if not same:
            self._refuse_other_number(states)
        mine = states[self._handle.rank] if same else {
            key: average([state[key] for state in states])
            for key in ("optimizer", "model") if key in states[0]}
        self._handle.load_state_dict(mine["handle"] if same else
                                     [state["handle"] for state in states])
        if "optimizer" in mine:
            self._optimizer.load_state_dict(mine["optimizer"])
        if "model" in mine:
            with torch.no_grad():
                for name, p in self._model.named_parameters():
                    p.copy_(mine["model"][name])

    def _refuse_other_number(self, states: List[Mapping[str, Any]]) -> None:
        """Models that the method itself never averages may be as far apart as they like."""
        if "model" in states[0] and not needs_optimizer(self._handle.spec):
            raise DataError(f"{len(states)} workers saved models that differ, which "
                            f"'{self._handle.spec}' never averages; resume with "
                            f"{len(states)} workers, not {self._handle.workers}")

    # ---- of all workers, on rank 0 ---------------------------------------------

    def state_dict(self) -> Dict[str, Any]:
        """The bytes of all workers on rank 0, and of this one elsewhere. All workers call
        it together."""
        stream = io.BytesIO()
        torch.save(self.own(), stream)
        mine = np.frombuffer(stream.getvalue(), np.uint8)
        # States of one model differ in length by little more than texts in them.
        limit = 2 * mine.nbytes + _MARGIN
        return {"workers": [torch.tensor(data) for data in
                            self._handle._open().comm.gather(mine, limit=limit)]}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Continues from what rank 0's state_dict() returned. All workers call it
        together."""
        packed = saved.get("workers")
        if not packed:
            raise DataError("the checkpoint has no states of gradwire's workers")
        same = len(packed) == self._handle.workers
        self.load_own([unpack(data) if not same or rank == self._handle.rank else {}
                       for rank, data in enumerate(packed)])


def unpack(data: torch.Tensor) -> Dict[str, Any]:
    """A worker's state from its bytes. Tensors and plain values are all it can have."""
    stream = io.BytesIO(data.numpy().tobytes())
    return torch.load(stream, map_location="cpu", weights_only=True)


def average(values: Sequence[Any]) -> Any:
    """The average of what workers have: of the numbers in tensors, by the same keys. What
    cannot be averaged, such as a count of steps, is the first worker's."""
    first = values[0]
    if isinstance(first, torch.Tensor) and first.is_floating_point():
        total = sum(value.double() for value in values)
        return torch.as_tensor(total / len(values)).to(first.dtype)
    if isinstance(first, Mapping):
        keys = dict.fromkeys(key for value in values for key in value)
        return {key: average([value[key] for value in values if key in value]) for key in keys}
    return first
