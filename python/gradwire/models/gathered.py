# SPDX-License-Identifier: Apache-2.0
"""The exchange of a model whose gradients are taken from its parameters.

    backward    each gradient that is complete -> arrived()
                end of backward  -> all of them are exchanged, in p.grad itself
    step()      first exchanges what no backward has exchanged: a worker that had no
                gradient in this step takes part with zeros

A parameter for which no worker has a gradient is unused, and its p.grad stays as it is,
which optimizers take for "leave it alone". Workers compare what they have in their first
exchange, and in every exchange if they are asked to (find_unused_parameters).
"""
from __future__ import annotations

import contextlib
import sys
from typing import Any, Dict, Iterator, List, Optional, Set

import numpy as np
import torch

from .device import DeviceSync, Place
from .exchange import Exchange, _at_the_end
from .optimizer import Moved, local
from ..sync import Sync


class Gathered(Exchange):
    def __init__(self, sync: Sync, parameters: Dict[str, torch.nn.Parameter],
                 moved: Optional[Moved] = None, find_unused: bool = False):
        super().__init__(sync, parameters, moved)
        self._find_unused = find_unused
        self._idle: Optional[Set[str]] = None  # had no gradient on any worker so far
        self._new = False     # a gradient has come since the last exchange
        self._done = False    # an exchange has been since the last step
        self._quiet = False   # gradients are to be accumulated only

    # ---- during backward -------------------------------------------------------

    def arrived(self) -> None:
        """A parameter's gradient is complete. A backward that fails forgets its
        callbacks, so that each gradient makes one; the first does the work."""
        self._new = True
        if not self._quiet:
            _at_the_end(self._end_of_backward)

    def _end_of_backward(self) -> None:
        # Inside of another backward, as with checkpoints, there is more to come.
        if self._new and not self._quiet and not _inside_backward():
            self.exchange_now()

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        before, self._quiet = self._quiet, True
        try:
            yield
        finally:
            self._quiet = before

    # ---- before a step ---------------------------------------------------------

    def before_step(self) -> None:
        if self._new or not self._done:
            self.exchange_now()

    def model_step(self, rate: float) -> None:
        self._done = False
        super().model_step(rate)

    def drain(self) -> None:
        super().drain()
        self._new, self._done = False, True

    def unused(self) -> Set[str]:
        return self._idle or set()

    # ---- the exchange ----------------------------------------------------------

    @torch.no_grad()
    def exchange_now(self) -> None:
        """Replaces all gradients with the result. All workers call it together."""
        self._new, self._done = False, True
        unused = self._unused()
        before = {name: self._parameters[name].grad for name in unused}
        gradients = [_gradient(self._parameters[part.name]) for part in self.sync.parts]
        if self._moved is not None:
            self._moved.read()
            for part in self.sync.parts:
                if part.name not in unused:
                    self._moved.add_decay_to(self._parameters[part.name])
            self.sync.set_momentum(self._moved.momentum)
            self.sync.set_rate(self._moved.rate)
        good = self._exchange_all(gradients)
        self._skip = not good
        if not good:
            for gradient in gradients:
                gradient.fill_(float("nan"))
        for name in unused:
            self._keep_unused(name, before[name])
        if self._looks and self._moved is not None:
            self._moved.note()
        if self._watches:
            self._watch()

    def _exchange_all(self, gradients: List[torch.Tensor]) -> bool:
        if isinstance(self.sync, DeviceSync) and self.sync.by_entries:
            return self._exchange_entries(self.sync, gradients)
        if all(map(_in_place, gradients)):
            return self.sync.gradient_pieces([(g.data_ptr(), g.numel()) for g in gradients])
        places = [self.vector()[part.offset:part.offset + part.size]
                  for part in self.sync.parts]
        for place, gradient in zip(places, gradients):
            place.copy_(gradient.reshape(-1))
        good = self.sync.gradient_at(self.vector().data_ptr())
        for place, gradient in zip(places, gradients):
            gradient.copy_(place.view(gradient.shape))
        return good

    def _exchange_entries(self, sync: DeviceSync, gradients: List[torch.Tensor]) -> bool:
        flat = [gradient.reshape(-1) for gradient in gradients]  # a copy if it must be
        good = sync.step([Place(part.offset, at) for part, at in zip(sync.parts, flat)])
        for at, gradient in zip(flat, gradients):
            if not gradient.is_contiguous():
                gradient.copy_(at.view(gradient.shape))
        return good

    # ---- parameters without gradients ------------------------------------------

    def _unused(self) -> Set[str]:
        """The parameters that no worker has a gradient for, as far as is known."""
        if self._find_unused or self._idle is None:
            names = [part.name for part in self.sync.parts]
            has = np.array([self._parameters[n].grad is not None for n in names], bool)
            mine = np.packbits(has).tobytes()
            said = self.sync.comm.allgather(mine, limit=len(mine))
            union = np.zeros(len(names), bool)
            for data in said:
                union |= np.unpackbits(np.frombuffer(data, np.uint8),
                                       count=len(names)).astype(bool)
            self._idle = {n for n, used in zip(names, union) if not used}
        return self._idle

    def _keep_unused(self, name: str, before: Optional[torch.Tensor]) -> None:
        """Gives an unused parameter back what it had, unless the result has something
        for it, which all workers see alike."""
        assert self._idle is not None
        if not self._skip and bool(local(self._parameters[name].grad).any()):
            self._idle = self._idle - {name}
        else:
            self._parameters[name].grad = before


def _gradient(p: torch.nn.Parameter) -> torch.Tensor:
    """Its gradient on this worker, which is 0 where there is none."""
    if p.grad is None:
        p.grad = torch.zeros_like(p)
    return local(p.grad)


def _in_place(gradient: torch.Tensor) -> bool:
    """Whether the library can work in the gradient's own memory."""
    return (gradient.dtype == torch.float32 and gradient.device.type == "cpu" and
            gradient.is_contiguous())


def _inside_backward() -> bool:
    """Whether this backward was called by another one: only an autograd function's own
    backward, which is Python, can do that."""
    code = torch.autograd.function.BackwardCFunction.apply.__code__
    frame: Any = sys._getframe()
    while frame is not None:
        if frame.f_code is code:
            return True
        frame = frame.f_back
    return False
