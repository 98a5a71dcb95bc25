# SPDX-License-Identifier: Apache-2.0
"""Comm: one worker's connection to the others. A comm and what is made on it belong
to one thread at a time."""
from __future__ import annotations

import atexit
import ctypes
import multiprocessing.util
import socket
import weakref
from typing import Any, Dict, List, Optional, Sequence

from ._api import (SPAWN_THREADS, CommOptions, LocalOptions, check, lib)

# Open comms. They are closed when the process ends in order, so that the others can
# tell that from a crash.
_open: "weakref.WeakSet[Comm]" = weakref.WeakSet()


def _close_all() -> None:
    for comm in list(_open):
        comm.close()


atexit.register(_close_all)
# Processes of multiprocessing may end without atexit.
multiprocessing.util.Finalize(None, _close_all, exitpriority=1)


class Comm:
    """Made by LocalGroup.join(), connect() or rendezvous(); a context manager."""

    def __init__(self, pointer: int, keep: Any = None):
        self._pointer: Optional[int] = pointer
        self._keep = keep  # what must live as long
        self._users: "weakref.WeakSet[Any]" = weakref.WeakSet()
        _open.add(self)

    @classmethod
    def from_sockets(cls, sockets: Sequence[Optional[socket.socket]], rank: int, *,
                     hosts: Optional[Sequence[str]] = None,
                     timeout: float = 60.0) -> Comm:
        """A comm over connected stream sockets, sockets[r] leading to worker r. They
        belong to the comm afterwards."""
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
        """The gw_comm; ValueError once closed."""
        if self._pointer is None:
            raise ValueError("this comm is closed")
        return self._pointer

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
        """Behaves from now on as if each worker were a host on a network such as
        "1gbit,50us". All workers call it before anything is sent."""
        check(lib.gw_comm_link(self.pointer, link.encode()))

    def traffic(self) -> Dict[str, float]:
        """Bytes and messages so far, and seconds spent waiting for them."""
        t = lib.gw_comm_traffic(self.pointer)
        return {name: getattr(t, name) for name, _ in t._fields_}

    def barrier(self) -> None:
        check(lib.gw_barrier(self.pointer))

    def allgather(self, mine: bytes) -> List[bytes]:
        """Everybody's bytes, in the order of ranks."""
        workers = self.workers
        lens = self._allgather(len(mine).to_bytes(8, "little"), 8)
        cap = max(int.from_bytes(length, "little") for length in lens)
        return self._allgather(mine, max(cap, 1)) if workers > 1 else [mine]

    def _allgather(self, mine: bytes, cap: int) -> List[bytes]:
        workers = self.workers
        everything = ctypes.create_string_buffer(workers * cap)
        lens = (ctypes.c_size_t * workers)()
        check(lib.gw_allgather(self.pointer, mine, len(mine), everything, cap, lens))
        return [everything.raw[r * cap:r * cap + lens[r]] for r in range(workers)]

    def close(self) -> None:
        """Ends the connection, and what was made on it; the others are told."""
        if self._pointer is None:
            return
        for user in list(self._users):
            user.close()
        pointer, self._pointer = self._pointer, None
        _open.discard(self)
        lib.gw_comm_free(pointer)

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
        self._pointer = ctypes.c_void_p()
        self._link = link.encode() if link else None
        options = LocalOptions(ctypes.sizeof(LocalOptions), workers, SPAWN_THREADS,
                               timeout, 0, self._link)
        check(lib.gw_local_group_new(ctypes.byref(self._pointer), ctypes.byref(options)))

    def join(self, rank: int) -> Comm:
        """The comm of one rank; it keeps the group alive."""
        pointer = ctypes.c_void_p()
        check(lib.gw_local_join(ctypes.byref(pointer), self._pointer, rank))
        return Comm(_address(pointer), keep=self)

    def __del__(self) -> None:
        if getattr(self, "_pointer", None):
            lib.gw_local_group_free(self._pointer)


def _address(pointer: ctypes.c_void_p) -> int:
    assert pointer.value is not None
    return pointer.value
