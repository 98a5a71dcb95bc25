# SPDX-License-Identifier: Apache-2.0
"""gradwire's messages through the user's own process group, for clusters where nothing
but the group's network is allowed, or encrypted.

A process group can wait for a message but not look whether it has come, and a wait that
has begun cannot be ended. So each other worker has two threads here, which wait: one
sends, one receives. The library sees a transport whose operations can be tested
(gw_transport in gradwire.h).

    a message     2 numbers: kind and length, then so many bytes
    kinds         data; a goodbye, which is the last; the reason why a worker fails

The bytes of a message are received only after the library has asked for it and said how
long it may be.
"""
from __future__ import annotations

import atexit
import ctypes
import itertools
import queue
import threading
import time
import weakref
from typing import Any, Callable, Dict, List, Optional

import torch
import torch.distributed as dist

from .._api import ERR_DATA, ERR_PEER, OK, PENDING, CommOptions, Transport, check, lib, set_message
from ..comm import Comm, _close_all
from ..joining.handshake import clean

_DATA, _GOODBYE, _REASON = 0, 1, 2
_REASON_MOST = 512  # bytes, of the library's messages
_TAG = 0x67770000   # of messages, so that they do not meet the user's own
_BRIEFLY = 5.0      # seconds to send what is left when the comm is closed

# How often each group has carried messages: every time has its own tags.
_uses: "weakref.WeakKeyDictionary[Any, Any]" = weakref.WeakKeyDictionary()

# A process must not end while one of these waits in the group's own code.
_threads: "weakref.WeakSet[threading.Thread]" = weakref.WeakSet()


@atexit.register
def _at_exit() -> None:
    """Says goodbye to all, and waits for theirs."""
    _close_all()
    deadline = time.monotonic() + _BRIEFLY
    for thread in list(_threads):
        if thread.is_alive():
            thread.join(max(0, deadline - time.monotonic()))


def group_comm(group: Any, timeout: float) -> Comm:
    """A comm of the workers of a process group. All of them call it together."""
    backend = str(dist.get_backend(group))
    if "gloo" not in backend and "mpi" not in backend:
        raise ValueError(f"transport='group' needs a process group that moves host memory, such "
                         f"as Gloo's, and '{backend}' does not; leave transport= out")
    if group not in _uses:
        _uses[group] = itertools.count()
    carrier = GroupTransport(group, _TAG + 2 * next(_uses[group]))
    options = CommOptions(ctypes.sizeof(CommOptions), timeout)
    pointer = ctypes.c_void_p()
    check(lib.gw_comm_new(ctypes.byref(pointer), carrier.table, None, carrier.rank,
                          carrier.workers, options))
    carrier.start()
    assert pointer.value is not None
    return Comm(pointer.value, keep=carrier)


class _Op:
    """A receive that the library has posted."""

    def __init__(self, buffer: int, cap: int):
        self.buffer, self.cap = buffer, cap
        self.length = -1  # until it is over
        self.status = PENDING


class _Peer:
    """Another worker, and the two threads that wait for it."""

    def __init__(self, group: Any, rank: int, tag: int, transport: GroupTransport):
        self.rank, self._group, self._tag = rank, group, tag
        self._there = _global_rank(group, rank)
        self._transport = transport
        self.outbox: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        self.asked: "queue.SimpleQueue[Optional[_Op]]" = queue.SimpleQueue()
        self._closes = False  # nobody asks for what comes now
        self.waiting = 0      # receives that were asked for and are not over
        self.ended = False    # it has said goodbye
        self.trouble = ""     # why it cannot go on
        self.threads = [threading.Thread(target=act, daemon=True, name=f"gradwire-{name}-{rank}")
                        for act, name in ((self._send_all, "to"), (self._receive_all, "from"))]
        _threads.update(self.threads)

    # ---- sending ---------------------------------------------------------------

    def _send_all(self) -> None:
        try:
            for kind, body in iter(self.outbox.get, None):
                self._put(torch.tensor([kind, body.numel()], dtype=torch.int64), self._tag)
                if body.numel():
                    self._put(body, self._tag + 1)
        except Exception as error:
            self._fail(error)

    def _put(self, tensor: torch.Tensor, tag: int) -> None:
        dist.send(tensor, self._there, group=self._group, tag=tag)

    # ---- receiving -------------------------------------------------------------

    def _receive_all(self) -> None:
        try:
            while self._receive():
                pass
        except Exception as error:
            self._fail(error)

    def _receive(self) -> bool:
        """Receives a message. Returns False if it was the last one. All are received up to
        the goodbye: a worker that sends what nobody takes would wait for ever."""
        kind, length = self._get(16, self._tag).view(torch.int64).tolist()
        if kind == _GOODBYE:
            self._say(ended=True)
            return False
        if kind not in (_DATA, _REASON) or length < 0 or (
                kind == _REASON and length > _REASON_MOST):
            self._say(f"worker {self.rank} sent what is no message", ended=True)
            return False
        if kind == _DATA:
            self._receive_data(length)
        else:
            reason = bytes(self._get(length, self._tag + 1).tolist())
            self._say(clean(reason.decode(errors="replace")) or f"worker {self.rank} failed")
        return True

    def _get(self, length: int, tag: int) -> torch.Tensor:
        tensor = torch.empty(length, dtype=torch.uint8)
        if length:
            dist.recv(tensor, self._there, group=self._group, tag=tag)
        return tensor

    def _receive_data(self, length: int) -> None:
        op = None if self._closes else self.asked.get()
        self._closes = op is None or length > op.cap
        body = self._get(length, self._tag + 1)
        if op is None:
            return
        with self._transport.changes() as open_:
            if open_ and length <= op.cap:
                ctypes.memmove(op.buffer, body.data_ptr(), length)
            op.length, op.status = length, OK if length <= op.cap else ERR_DATA
            self.waiting -= 1

    # ---- the end ---------------------------------------------------------------

    def _say(self, trouble: str = "", ended: bool = False) -> None:
        with self._transport.changes():
            self.trouble, self.ended = self.trouble or trouble, ended

    def _fail(self, error: Exception) -> None:
        said = clean(str(error).splitlines()[0]) if str(error) else type(error).__name__
        self._say(f"worker {self.rank} is gone; the process group reports: {said}", ended=True)


class GroupTransport:
    """The table of functions for one comm."""

    def __init__(self, group: Any, tag: int):
        self.rank, self.workers = dist.get_rank(group), dist.get_world_size(group)
        self._moved = threading.Condition()
        self._changes = self._seen = 0
        self._open = True
        self._ops: Dict[int, Optional[_Op]] = {}
        self._numbers = itertools.count(1)
        self._peers: List[Optional[_Peer]] = [
            None if r == self.rank else _Peer(group, r, tag, self) for r in range(self.workers)]
        self.table = self._table()

    def start(self) -> None:
        for peer in self._others():
            for thread in peer.threads:
                thread.start()

    def _others(self) -> List[_Peer]:
        return [peer for peer in self._peers if peer is not None]

    def _table(self) -> Transport:
        # Late exchanges (delay=1) run in the call that begins them, on the comm's thread.
        table = Transport(struct_size=ctypes.sizeof(Transport), name=b"group", one_thread=1)
        for name in ("send", "recv", "test", "wait", "lost", "abort", "close"):
            kind = dict(Transport._fields_)[name]
            setattr(table, name, kind(_guarded(getattr(self, "_" + name))))
        return table

    def changes(self) -> "_Change":
        """For threads of peers: `with` it, to change something. It gives whether the comm is
        still open."""
        return _Change(self)

    # ---- what the library calls --------------------------------------------------

    def _send(self, ctx: Any, to: int, buffer: int, length: int, request: Any) -> int:
        body = torch.empty(length, dtype=torch.uint8)
        if length:
            ctypes.memmove(body.data_ptr(), buffer, length)
        self._peer(to).outbox.put((_DATA, body))
        request.contents.word[0] = 0  # it is over: the body is ours
        return OK

    def _recv(self, ctx: Any, sender: int, buffer: int, cap: int, request: Any) -> int:
        op, number = _Op(buffer, cap), next(self._numbers)
        self._ops[number] = op
        request.contents.word[0] = number
        peer = self._peer(sender)
        with self._moved:
            peer.waiting += 1
        peer.asked.put(op)
        return OK

    def _peer(self, rank: int) -> _Peer:
        peer = self._peers[rank]
        assert peer is not None
        return peer

    def _test(self, ctx: Any, request: Any, length: Any) -> int:
        number = request.contents.word[0]
        op = self._ops.get(number)
        if op is None:
            return OK
        with self._moved:
            status = op.status
        if status == PENDING:
            return self._trouble()
        del self._ops[number]
        length[0] = op.length
        if status == ERR_DATA:
            set_message(ERR_DATA, f"a message of {op.length} bytes, at most {op.cap} were expected")
        return status

    def _trouble(self) -> int:
        for peer in self._others():
            if peer.trouble:
                set_message(ERR_PEER, peer.trouble)
                return ERR_PEER
        return PENDING

    def _wait(self, ctx: Any, seconds: float) -> int:
        with self._moved:
            if self._changes == self._seen:
                self._moved.wait(seconds)
            moved, self._seen = self._changes != self._seen, self._changes
        return OK if moved else PENDING

    def _lost(self, ctx: Any) -> int:
        """A worker that has ended, although something is expected of it."""
        with self._moved:
            return next((p.rank for p in self._others() if p.ended and p.waiting), -1)

    def _abort(self, ctx: Any, reason: bytes) -> None:
        body = torch.tensor(list(reason[:_REASON_MOST]), dtype=torch.uint8)
        for peer in self._others():
            peer.outbox.put((_REASON, body))

    def _close(self, ctx: Any) -> None:
        """Threads that receive end with the goodbye of the others."""
        with self._moved:
            self._open = False
        for peer in self._others():
            peer.outbox.put((_GOODBYE, torch.empty(0, dtype=torch.uint8)))
            peer.outbox.put(None)
            peer.asked.put(None)
        for peer in self._others():
            if not peer.ended:
                peer.threads[0].join(_BRIEFLY)


class _Change:
    def __init__(self, transport: GroupTransport):
        self._transport = transport

    def __enter__(self) -> bool:
        self._transport._moved.acquire()
        self._transport._changes += 1
        return self._transport._open

    def __exit__(self, *_: Any) -> None:
        self._transport._moved.notify_all()
        self._transport._moved.release()


def _guarded(act: Callable[..., Any]) -> Callable[..., Any]:
    """C cannot take an exception."""
    def call(*arguments: Any) -> Any:
        try:
            return act(*arguments)
        except Exception as error:
            set_message(ERR_PEER, f"the process group cannot be used: {error}")
            return ERR_PEER
    return call


def _global_rank(group: Any, rank: int) -> int:
    if hasattr(dist, "get_global_rank"):
        return dist.get_global_rank(group, rank)
    return dist.distributed_c10d._get_global_rank(group, rank)
