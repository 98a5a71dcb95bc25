# SPDX-License-Identifier: Apache-2.0
"""Sync: one method for one model, on arrays in memory.

A training loop makes two calls per step, whatever the method:

    sync.start(x)                  # all begin with worker 0's model
    for ...:
        sync.gradient(g)           # g, in place: what the optimizer should apply
        ...                        # optimizer step on x with g
        sync.model(x)              # x, in place: for methods that exchange models
    sync.finish(x)                 # for methods that average at the end
"""
from __future__ import annotations

import ctypes
from typing import (Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence,
                    Tuple, Union)

import numpy as np

from . import state
from ._api import (NONFINITE, SKIPPED, Entries, Health, Piece, SyncOptions, Tensor, check, lib)
from .comm import Comm
from .errors import ArgumentError, DataError, GradwireError, NonFiniteError

Shape = Union[int, Sequence[int]]
LayoutLike = Union[int, Mapping[str, Any], Iterable[Tuple[str, Shape]]]


class Part(NamedTuple):
    """One tensor of a model in the flat vector."""
    name: str
    shape: Tuple[int, ...]
    offset: int
    size: int


def parts_of(layout: LayoutLike) -> List[Part]:
    """Returns the tensors of a layout, which is a number of floats, {name: array or shape},
    or (name, shape) pairs in order."""
    if isinstance(layout, int):
        layout = [("all", (layout,))]
    elif isinstance(layout, Mapping):
        layout = layout.items()
    parts: List[Part] = []
    offset = 0
    for name, shape in layout:
        shape = getattr(shape, "shape", shape)
        dims = (int(shape),) if isinstance(shape, (int, np.integer)) else tuple(
            int(d) for d in shape)
        size = int(np.prod(dims, dtype=np.int64))
        parts.append(Part(name, dims, offset, size))
        offset += size
    names = [p.name for p in parts]
    twice = next((n for n in names if names.count(n) > 1), None) if (
        len(set(names)) < len(names)) else None
    if twice is not None:
        raise ValueError(f"two tensors of the layout have the name '{twice}'")
    return parts


def _new_layout(parts: Sequence[Part]) -> ctypes.c_void_p:
    tensors = (Tensor * len(parts))()
    for tensor, part in zip(tensors, parts):
        rows = part.shape[0] if len(part.shape) > 1 else 1
        tensor.name, tensor.offset = part.name.encode(), part.offset
        tensor.rows = rows
        tensor.cols = part.size // rows if rows else 0
    layout = ctypes.c_void_p()
    check(lib.gw_layout_new(ctypes.byref(layout), tensors, len(parts)))
    return layout


def _arrays(entries: Entries) -> Tuple[np.ndarray, np.ndarray]:
    """Copies of index and value."""
    if not entries.count:
        return np.empty(0, np.uint32), np.empty(0, np.float32)
    shape = (entries.count,)
    return (np.ctypeslib.as_array(entries.index, shape).copy(),
            np.ctypeslib.as_array(entries.value, shape).copy())


class Sync:
    """Applies the method that `spec` describes to vectors of `layout`, on `comm`. All
    workers make their Sync together; if their settings differ, it raises MismatchError."""

    def __init__(self, layout: LayoutLike, spec: str, comm: Comm, *,
                 nonfinite: str = "stop", seed: int = 0):
        if nonfinite not in NONFINITE:
            raise ValueError(f"invalid nonfinite='{nonfinite}'; expected one of " +
                             ", ".join(f"'{n}'" for n in NONFINITE))
        self.parts = parts_of(layout)
        self.comm = comm
        self.asked = spec
        self._options = SyncOptions(ctypes.sizeof(SyncOptions), NONFINITE[nonfinite],
                                    seed)
        self._used = False  # something may be remembered
        self._half = False  # a step has begun and not ended
        self._momentum: Optional[float] = None  # if another than the spec's
        self._pointer: Optional[int] = self._make(self.parts)
        comm._users.add(self)

    def _make(self, parts: Sequence[Part]) -> Optional[int]:
        pointer = ctypes.c_void_p()

        def make() -> None:
            layout = _new_layout(parts)
            try:
                check(lib.gw_sync_new(ctypes.byref(pointer), self.asked.encode(), layout,
                                      self.comm.pointer, ctypes.byref(self._options)))
            finally:
                lib.gw_layout_free(layout)

        self.comm.run(make)
        if self._momentum is not None:
            check(lib.gw_sync_set_momentum(pointer.value, self._momentum))
        return pointer.value

    @property
    def pointer(self) -> int:
        """The gw_sync. Raises ValueError if the sync is closed."""
        if self._pointer is None:
            assert self.comm.pointer  # whose reason is better
            raise ValueError("this sync is closed")
        return self._pointer

    @property
    def is_open(self) -> bool:
        return self._pointer is not None

    @property
    def floats(self) -> int:
        """The number of floats in a vector."""
        return self.parts[-1].offset + self.parts[-1].size if self.parts else 0

    def _address(self, vector: Any) -> int:
        array = np.asarray(vector)
        if array.dtype != np.float32 or not array.flags.c_contiguous:
            raise TypeError(f"a vector must be contiguous float32, not {array.dtype} with "
                            f"strides {array.strides}")
        if array.size != self.floats or not array.flags.writeable:
            raise ValueError(f"a vector must be writable and have {self.floats} floats; "
                             f"this one has {array.size}")
        if array.size and not np.shares_memory(array, vector):
            raise TypeError("a vector must be an array or a buffer that can be changed in "
                            "place")
        return array.ctypes.data

    # ---- a step ----------------------------------------------------------------

    def start(self, x: Any) -> None:
        """Replaces x with worker 0's. Methods that send changes of models need it."""
        self._act(lib.gw_sync_start, self._address(x), keep=x)

    def gradient(self, g: Any) -> bool:
        """Replaces g, this worker's gradient, with what the optimizer should apply. Returns
        False if the step is skipped because of NaN or infinity; do not apply g then."""
        return self._act(lib.gw_sync_gradient, self._address(g), keep=g) != SKIPPED

    def model(self, x: Any) -> None:
        """Replaces x, after the optimizer's step, with the model that this worker continues
        from."""
        self._act(lib.gw_sync_model, self._address(x), keep=x)

    def finish(self, x: Any) -> None:
        """Replaces x with the result of the training."""
        self._act(lib.gw_sync_finish, self._address(x), keep=x)

    def drain(self, g: Any) -> bool:
        """Replaces g with the result that is under way (delay=1), for one more step of the
        optimizer before finish(). Returns False if that step is to be skipped."""
        return self._act(lib.gw_sync_drain, self._address(g), keep=g) != SKIPPED

    # The same for those who have an address instead of an array.

    def start_at(self, address: int) -> None:
        self._act(lib.gw_sync_start, address)

    def gradient_at(self, address: int) -> bool:
        return self._act(lib.gw_sync_gradient, address) != SKIPPED

    def gradient_pieces(self, pieces: Sequence[Tuple[int, int]]) -> bool:
        """Does what gradient() does for a vector in pieces, each (address, number of
        floats)."""
        table = (Piece * len(pieces))(*pieces)
        return self._act(lib.gw_sync_gradient_pieces, table, len(pieces)) != SKIPPED

    def gradient_part_at(self, address: int, tensor: int) -> None:
        """Feeds one tensor of the vector, which is now final. The last tensor of the layout
        comes first."""
        self._half = True  # until gradient() of all of it
        check(lib.gw_sync_gradient_part(self.pointer, address, tensor))

    def entries(self, index: np.ndarray, value: np.ndarray,
                keep: Callable[[np.ndarray, np.ndarray], None]
                ) -> Optional[Tuple[np.ndarray, np.ndarray]]:
        """A step for a caller that has the residual and has chosen entries from it, as
        gw_sync_entries() in gradwire.h describes it. keep() gets what belongs back into
        the residual. Returns index and value of the result's entries, or None if the step
        is skipped."""
        mine, result, kept = Entries(), Entries(), Entries()
        mine.index = index.ctypes.data_as(ctypes.POINTER(ctypes.c_uint32))
        mine.value = value.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        mine.count = len(index)
        try:
            status = self._act(lib.gw_sync_entries, mine, result, kept, keep=(index, value))
        except NonFiniteError:
            keep(*_arrays(kept))
            raise
        keep(*_arrays(kept))
        return _arrays(result) if status != SKIPPED else None

    def model_at(self, address: int) -> None:
        self._act(lib.gw_sync_model, address)

    def drain_at(self, address: int) -> bool:
        return self._act(lib.gw_sync_drain, address) != SKIPPED

    def finish_at(self, address: int) -> None:
        self._act(lib.gw_sync_finish, address)

    def _act(self, function: Callable[..., int], *arguments: Any, keep: Any = None) -> int:
        """Does one call of a step. If it does not return normally, the step is incomplete,
        unless the failure is one that the library notices before anything has changed: NaN,
        infinity or wrong arguments. `keep` must live until the library has finished with
        it, whatever signals arrive."""
        def act(_: Any = keep) -> int:
            return check(function(self.pointer, *arguments))

        self._used = self._half = True
        try:
            status = self.comm.run(act)
        except (NonFiniteError, ArgumentError):
            self._half = False
            raise
        self._half = False
        return status

    @property
    def half(self) -> bool:
        """Whether the last step was interrupted, or has not ended yet."""
        return self._half

    def leave_half(self) -> None:
        """Marks the last step as incomplete, for a caller that did not see its end."""
        self._half = True

    def set_momentum(self, momentum: float) -> None:
        """Changes the momentum of a spec that has one, for schedules. Call it between
        steps, with the same value on all workers. States do not contain it."""
        if momentum != self._momentum:
            check(lib.gw_sync_set_momentum(self.pointer, momentum))
            self._momentum = momentum

    def set_rate(self, rate: float) -> None:
        """Sets the learning rate of the next step, the same on all workers, so that the
        residual keeps its weight when a schedule changes the rate. Specs without momentum
        of their own ignore it."""
        check(lib.gw_sync_set_rate(self.pointer, rate))

    # ---- what there is to know -------------------------------------------------

    @property
    def pending(self) -> bool:
        """Whether a result is under way, which the next gradient() would hand back."""
        return bool(lib.gw_sync_pending(self.pointer))

    @property
    def model_due(self) -> bool:
        """Returns whether model() will do anything in this step."""
        return bool(lib.gw_sync_model_due(self.pointer))

    @property
    def scale(self) -> float:
        """How many times this step applies the average change of the models."""
        return float(lib.gw_sync_scale(self.pointer))

    @property
    def momentum(self) -> float:
        """What of Adam's beta1 the sync applies in this step."""
        return float(lib.gw_sync_momentum(self.pointer))

    @property
    def overlaps(self) -> bool:
        """Whether tensors are exchanged before the whole gradient is there."""
        return bool(lib.gw_sync_overlaps(self.pointer))

    @property
    def takes_entries(self) -> bool:
        """Whether entries() can make steps of this sync, once a warm-up is over."""
        return bool(lib.gw_sync_takes_entries(self.pointer))

    @property
    def entries_due(self) -> int:
        """How many entries the next step takes; 0 if it needs the whole gradient."""
        return lib.gw_sync_entries_due(self.pointer)

    @property
    def keeps_equal(self) -> bool:
        """Whether all workers' models have the same bits after each step."""
        return bool(lib.gw_sync_keeps_equal(self.pointer))

    @property
    def spec(self) -> str:
        """The spec with all defaults written out."""
        return lib.gw_sync_spec(self.pointer).decode()

    def stats(self) -> Dict[str, float]:
        """Returns this worker's totals over all steps so far."""
        s = lib.gw_sync_stats(self.pointer)
        return {name: getattr(s, name) for name, _ in s._fields_}

    def residual_norm(self) -> float:
        """Returns the Euclidean norm of what this worker has not sent yet."""
        return lib.gw_sync_residual_norm(self.pointer)

    def health(self) -> Dict[str, Any]:
        """How the residual is doing, as last measured: step, residual_norm, vector_norm
        (of the gradient, or the change of the model), growth since step `since`,
        runs_away, and a warning that says what to do then, "" before that."""
        h = Health(struct_size=ctypes.sizeof(Health))
        check(lib.gw_sync_health(self.pointer, ctypes.byref(h)))
        return {"step": h.step, "residual_norm": h.residual_norm,
                "vector_norm": h.vector_norm, "growth": h.growth, "since": h.since,
                "runs_away": bool(h.runs_away), "warning": h.warning.decode()}

    # ---- state -----------------------------------------------------------------

    def state_dict(self) -> Dict[str, Any]:
        """Returns everything this worker remembers, with vectors by the names of tensors.
        Call it between steps. Raises GradwireError if the last step is incomplete."""
        pointer = self.pointer
        if self._half:
            raise GradwireError("the last step is incomplete, so its state cannot be "
                                "saved; resume from an earlier state")
        length = lib.gw_sync_state_len(pointer)
        data = np.empty(length, np.uint8)
        check(lib.gw_sync_save(pointer, data.ctypes.data, length))
        return state.unpack(data, self.parts, self.comm.workers)

    def load_state_dict(self, states: Union[Mapping[str, Any],
                                            Sequence[Mapping[str, Any]]]) -> None:
        """Continues from saved states. If there are as many workers as saved, each may give
        one state, every worker another one. Or all workers give all states, as a list in
        the order of ranks; then the number of workers may be another, and residuals are
        divided among them. All workers call it together, and it fails on all of them; they
        then keep what they had."""
        load: List[Tuple[int, int, np.ndarray]] = []
        problem, step = "", 0
        try:
            load = self._packed(states)
            step = state.step_of(load[0][2])
        except Exception as error:  # told to all workers below
            problem = state.trouble(error)
        self._agree(problem, step)
        self._replace(self.parts, load)

    def _packed(self, states: Any) -> List[Tuple[int, int, np.ndarray]]:
        """Returns (index, count, bytes) of each state that this worker has to load."""
        rank, workers = self.comm.rank, self.comm.workers
        given = [states] if isinstance(states, Mapping) else list(states)
        saved = state.workers_of(given)
        if len(given) == 1 and saved == workers:
            chosen = [(rank, given[0])]
        elif len(given) != saved:
            raise DataError(f"{saved} workers saved their states, but {len(given)} were "
                            f"given to {workers} workers; give all {saved} as a list")
        else:
            chosen = ([(rank, given[rank])] if saved == workers
                      else list(enumerate(given)))
        return [(i, saved, state.pack(s, self.parts)) for i, s in chosen]

    def _replace(self, parts: List[Part], load: List[Tuple[int, int, np.ndarray]]) -> None:
        """Replaces the sync with a new one that has these states, on all workers or on
        none."""
        new = self._make(parts)
        problem = ""
        try:
            for i, count, data in load:
                check(lib.gw_sync_load_one(new, data.ctypes.data, data.nbytes, i, count))
        except Exception as error:
            problem = state.trouble(error)
        try:
            self._agree(problem, 0)
        except BaseException:
            lib.gw_sync_free(new)
            raise
        lib.gw_sync_free(self.pointer)
        self._pointer, self.parts = new, parts
        self._used, self._half = self._used or bool(load), False

    def _agree(self, problem: str, step: int) -> None:
        """Raises on all workers what is wrong on one of them."""
        mine = state.pack_answer(step, problem)
        said = self.comm.allgather(mine, limit=state.ANSWER_MAX)
        answers = [state.unpack_answer(data, rank) for rank, data in enumerate(said)]
        if problem:
            raise DataError(problem)
        for rank, (other, trouble) in enumerate(answers):
            if trouble:
                raise DataError(f"worker {rank} cannot load its state: {trouble}")
            if other != step:
                raise DataError(f"worker {rank} loads a state of step {other}, but worker "
                                f"{self.comm.rank} loads one of step {step}")

    def remember(self, memory: str, vector: np.ndarray) -> None:
        """Replaces a memory, such as "velocity", with worker 0's `vector`. All workers call
        it together, between steps."""
        address, length = self._address(vector), 4 * self.floats
        self.comm.broadcast(address, length)
        held = self.state_dict()
        held[memory] = {p.name: vector[p.offset:p.offset + p.size] for p in self.parts}
        self._replace(self.parts, [(self.comm.rank, self.comm.workers,
                                    state.pack(held, self.parts))])

    def arrange(self, order: Sequence[str]) -> None:
        """Changes the order of the tensors in the vector; nothing that is remembered gets
        lost. All workers call it together, between steps."""
        by_name = {p.name: p for p in self.parts}
        parts = parts_of((name, by_name[name].shape) for name in order)
        if len(parts) != len(self.parts):
            raise ValueError("the order must name every tensor exactly once")
        load = []
        if self._used:
            data = state.pack(self.state_dict(), parts)
            load = [(self.comm.rank, self.comm.workers, data)]
        self._replace(parts, load)

    def _forget(self) -> None:
        self._pointer = None

    def close(self) -> None:
        if self._pointer is not None:
            pointer, self._pointer = self._pointer, None
            lib.gw_sync_free(pointer)

    def __del__(self) -> None:
        if getattr(self, "_pointer", None) is not None:
            self.close()
