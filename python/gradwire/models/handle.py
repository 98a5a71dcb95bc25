# SPDX-License-Identifier: Apache-2.0
"""Handle: what attach() returns, whatever kind of model it was given."""
from __future__ import annotations

import atexit
import contextlib
import hashlib
import sys
import warnings
import weakref
from typing import (Any, ContextManager, Dict, Iterator, List, Mapping, Optional, Sequence, Union)

import numpy as np
import torch

from .carrier import Carrier
from ..errors import DataError, GradwireError
from .exchange import Exchange
from .lasting import Lasting
from .optimizer import Moved
from .run_log import RunLog
from ..spec import check_spec, describe, memories
from .stepper import Stepper
from ..sync import Sync


class Handle:
    """What attach() returns. It gives statistics and states, and detaches."""

    def __init__(self, carrier: Carrier, sync: Sync, exchange: Exchange, asked: str, *,
                 owns_comm: bool = True):
        self._carrier = carrier
        self._sync = sync
        self._exchange = exchange
        self._asked = asked
        self._owns_comm = owns_comm
        self._stepper: Optional[Stepper] = None
        self._moved: Optional[Moved] = None
        self._run_log: Optional[RunLog] = None
        self._closed = False
        _living.add(self)

    def __repr__(self) -> str:
        if self._closed or not self._sync.is_open:
            return f"<gradwire.Handle of '{self._asked}', detached>"
        stats = self.stats()
        return (f"<gradwire.Handle of '{self._sync.asked}', worker {self.rank} of "
                f"{self.workers}: {stats['steps']} steps, {stats['bytes_sent'] / 1e6:.2f} MB "
                "sent>")

    def _follow(self, optimizer: Optional[torch.optim.Optimizer],
                moved: Optional[Moved]) -> None:
        """From now on the optimizer's steps are the exchange's, too."""
        self._moved = moved
        if optimizer is not None:
            self._stepper = Stepper(optimizer, self._exchange, moved)
        self._carrier.begin(self, self._exchange)

    @property
    def spec(self) -> str:
        """The spec with all defaults written out."""
        return self._open().spec

    @property
    def rank(self) -> int:
        return self._open().comm.rank

    @property
    def workers(self) -> int:
        return self._open().comm.workers

    @property
    def step(self) -> int:
        """The steps that the job has made. Where workers come and go this is what a loop
        counts by: a worker that joins begins with the step of the others."""
        self._open()
        return self._exchange.steps if isinstance(self._exchange, Lasting) else int(
            self.stats()["steps"])

    def _open(self) -> Sync:
        if self._closed:
            raise RuntimeError("this handle is detached")
        return self._sync

    # ---- what there is to know -------------------------------------------------

    def stats(self) -> Dict[str, float]:
        """Returns this worker's totals over all steps so far: steps, skipped, bytes_sent,
        bytes_received, messages_sent, messages_received, encode_seconds, wait_seconds and
        decode_seconds; and lost_mass and applied_mass, which are 0 except for gtopk with
        putback=paper."""
        return self._open().stats()

    def residual_norm(self) -> float:
        """Returns the Euclidean norm of what this worker has not sent yet."""
        return self._open().residual_norm()

    def health(self) -> Dict[str, Any]:
        """How the residual of this worker is doing, as last measured: step,
        residual_norm, vector_norm, growth since step `since`, runs_away, warning. Worker
        0 gives that warning by itself, once."""
        return self._open().health()

    def log(self, writer: Any, step: int) -> None:
        """Writes this worker's figures as "gradwire/NAME" to a TensorBoard SummaryWriter, or
        to a W&B run or its module: bytes_sent, bytes_per_step, wait_seconds,
        encode_seconds, decode_seconds, skipped, and residual_norm as last measured. All are
        totals except the last and bytes_per_step, the mean of all steps so far."""
        stats = self.stats()
        names = ("bytes_sent", "wait_seconds", "encode_seconds", "decode_seconds", "skipped")
        figures = {f"gradwire/{name}": float(stats[name]) for name in names}
        figures["gradwire/bytes_per_step"] = stats["bytes_sent"] / max(1, stats["steps"])
        figures["gradwire/residual_norm"] = float(self.health()["residual_norm"])
        if hasattr(writer, "add_scalar"):
            for name, value in figures.items():
                writer.add_scalar(name, value, step)
        elif hasattr(writer, "log"):
            writer.log(figures, step=step)
        else:
            raise TypeError("log() takes a TensorBoard SummaryWriter or a W&B run, not "
                            f"{type(writer).__name__}")

    def _write_log(self, log: RunLog) -> None:
        self._run_log = log
        self._exchange.after_step = log.after_step

    def record(self, **figures: Optional[float]) -> None:
        """Tells the run directory of attach(log=...) what the training loop knows: epoch,
        loss, test_loss, test_accuracy, perplexity. All workers may call it; it does nothing
        without a run directory, and on other workers than 0."""
        self._open()
        if self._run_log is not None:
            self._run_log.record(figures)

    # ---- the training ----------------------------------------------------------

    def no_sync(self) -> ContextManager[None]:
        """A context in which backward() only accumulates gradients. The first backward()
        outside of it exchanges the sum, as with DDP's no_sync()."""
        self._open()
        return self._carrier.no_sync(self._exchange)

    def drain(self) -> bool:
        """With delay=1, puts the result that is still under way into the gradients and
        returns True: make one more step of the optimizer then. finish() does both; only
        programs that step in another way, as a GradScaler does, call drain() before it. All
        workers call it together."""
        if not self._open().pending:
            return False
        self._exchange.drain()
        return True

    def finish(self) -> None:
        """Ends the training. A result that is under way (delay=1) is applied by one more
        step of the optimizer. Methods that let models differ leave their average in the
        parameters. All workers call it together."""
        if self.drain():
            assert self._stepper is not None  # attach() has asked for an optimizer
            self._stepper.step()
        self._exchange.finish()
        if self._run_log is not None:
            self._run_log.end()

    def pause(self) -> None:
        """Tells the others that this worker is about to do something that takes longer than a
        round, such as an evaluation on one worker alone. A job with join(learn_timeout=True)
        waits for it as long as timeout= says."""
        self._open().comm.pause()

    def leave(self) -> None:
        """Makes this worker leave a job whose workers come and go, between two steps: it
        hands over what it has not sent, and detaches. The others go on. If they are too few
        to go on with, it does not wait for more, and what it has not sent is lost."""
        self._open()
        if not isinstance(self._exchange, Lasting):
            raise ValueError("leave() needs a job of gradwire.join(), given to attach() as group=")
        group = self._exchange.sync.group
        self._exchange.leave()
        self._exchange.stepped = False  # the others have what belongs to them
        self.detach()
        group.leave()

    @contextlib.contextmanager
    def averaged(self) -> Iterator[None]:
        """A context in which the parameters are the average of all workers' models, for an
        evaluation in the middle of the training. Afterwards each worker has its own again.
        All workers enter it together. With methods that keep models equal it does
        nothing."""
        if self._open().keeps_equal:
            yield
            return
        held = self._exchange.average()
        try:
            yield
        finally:
            self._exchange.put_back(held)

    @property
    def _models_differ(self) -> bool:
        """Whether the workers' models may differ, because finish() has not been called."""
        if self._closed or not self._sync.is_open or not self._exchange.stepped:
            return False
        method = describe(self._sync.asked)
        in_every_step = method.meets and method.period == 1
        return (self.workers > 1 and not self._sync.keeps_equal and method.ends_averaged and
                not in_every_step)

    # ---- states ----------------------------------------------------------------

    def state_dict(self) -> Dict[str, Any]:
        """Returns everything this worker remembers, by the names of the parameters. Every
        worker saves its own, between steps. Raises GradwireError if the last step is
        incomplete."""
        sync = self._open()
        self._exchange.note_half_steps()
        return {key: _to_torch(value) for key, value in sync.state_dict().items()} | {
            "order": [part.name for part in sync.parts], "asked": self._asked,
            "rank": sync.comm.rank}

    def load_state_dict(self, states: Union[Mapping[str, Any],
                                            Sequence[Mapping[str, Any]]]) -> None:
        """Continues from saved states. Either each worker gives one state, every worker
        another one; or all workers give the list of all states, which another number of
        workers may have saved. All workers call it together, and it fails on all of
        them."""
        sync = self._open()
        plain: Any = None
        order: List[str] = []
        try:
            plain = self._own(states) if isinstance(states, Mapping) else [
                self._own(s) for s in states]
            order = _order_of(plain if isinstance(plain, Mapping) else plain[0], sync)
        except Exception:  # the sync complains of it, on all workers
            pass
        # The same order gives the same bits.
        digest = hashlib.sha256("\n".join(order).encode()).digest() if order else b""
        said = sync.comm.allgather(_saver(plain, sync.comm.workers) + digest, limit=36)
        _refuse_twice([data[:4] for data in said], sync)
        if {data[4:] for data in said} == {digest} and digest:
            self._exchange.pin(order)
        sync.load_state_dict(states if plain is None else plain)

    def _own(self, state: Mapping[str, Any]) -> Any:
        """A state in arrays. What advice has put into the spec may have other numbers
        than here, since it follows the number of workers and a schedule's momentum."""
        found, spec = _to_numpy(state), check_spec(self._sync.asked)
        if found.get("asked") == self._asked and (
                describe(found["spec"]).stages == describe(spec).stages):
            found["spec"] = spec
        return found

    # ---- the end ---------------------------------------------------------------

    def detach(self) -> None:
        """Restores the model and the optimizer's own step, which has its momentum again.
        The residual is dropped. Where models differ, because finish() has not been called
        since the last step, all workers must detach together: they average their models
        first. attach() can be called again afterwards."""
        if self._closed:
            return
        if self._models_differ:
            self._average_at_last()
        self._end_log()
        self._closed = True
        self._carrier.end()
        if self._stepper is not None:
            self._stepper.undo()
        if self._moved is not None:
            self._moved.give_back(self._sync)
        self._exchange.close()
        if self._owns_comm:
            self._sync.comm.close()
        else:
            self._sync.close()


    def _average_at_last(self) -> None:
        try:
            self._exchange.finish()
        except GradwireError as error:
            warnings.warn("detach() could not average the workers' models, which differ now: "
                          f"{error}", stacklevel=3)

    def _end_log(self) -> None:
        if self._run_log is not None:
            log, self._run_log = self._run_log, None
            log.end()
            log.close()


# ---- the end of the process ----------------------------------------------------

_living: "weakref.WeakSet[Handle]" = weakref.WeakSet()


def _at_exit() -> None:
    """Notices a forgotten finish(). It comes before the comms are closed. A program that
    ends with an error has other worries."""
    failed = hasattr(sys, "last_type")
    for handle in list(_living):
        if handle._models_differ and handle.rank == 0 and not failed:
            print("gradwire: the training ended without handle.finish(), so the workers' "
                  "models differ and worker 0's is not the result", file=sys.stderr, flush=True)
        if not handle._closed and handle._sync.is_open:
            handle._end_log()


atexit.register(_at_exit)


# ---- states --------------------------------------------------------------------


def _saver(state: Any, workers: int) -> bytes:
    """Which of so many workers saved this one state, in 4 bytes; all ones if that is not
    known."""
    fits = isinstance(state, Mapping) and state.get("workers") == workers
    rank = state.get("rank") if fits else None
    return rank.to_bytes(4, "little") if isinstance(rank, int) and (
        0 <= rank < workers) else b"\xff" * 4


def _refuse_twice(savers: List[bytes], sync: Sync) -> None:
    """Raises DataError, on all workers, if two of them load what one has saved: what it
    had not sent would count twice."""
    for i, saver in enumerate(savers):
        if saver != b"\xff" * 4 and saver in savers[:i] and memories(sync.spec):
            raise DataError(f"workers {savers.index(saver)} and {i} both load the state that "
                            f"worker {int.from_bytes(saver, 'little')} has saved; every worker "
                            "must save its own and load another one")


def _order_of(state: Mapping[str, Any], sync: Sync) -> List[str]:
    """Returns the order of the tensors in a saved state, or [] if the state is not one of
    this model."""
    order = list(state["order"])
    return order if sorted(order) == sorted(part.name for part in sync.parts) else []


def _to_torch(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _to_torch(v) for k, v in value.items()}
    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value


def _to_numpy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _to_numpy(v) for k, v in value.items()}
    return value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else value
