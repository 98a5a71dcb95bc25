# SPDX-License-Identifier: Apache-2.0
"""Comm: one worker's connection to the others. Only one thread at a time may use a comm
and what is made on it.
"""
from __future__ import annotations

import atexit
import ctypes
import multiprocessing.util
import os
import socket
import threading
import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, TypeVar

from ._api import (ERR_STOPPED, SPAWN_THREADS, CommOptions, LocalOptions, check, lib,
                   set_message)
from .errors import DataError
from .thread import Job, Worker

if TYPE_CHECKING:
    import numpy as np

T = TypeVar("T")

# Open comms. They are closed when the process ends in order, so that the others can
# tell that from a crash.
_open: "weakref.WeakSet[Comm]" = weakref.WeakSet()
_groups: "weakref.WeakSet[LocalGroup]" = weakref.WeakSet()

# The most that allgather() takes from anybody unless it is told otherwise.
_GATHER_MAX = 1 << 20


def _close_all() -> None:
    for comm in list(_open):
        comm.close()


def _forget_all() -> None:
    """Runs in a forked child, which has its parent's memory but none of its threads. The
    connections belong to the parent, so the child must not send anything on them, not even
    a goodbye."""
    for comm in list(_open):
        comm._forget()
    _open.clear()
    for group in list(_groups):
        group._pointer = None
    _groups.clear()


atexit.register(_close_all)
# Processes of multiprocessing may end without atexit.
multiprocessing.util.Finalize(None, _close_all, exitpriority=1)
os.register_at_fork(after_in_child=_forget_all)


class Comm:
    """A worker's connection to the others. LocalGroup.join(), connect() and rendezvous()
    make one. It is a context manager."""

    def __init__(self, pointer: int, keep: Any = None):
        self._pointer: Optional[int] = pointer
        self._keep = keep  # what must live as long
        self._users: "weakref.WeakSet[Any]" = weakref.WeakSet()
        self._worker = Worker()
        self._lock = threading.RLock()  # held while another thread is in the library
        self._why_closed = "this comm is closed"
        _open.add(self)

    @classmethod
    def from_sockets(cls, sockets: Sequence[Optional[socket.socket]], rank: int, *,
                     hosts: Optional[Sequence[str]] = None,
                     timeout: float = 60.0) -> Comm:
        """Makes a comm over connected stream sockets; sockets[r] is connected to worker r.
        The comm owns them afterwards."""
        workers = len(sockets)
        fds = (ctypes.c_int * workers)(*(s.fileno() if s else -1 for s in sockets))
        names = None
        if hosts is not None:
            names = (ctypes.c_char_p * workers)(*(h.encode() for h in hosts))
        options = CommOptions(ctypes.sizeof(CommOptions), timeout)
        pointer = ctypes.c_void_p()
        check(lib.gw_comm_sockets(ctypes.byref(pointer), fds, names, rank, workers,
                                  ctypes.byref(options)))
        for s in sockets:
            if s is not None:
                s.detach()
        return cls(_address(pointer))

    @property
    def pointer(self) -> int:
        """The gw_comm. Raises ValueError if the comm is closed."""
        if self._pointer is None:
            raise ValueError(self._why_closed)
        return self._pointer

    @property
    def is_open(self) -> bool:
        return self._pointer is not None

    @property
    def rank(self) -> int:
        return lib.gw_comm_rank(self.pointer)

    @property
    def workers(self) -> int:
        return lib.gw_comm_workers(self.pointer)

    @property
    def transport(self) -> str:
        return lib.gw_comm_transport(self.pointer).decode()

    def link(self, link: str) -> None:
        """Emulates a network such as "1gbit,50us", as if each worker were a host of its
        own. All workers call it before anything is sent."""
        check(lib.gw_comm_link(self.pointer, link.encode()))

    def traffic(self) -> Dict[str, float]:
        """Returns the bytes and messages so far, and the seconds spent waiting for them."""
        t = lib.gw_comm_traffic(self.pointer)
        return {name: getattr(t, name) for name, _ in t._fields_}

    # ---- calls that wait for others --------------------------------------------

    def run(self, work: Callable[[], T]) -> T:
        """Runs work, which may wait for other workers in the library, so that Ctrl-C can
        interrupt it. Then KeyboardInterrupt is raised, the others are told, and the comm is
        broken."""
        if threading.current_thread() is threading.main_thread() and self.workers > 1:
            return self.wait_for(self.begin(Job(work)))
        with self._lock:
            return work()

    def begin(self, job: Job) -> Job:
        """Gives work to the comm's own thread, which does it after what it already has to
        do."""
        assert self.pointer  # or ValueError
        return self._worker.run(job)

    def wait_for(self, job: Job) -> Any:
        """Waits for a job. Returns what it returns, or raises what it raises."""
        try:
            job.wait()
        except BaseException:
            self.stop(job)
            raise
        if job.error is not None:
            raise job.error
        return job.result

    def stop(self, job: Job) -> None:
        """Ends a job that waits for other workers, and tells them."""
        lib.gw_comm_interrupt(self.pointer)
        job.wait_out()
        self.fail(f"worker {self.rank} was interrupted")

    def interrupt(self) -> None:
        """Makes the thread that waits for other workers fail soon. Any thread may call
        it."""
        lib.gw_comm_interrupt(self.pointer)

    def pause(self) -> None:
        """Tells the others that this worker sends nothing for longer than a round takes,
        because it evaluates or writes a file: where they learn their time limit, they wait."""
        self.run(lambda: lib.gw_comm_pause(self.pointer))

    def fail(self, reason: str) -> None:
        """Breaks the comm, unless it is already broken, and tells the others why. Nobody
        else may use the comm at the same time."""
        set_message(ERR_STOPPED, reason)
        lib.gw_comm_fail(self.pointer, ERR_STOPPED)

    def barrier(self) -> None:
        self.run(lambda: check(lib.gw_barrier(self.pointer)))

    def broadcast(self, address: int, length: int) -> None:
        """Replaces the bytes at that address with worker 0's, on all workers."""
        self.run(lambda: check(lib.gw_broadcast(self.pointer, address, length, 0)))

    def sum_at(self, address: int, floats: int) -> None:
        """Replaces the float32 numbers at that address with their sums over the workers."""
        self.run(lambda: check(lib.gw_allreduce(self.pointer, address, floats)))

    def allgather(self, mine: bytes, *, limit: int = _GATHER_MAX) -> List[bytes]:
        """Returns the bytes of all workers, in the order of ranks. `limit` is the same on
        all workers. If any worker's data is longer, all of them raise DataError."""
        return self._allgather(mine, max(1, *self._lengths(len(mine), limit)))

    def _lengths(self, mine: int, limit: int) -> List[int]:
        """How many bytes each worker has to tell."""
        said = self._allgather(mine.to_bytes(8, "little"), 8)
        lengths = [int.from_bytes(data, "little") for data in said]
        for rank, (data, length) in enumerate(zip(said, lengths)):
            if len(data) != 8 or length > limit:
                raise DataError(f"worker {rank} announces {length} bytes, expected at most "
                                f"{limit}")
        return lengths

    def _allgather(self, mine: bytes, cap: int) -> List[bytes]:
        workers = self.workers
        everything = ctypes.create_string_buffer(workers * cap)
        lens = (ctypes.c_size_t * workers)()
        self.run(lambda: check(lib.gw_allgather(self.pointer, mine, len(mine), everything,
                                                cap, lens)))
        return [everything.raw[r * cap:r * cap + lens[r]] for r in range(workers)]

    def gather(self, mine: np.ndarray, *, limit: int) -> List[np.ndarray]:
        """Returns the bytes of all workers on worker 0, in the order of ranks, and [mine]
        elsewhere. Only worker 0 needs memory for all of them. `limit` is as for
        allgather()."""
        lengths = self._lengths(mine.nbytes, limit)
        if self.rank != 0:
            self._transfer(self.rank, mine)
            return [mine]
        import numpy as np  # not needed by who imports gradwire and nothing more
        others = [np.empty(length, np.uint8) for length in lengths[1:]]
        for rank, there in enumerate(others, 1):
            self._transfer(rank, there)
        return [mine, *others]

    def _transfer(self, sender: int, data: np.ndarray) -> None:
        """Sends data to worker 0, or receives it there."""
        address = data.ctypes.data
        self.run(lambda: check(lib.gw_transfer(self.pointer, sender, address, 0, address,
                                               data.nbytes)))

    # ---- the end ---------------------------------------------------------------

    def close(self) -> None:
        """Closes the connection and what was made on it, and tells the others. A thread
        that still waits for them is woken first, and fails."""
        if self._pointer is None:
            return
        lib.gw_comm_interrupt(self._pointer)
        self._worker.close()
        with self._lock:
            if self._pointer is None:
                return
            for user in list(self._users):
                user.close()
            pointer, self._pointer = self._pointer, None
            _open.discard(self)
            lib.gw_comm_free(pointer)

    def _forget(self) -> None:
        self._pointer, self._worker, self._lock = None, Worker(), threading.RLock()
        self._why_closed = "this comm belongs to the process that made it"
        for user in list(self._users):
            user._forget()

    def __enter__(self) -> Comm:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_pointer", None) is not None:
            self.close()


class LocalGroup:
    """Workers that are threads of this process.

        group = gradwire.LocalGroup(4)
        # in thread r:
        with group.join(r) as comm: ...
    """

    def __init__(self, workers: int, *, timeout: float = 60.0,
                 link: Optional[str] = None):
        self._pointer: Optional[ctypes.c_void_p] = ctypes.c_void_p()
        self._link = link.encode() if link else None
        options = LocalOptions(ctypes.sizeof(LocalOptions), workers, SPAWN_THREADS,
                               timeout, 0, self._link)
        check(lib.gw_local_group_new(ctypes.byref(self._pointer), ctypes.byref(options)))
        _groups.add(self)

    def join(self, rank: int) -> Comm:
        """Returns the comm of one rank, which keeps the group alive."""
        if self._pointer is None:
            raise ValueError("this group belongs to the process that made it")
        pointer = ctypes.c_void_p()
        check(lib.gw_local_join(ctypes.byref(pointer), self._pointer, rank))
        return Comm(_address(pointer), keep=self)

    def __del__(self) -> None:
        if getattr(self, "_pointer", None):
            lib.gw_local_group_free(self._pointer)


def _address(pointer: ctypes.c_void_p) -> int:
    assert pointer.value is not None
    return pointer.value
