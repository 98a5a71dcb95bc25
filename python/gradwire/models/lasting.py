# SPDX-License-Identifier: Apache-2.0
"""The exchange of a job whose workers die, join and leave.

    call fails because a worker is gone -> enter the next view -> make the same call again
    before an exchange, if somebody waits to join -> enter the next view

A worker that joins takes from another one: the parameters, what the sync has in common,
and the baggage: buffers, frozen parameters, the optimizer's state, and what attach() was
told to share.
"""
from __future__ import annotations

import copy
from typing import Any, Callable, Dict, List, Optional, Sequence

import torch

from .._api import ERR_STOPPED
from ..errors import DataError, GradwireError, PeerError
from ..joining.view_sync import ViewSync
from .baggage import pack, unpack
from ..spec import needs_optimizer
from .carrier import name_of
from .gathered import Gathered
from .optimizer import Moved, local


class Lasting(Gathered):
    """A parameter without a gradient counts as one with a gradient of 0: workers that come
    and go cannot compare what each of them has."""

    sync: ViewSync

    def __init__(self, sync: ViewSync, parameters: Dict[str, torch.nn.Parameter],
                 moved: Optional[Moved], baggage: "Baggage"):
        super().__init__(sync, parameters, moved)
        self._idle = set()
        self._baggage = baggage
        self._model = torch.zeros(sync.floats, dtype=torch.float32)  # at entries
        self.steps = 0  # that the job has made, as far as this worker knows
        self.left = False

    # ---- entries ---------------------------------------------------------------

    @torch.no_grad()
    def enter(self, leaves: bool = False) -> None:
        """Goes on with the workers of the next view."""
        places = [(self._model[part.offset:part.offset + part.size],
                   local(self._parameters[part.name].data)) for part in self.sync.parts]
        for there, here in places:
            there.copy_(here.reshape(-1))
        entry = self.sync.enter(self._model.data_ptr(), leaves)
        for there, here in places:  # a result of local steps may have come, too
            here.copy_(there.view(here.shape))
        if entry.joined or self.steps == 0:
            self.steps = int(entry.step)
        self.left = bool(entry.left)
        self._watches = self._looks = self.sync.comm.rank == 0

    def _lasting(self, call: Callable[[], Any]) -> Any:
        """Makes a call until all workers that are left have made it. Returns None on a
        worker that has taken the others' state instead, because it was cut off."""
        while True:
            try:
                return call()
            except PeerError:
                self.enter()
            if self.sync.entry.joined:
                return None

    # ---- steps -----------------------------------------------------------------

    def _exchange_all(self, gradients: List[torch.Tensor]) -> bool:
        if self.steps == self.sync.exchanged:
            self._look_around(gradients)
        while True:
            good = self._lasting(lambda: super(Lasting, self)._exchange_all(gradients))
            if good is not None:
                return bool(good)
            _clear(gradients)

    def _look_around(self, gradients: List[torch.Tensor]) -> None:
        """Others enter before an exchange, and not right after one: the training loop may
        do something between two steps, such as following a schedule, which those who join
        must find done."""
        if needs_optimizer(self.sync.asked):
            self._baggage.note()
        if self.sync.group.due:
            self.enter()
            if self.sync.entry.joined:
                _clear(gradients)

    def model_step(self, rate: float) -> None:
        before = self.sync.entry.number
        super().model_step(rate)
        if self.sync.entry.number == before or not self.sync.entry.joined:
            self.steps += 1
        self.sync.group.report(self.steps, bytes_sent=int(self.sync.stats()["bytes_sent"]))

    def _with_parameters(self, act: Callable[[int], None]) -> None:
        self._lasting(lambda: super(Lasting, self)._with_parameters(act))

    def average(self) -> List[torch.Tensor]:
        raise ValueError("averaged() needs workers that do not change: the others may be in "
                         "another step; call finish() at the end")

    def leave(self) -> None:
        """A worker whose others are too few for a view, or leave too, hands nothing over."""
        while not self.left:
            try:
                self.enter(leaves=True)
            except GradwireError as error:
                if error.status != ERR_STOPPED:
                    raise
                break
        if not self.left or self.sync.entry.leavers == self.sync.entry.workers:
            self.left = True
            self.sync.group.tell("this worker has left, and nobody was there to take over what it "
                                 f"had not sent: a residual of norm {self.sync.residual_norm():.3g} "
                                 "is lost")


def _clear(gradients: List[torch.Tensor]) -> None:
    """They belong to a model that nobody has any more."""
    for gradient in gradients:
        gradient.zero_()


class Baggage:
    """What goes to workers that join besides the parameters that are exchanged. With local
    steps they begin where the period began, so that settings and schedules are those of
    then."""

    def __init__(self, model: torch.nn.Module, exchanged: Sequence[str], optimizer: Any,
                 moved: Optional[Moved], shared: Sequence[Any]):
        self._model = model
        self._exchanged = set(exchanged)
        self._optimizer = optimizer
        self._moved = moved
        self._shared = list(shared)
        self._noted: Any = None

    def note(self) -> None:
        """A period of local steps begins now."""
        self._noted = self._settings()

    def _settings(self) -> Any:
        """The optimizer's groups, and what is shared. A step may have set some values of
        the groups aside."""
        groups: Any = None
        if self._optimizer is not None:
            groups = copy.deepcopy(self._optimizer.state_dict()["param_groups"])
            for group, held in zip(groups, self._moved.held if self._moved is not None else ()):
                group.update(held)
        return groups, copy.deepcopy([s.state_dict() for s in self._shared])

    def _rest(self) -> Dict[str, torch.Tensor]:
        named = [*self._model.named_parameters(), *self._model.named_buffers()]
        return {name_of(name): tensor.data for name, tensor in named
                if name_of(name) not in self._exchanged}

    def pack(self) -> bytes:
        groups, shared = self._noted or self._settings()
        optimizer = None if self._optimizer is None else {
            **self._optimizer.state_dict(), "param_groups": groups}
        return pack([self._rest(), optimizer, shared])

    @torch.no_grad()
    def unpack(self, data: bytes) -> None:
        content = unpack(data)
        mine = self._rest()
        if not isinstance(content, list) or len(content) != 3 or not isinstance(content[0], dict) or (
                not isinstance(content[2], list)):
            raise DataError("what came from another worker is no state of a training")
        rest, optimizer, shared = content
        if set(rest) != set(mine) or len(shared) != len(self._shared) or (
                (optimizer is None) != (self._optimizer is None)):
            raise DataError("the state of the other workers is not one of this training: they have "
                            "other buffers, another optimizer or other things in shared=")
        for name, tensor in mine.items():
            if not isinstance(rest[name], torch.Tensor) or rest[name].shape != tensor.shape:
                raise DataError(f"'{name}' of the other workers has another shape")
            tensor.copy_(rest[name])
        if self._optimizer is not None:
            self._optimizer.load_state_dict(optimizer)
        for own, state in zip(self._shared, shared):
            own.load_state_dict(state)
