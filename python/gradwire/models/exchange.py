# SPDX-License-Identifier: Apache-2.0
"""One handle's exchange: buckets in, futures out, and the comm's thread in between."""
from __future__ import annotations

import contextlib
import math
import sys
import warnings
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

import torch
import torch.distributed as dist

from .arrangement import Run, Shape, order_for, runs_of
from .device import DeviceSync, Place
from ..errors import GradwireError
from .optimizer import Moved, local
from ..sync import Sync
from ..thread import Job


class _Bucket(NamedTuple):
    buffer: torch.Tensor
    names: Sequence[str]
    future: Any
    event: Any  # of the GPU, after which the buffer is complete


class Exchange:
    def __init__(self, sync: Sync, parameters: Dict[str, torch.nn.Parameter],
                 moved: Optional[Moved] = None):
        self.sync = sync
        self._moved = moved  # what the sync does in place of the optimizer
        self._parameters = parameters
        self._names = {id(p): name for name, p in parameters.items()}
        self._cuda = next(iter(parameters.values())).is_cuda if parameters else False
        self._watches = sync.comm.rank == 0  # whether the residual has not run away yet
        self._looks = sync.comm.rank == 0  # whether gradients are changed before the step
        self._vector: Optional[torch.Tensor] = None
        self._shape: Shape = ()    # of DDP's buckets in the last step
        self._pinned = False       # the order came with a state and stays
        self._pending: List[_Bucket] = []
        self._fed = 0              # buckets of this step handed on as parts
        self._skip = False         # the optimizer's next step is to be left out
        self._feed_error: Optional[BaseException] = None
        self.stepped = False       # since the last finish()
        self.after_step: Callable[[float], None] = lambda rate: None
        self._underway = False     # a step was handed over, and nobody has seen its end

    # ---- the vector ------------------------------------------------------------

    def vector(self) -> torch.Tensor:
        """The whole model's numbers, float32, in host memory; pinned for a GPU."""
        if self._vector is None:
            self._vector = torch.zeros(self.sync.floats, dtype=torch.float32,
                                       pin_memory=self._cuda)
        return self._vector

    def pin(self, order: Sequence[str]) -> None:
        """The order of a saved state: with it a run goes on in the same bits."""
        if list(order) != [part.name for part in self.sync.parts]:
            self.sync.arrange(order)
        self._pinned = True

    # ---- on the autograd thread ------------------------------------------------

    def bucket(self, bucket: dist.GradBucket) -> torch.futures.Future:
        """DDP's hook: takes a bucket, promises its average."""
        if bucket.index() == 0:
            self._begin()
        buffer = bucket.buffer()
        if self._moved is not None:
            self._moved.add_decay(buffer, bucket.parameters(), bucket.gradients())
        future = self._future(buffer)
        event = None
        if buffer.is_cuda:
            event = torch.cuda.Event()
            event.record()
        names = [self._name(p) for p in bucket.parameters()]
        taken = _Bucket(buffer, names, future, event)
        self._pending.append(taken)
        if bucket.is_last():
            buckets, self._pending = self._pending, []
            job = Job(lambda: self._step(buckets))
            self._underway = True
            _at_the_end(lambda: self._await(job))
            self.sync.comm.begin(job)
        elif self._can_go_now(len(self._pending) - 1, names):
            self._underway = True
            self._fed += 1
            self.sync.comm.begin(Job(lambda: self._feed(taken)))
        return future

    def _can_go_now(self, index: int, names: Sequence[str]) -> bool:
        """Whether this bucket can be exchanged before the others are there: if the sync
        can do that, all buckets before it have gone, and it holds what was expected."""
        return (self.sync.overlaps and index < len(self._shape) and
                self._fed == index and self._shape[index] == tuple(names) and
                order_for(self._shape) == [p.name for p in self.sync.parts])

    def _begin(self) -> None:
        self._feed_error = None
        if self._underway and self._fed:
            self._feed_error = GradwireError("the backward before this one ended in the "
                                             "middle of an exchange, which cannot go on")
        self._pending = []
        self._fed = 0
        if self._moved is not None:
            self._moved.read()

    def _name(self, parameter: torch.Tensor) -> str:
        name = self._names.get(id(parameter))
        if name is None:
            raise RuntimeError("DDP exchanges a parameter that the model did not have "
                               "when attach() was called; call detach() and attach() "
                               "again")
        return name

    @staticmethod
    def _future(buffer: torch.Tensor) -> torch.futures.Future:
        if buffer.is_cuda:
            return torch.futures.Future(devices=[buffer.device])
        return torch.futures.Future()

    def _await(self, job: Job) -> None:
        """Comes before DDP looks at the futures. What went wrong is raised after DDP
        has finished, so that it is raised as what it is, and DDP can still be used."""
        try:
            self.sync.comm.wait_for(job)
            self._underway = False
            if self._looks and self._moved is not None:
                _at_the_end(self._moved.note)
            if self._watches:
                _at_the_end(self._watch)
        except BaseException as error:
            failure = error

            def fail() -> None:
                raise failure
            _at_the_end(fail)
            self._underway = failure is not job.error
        self._fed = 0

    def _watch(self) -> None:
        """Warns once if the residual runs away."""
        health = self.sync.health()
        if health["runs_away"]:
            self._watches = False
            warnings.warn(health["warning"], stacklevel=2)

    def note_half_steps(self) -> None:
        """A backward that did not see the end of its exchange left its step half done."""
        if self._underway:
            self.sync.leave_half()

    # ---- on the comm's thread --------------------------------------------------

    def _runs(self, names: Sequence[str]) -> List[Run]:
        return runs_of(names, {p.name: p for p in self.sync.parts})

    def _copy_in(self, bucket: _Bucket) -> None:
        with _stream_of(bucket):
            for run in self._runs(bucket.names):
                self._slice(run).copy_(
                    bucket.buffer[run.in_bucket:run.in_bucket + run.size],
                    non_blocking=self._cuda)

    def _slice(self, run: Run) -> torch.Tensor:
        return self.vector()[run.in_vector:run.in_vector + run.size]

    def _synchronize(self, bucket: _Bucket) -> None:
        if bucket.event is not None:
            _side_stream(bucket.buffer.device).synchronize()

    def _feed(self, bucket: _Bucket) -> None:
        if self._feed_error is None:
            try:
                self._feed_parts(bucket)
            except Exception as error:  # raised by _step()
                self._feed_error = error

    def _feed_parts(self, bucket: _Bucket) -> None:
        self._copy_in(bucket)
        self._synchronize(bucket)
        address = self.vector().data_ptr()
        at = {part.name: i for i, part in enumerate(self.sync.parts)}
        for name in reversed(bucket.names):
            self.sync.gradient_part_at(address, at[name])

    def _step(self, buckets: List[_Bucket]) -> None:
        try:
            if self._feed_error is not None:
                raise self._feed_error
            self._exchange(buckets)
        except BaseException as error:
            if error is self._feed_error or not isinstance(error, GradwireError):
                self._give_up(error)
            for bucket in buckets:  # nobody may wait for what will not come
                if not bucket.future.done():
                    bucket.future.set_result(bucket.buffer)
            raise

    def _give_up(self, error: BaseException) -> None:
        """Tells the others of trouble that the library has not seen. A step that was
        handed over in part is ended first: a thread of the library's is at work on it."""
        comm = self.sync.comm
        if self.sync.half:
            comm.interrupt()
            try:
                self.sync.gradient_at(self.vector().data_ptr())
            except GradwireError:
                pass
        comm.fail(f"worker {comm.rank} cannot exchange gradients: {error}")

    def _exchange(self, buckets: List[_Bucket]) -> None:
        self._arrange(tuple(tuple(b.names) for b in buckets))
        if self._moved is not None:
            self.sync.set_momentum(self._moved.momentum)
            self.sync.set_rate(self._moved.rate)
        if isinstance(self.sync, DeviceSync) and self.sync.by_entries:
            self._exchange_entries(self.sync, buckets)
            return
        if self._fed or not all(map(_is_plain, buckets)):
            self._exchange_vector(buckets)
            return
        good = self.sync.gradient_pieces(self._pieces(buckets))
        self._skip = not good
        for bucket in buckets:
            if not good:
                bucket.buffer.fill_(float("nan"))
            bucket.future.set_result(bucket.buffer)

    def _pieces(self, buckets: List[_Bucket]) -> List[Tuple[int, int]]:
        """Where the vector lies in DDP's own memory."""
        found = [(run.in_vector, bucket.buffer.data_ptr() + 4 * run.in_bucket, run.size)
                 for bucket in buckets for run in self._runs(bucket.names)]
        return [(address, size) for _, address, size in sorted(found)]

    def _exchange_entries(self, sync: DeviceSync, buckets: List[_Bucket]) -> None:
        """The vector stays on its device, in DDP's own memory."""
        places = [Place(run.in_vector, bucket.buffer[run.in_bucket:run.in_bucket + run.size])
                  for bucket in buckets for run in self._runs(bucket.names)]
        with contextlib.ExitStack() as streams:
            for bucket in buckets:
                streams.enter_context(_stream_of(bucket))
            good = sync.step(places)
            self._skip = not good
            for bucket in buckets:
                if not good:
                    bucket.buffer.fill_(float("nan"))
                bucket.future.set_result(bucket.buffer)

    def _exchange_vector(self, buckets: List[_Bucket]) -> None:
        for bucket in buckets[self._fed:]:
            self._copy_in(bucket)
        self._synchronize(buckets[0])
        good = self.sync.gradient_at(self.vector().data_ptr())
        self._skip = not good
        if not good:
            self.vector().fill_(float("nan"))
        for bucket in buckets:
            self._give(bucket)

    def _arrange(self, shape: Shape) -> None:
        """Follows DDP when it has laid its buckets out anew: where buckets are exchanged
        one by one, the vector has their order."""
        if shape == self._shape or self._fed:
            return
        missing = len(self._parameters) - sum(map(len, shape))
        if missing:
            raise RuntimeError(f"{missing} parameters of the model are not in any bucket "
                               "of DDP")
        order = order_for(shape)
        follows = self.sync.overlaps and not self._pinned
        if follows and order != [part.name for part in self.sync.parts]:
            self.sync.arrange(order)
        self._shape = shape

    def _give(self, bucket: _Bucket) -> None:
        """Keeps the promise. DDP copies out of what it gets, so that a stretch of the
        vector will do where no conversion is needed."""
        runs = self._runs(bucket.names)
        buffer = bucket.buffer
        if len(runs) == 1 and buffer.dtype == torch.float32 and not buffer.is_cuda:
            # DDP takes its views from the beginning of the storage, so that a view of
            # the vector would be read at the wrong place: this has a storage of its own.
            begin, end = runs[0].in_vector, runs[0].in_vector + runs[0].size
            bucket.future.set_result(torch.from_numpy(self.vector().numpy()[begin:end]))
            return
        with _stream_of(bucket):
            for run in runs:
                buffer[run.in_bucket:run.in_bucket + run.size].copy_(
                    self._slice(run), non_blocking=self._cuda)
            bucket.future.set_result(buffer)

    # ---- models, on the thread of the training loop ----------------------------

    def before_step(self) -> None:
        """Before a step of the optimizer. DDP has exchanged everything by then."""

    def look(self) -> None:
        """Warns once of clipping where gradients have become velocities."""
        if self._looks and not self._skip and self._moved is not None and self._moved.changed():
            self._looks = False
            warnings.warn("gradients were changed between backward() and step(), when "
                          "they are already velocities; to clip gradients, see "
                          "\"Clipping\" in docs/pytorch.md", stacklevel=_users_level())

    def skip_step(self) -> bool:
        """Whether the optimizer must leave out the step that it is about to make."""
        skip, self._skip = self._skip, False
        return skip

    def start(self) -> None:
        self._with_parameters(self.sync.start_at)

    def model_step(self, rate: float) -> None:
        """After a step of the optimizer at that learning rate."""
        self.stepped = True
        if self.sync.model_due:
            if self._moved is None and 0 <= rate < math.inf:  # else it knew before the step
                self.sync.set_rate(rate)
            self._with_parameters(self.sync.model_at)
        self.after_step(rate)

    @torch.no_grad()
    def drain(self) -> None:
        """Puts the result that is under way into the gradients, for one more step of the
        optimizer."""
        vector = self.vector()
        self._skip = not self.sync.drain_at(vector.data_ptr())
        for part in self.sync.parts:
            if part.name in self.unused():
                continue
            p = self._parameters[part.name]
            if p.grad is None:
                p.grad = torch.zeros_like(p)
            here, there = local(p.grad), self._slice(Run(0, part.offset, part.size))
            here.copy_(there.view(here.shape))
        if self._looks and self._moved is not None:
            self._moved.note()

    def unused(self) -> Set[str]:
        """Parameters that no worker has ever had a gradient for."""
        return set()

    def finish(self) -> None:
        self._with_parameters(self.sync.finish_at)
        self.stepped = False

    @torch.no_grad()
    def average(self) -> List[torch.Tensor]:
        """Replaces the parameters with their averages over the workers, and returns what
        was in them. What the sync remembers stays."""
        here = [local(self._parameters[part.name].data) for part in self.sync.parts]
        held = [tensor.clone() for tensor in here]
        comm, floats = self.sync.comm, self.sync.floats
        self._with_parameters(lambda address: comm.sum_at(address, floats))
        for tensor in here:
            tensor.div_(comm.workers)
        return held

    @torch.no_grad()
    def put_back(self, held: List[torch.Tensor]) -> None:
        for part, tensor in zip(self.sync.parts, held):
            local(self._parameters[part.name].data).copy_(tensor)

    @torch.no_grad()
    def _with_parameters(self, act: Callable[[int], None]) -> None:
        places = [(self._slice(Run(0, part.offset, part.size)),
                   local(self._parameters[part.name].data)) for part in self.sync.parts]
        for there, here in places:
            there.copy_(here.reshape(-1))
        act(self.vector().data_ptr())
        for there, here in places:
            here.copy_(there.view(here.shape))

    def close(self) -> None:
        self._vector = None


def _is_plain(bucket: _Bucket) -> bool:
    """Whether the library can work in the bucket's own memory."""
    buffer = bucket.buffer
    return (buffer.dtype == torch.float32 and not buffer.is_cuda and
            buffer.is_contiguous())


def _users_level() -> int:
    """The level, for warnings, of the code that is neither ours nor torch's."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in (
            "gradwire", "torch"):
        level, frame = level + 1, frame.f_back
    return level


def _at_the_end(act: Callable[[], None]) -> None:
    """Calls act when this backward is complete, in the order of such requests."""
    torch.autograd.Variable._execution_engine.queue_callback(act)


# ---- the GPU -------------------------------------------------------------------

_streams: Dict[Any, Any] = {}


def _side_stream(device: Any) -> Any:
    if device not in _streams:
        _streams[device] = torch.cuda.Stream(device)
    return _streams[device]


class _stream_of:
    """Copies of a GPU's bucket go by a stream beside, after what filled the bucket."""

    def __init__(self, bucket: _Bucket):
        self._context: Any = None
        if bucket.event is not None:
            stream = _side_stream(bucket.buffer.device)
            stream.wait_event(bucket.event)
            self._context = torch.cuda.stream(stream)

    def __enter__(self) -> None:
        if self._context is not None:
            self._context.__enter__()

    def __exit__(self, *error: Any) -> None:
        if self._context is not None:
            self._context.__exit__(*error)
