# SPDX-License-Identifier: Apache-2.0
"""Group: a job that meets somewhere, by libgradwire-group. Workers are on any number of
machines and have nothing but a key in common; torch.distributed is not needed."""
from __future__ import annotations

import ctypes
import os
import threading
import weakref
from ctypes import c_void_p
from pathlib import Path
from typing import Any, Callable, List, Optional, Tuple, Union

from .._api import check
from ..comm import Comm
from .group_library import GroupOptions, Progress, Tell, key_bytes, load

_open: "weakref.WeakSet[Group]" = weakref.WeakSet()


class Group:
    """A job that this process has joined; join() makes one. It is a context manager: at its
    end this worker leaves. One thread at a time may use it."""

    def __init__(self, library: ctypes.CDLL, pointer: Optional[int], keep: Any,
                 workers: Tuple[int, int], tell: Optional[Callable[[str], Any]]):
        self._library = library
        self._pointer = pointer
        self._keep = keep  # the callback, which C calls as long as there is a group
        self.limits = workers  # the least and the most workers of the job; 0: no limit
        self._tell = tell
        self._comm: Optional[Comm] = None
        _open.add(self)

    def _at(self) -> int:
        if self._pointer is None:
            raise ValueError("this worker has left the job")
        return self._pointer

    @property
    def comm(self) -> Comm:
        """The comm of the current view; the first use waits until enough workers are there."""
        return self._comm if self._comm is not None else self.next()

    def next(self) -> Comm:
        """Closes the comm of the last view, waits until there are enough workers, and returns a
        comm with all of them. Whoever joined first is worker 0."""
        if self._comm is not None:
            self._comm.close()
            self._comm = None
        pointer = c_void_p()
        self._wait(lambda: self._library.gw_group_next(self._at(), ctypes.byref(pointer)))
        assert pointer.value is not None
        self._comm = Comm(pointer.value, keep=self)
        return self._comm

    @property
    def due(self) -> bool:
        """Whether a worker is gone or waits to enter: all should soon call next()."""
        return bool(self._library.gw_group_due(self._at()))

    @property
    def view(self) -> int:
        """The number of the current view; 0 before the first."""
        return int(self._library.gw_group_view(self._at()))

    def report(self, step: int, *, steps: int = 0, loss: float = float("nan"),
               samples: float = float("nan"), bytes_sent: int = 0) -> None:
        """Tells the meeting how far this worker is, which `gradwire status` shows. samples
        are those of all workers in a second."""
        progress = Progress(ctypes.sizeof(Progress), step, steps, loss, samples, bytes_sent)
        self._library.gw_group_report(self._at(), ctypes.byref(progress))

    def tell(self, line: str) -> None:
        """Gives a line to the function that join() was given for them."""
        if self._tell is not None:
            self._tell(line)

    def leaving(self) -> None:
        """Says that this worker is about to leave. From now on a wait for others, also one
        inside a step, raises GradwireError when they are too few to go on with. It may be
        called from a signal handler; handle.leave() calls it."""
        self._library.gw_group_leaving(self._at())

    def leave(self) -> None:
        """Leaves the job and closes its comm."""
        if self._comm is not None:
            self._comm.close()
            self._comm = None
        pointer, self._pointer = self._pointer, None
        if pointer is not None:
            self._library.gw_group_leave(pointer)
        _open.discard(self)

    def _wait(self, call: Callable[[], int]) -> None:
        """Calls in a thread of its own, so that Ctrl-C can end the wait."""
        _in_thread(call, lambda: self._library.gw_group_interrupt(self._at()))

    def __enter__(self) -> Group:
        return self

    def __exit__(self, *_: Any) -> None:
        self.leave()


def _in_thread(call: Callable[[], int], stop: Callable[[], Any]) -> None:
    failed: List[BaseException] = []

    def body() -> None:
        try:
            check(call())
        except BaseException as error:  # goes on in the caller's thread
            failed.append(error)

    thread = threading.Thread(target=body, name="gradwire join", daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(0.1)
    except BaseException:
        stop()
        raise
    if failed:
        raise failed[0]


def join(meeting: str, *, key: Optional[str] = None, key_file: Union[str, Path, None] = None,
         workers: Union[int, Tuple[int, int]] = (1, 0), job: str = "job",
         name: Optional[str] = None, address: Optional[str] = None, port: int = 0,
         out_only: bool = False, encrypt: bool = True, streams: int = 1, timeout: float = 60.0,
         learn_timeout: bool = False,
         tell: Optional[Callable[[str], Any]] = None) -> Group:
    """Joins a job at its meeting and returns a Group. All workers give the same settings.

    meeting  "tcp://HOST:PORT", where `gradwire meet` runs, or "etcd://HOST:PORT,.../JOB"
    key      the job's key, or key_file, a file with it; by default GRADWIRE_KEY
    workers  how many the job has, or the least and the most; 0 is no limit
    job      the job's name, if meeting has none
    name     this worker's name in messages; by default its host's
    address  where the others reach this worker, port: and at which port
    out_only whether others cannot call this worker, because of a firewall or a NAT; it calls
             them, or talks through one that can be called
    encrypt  whether workers encrypt what they send each other
    streams  connections to each other worker, 1 to 16, for links that are long and wide
    timeout  seconds to reach the meeting and others, and without progress later
    learn_timeout  whether the time without progress follows the usual time of a round; see
             Handle.pause()
    tell     called with lines such as "waiting for 1 more worker"

    group = gradwire.join("tcp://alpha:7077", key_file="job.key", workers=2)
    handle = gradwire.attach(model, "gtopk:0.01", optimizer, group=group)"""
    library = load()
    least, most = (workers, workers) if isinstance(workers, int) else workers
    told = Tell(lambda _, line: tell(line.decode()) and None) if tell is not None else Tell()
    options = GroupOptions(
        ctypes.sizeof(GroupOptions), meeting.encode(), job.encode(), key_bytes(key, key_file),
        name.encode() if name else None, address.encode() if address else None, port, least, most,
        not encrypt, out_only, streams, learn_timeout, timeout, told, None)
    pointer = c_void_p()
    _in_thread(lambda: library.gw_group_join(ctypes.byref(pointer), ctypes.byref(options)), lambda: None)
    return Group(library, pointer.value, told, (least, most), tell)


def _leave_all() -> None:
    for group in list(_open):
        group.leave()


def _forget_all() -> None:
    """In a forked child: the connections and the thread are the parent's."""
    for group in list(_open):
        group._pointer = group._comm = None
    _open.clear()


def _register() -> None:
    import atexit
    atexit.register(_leave_all)
    os.register_at_fork(after_in_child=_forget_all)


_register()
