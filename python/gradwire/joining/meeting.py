# SPDX-License-Identifier: Apache-2.0
"""The meeting of rendezvous(): every worker brings its record to worker 0's door, and
takes everybody's home. Worker 0 greets whoever calls, side by side, and turns away who
does not know the secret (handshake.py)."""
from __future__ import annotations

import functools
import socket
import time
from typing import Dict, List, Optional, Tuple

from . import handshake, members
from .calls import Call
from ..errors import GradwireError, MismatchError, PeerError
from .handshake import (EVERYBODY, FAILED, MEET, RECORD, REASON_MAX, Session, Stranger,
                        WrongSecret, clean)
from .lines import Conversation, Line, Lines
from .members import Address


class Host:
    """Worker 0."""

    def __init__(self, door: socket.socket, workers: int, where: Address, secret: bytes,
                 deadline: float):
        self._workers, self._where, self._secret = workers, where, secret
        self._lines = Lines(deadline)
        self._lines.open_door(door, self._greet)
        self._present: List[Tuple[Line, Session]] = []
        self._records: Dict[int, bytes] = {}

    def gather(self, record: bytes) -> List[bytes]:
        """Everybody's records, of which `record` is worker 0's."""
        self._records[0] = record
        try:
            while len(self._records) < self._workers:
                self._lines.turn()
                if time.monotonic() > self._lines.deadline:
                    raise PeerError(self._late())
            records = [self._records[r] for r in range(self._workers)]
            self._hand_out(members.pack_all(records))
            return records
        except BaseException as error:
            self._tell(error)
            raise
        finally:
            self._lines.close()

    def _greet(self, line: Line) -> Conversation:
        session = yield from handshake.answer(self._secret, MEET, 0,
                                              range(1, self._workers))
        _, record = yield from session.read_word({RECORD: members.RECORD_MAX})
        self._lines.welcome(line)
        self._present.append((line, session))
        self._take(session.peer, record)
        line.limit = self._lines.never
        line.failed = functools.partial(self._lose, session.peer)
        yield 1  # never comes: it listens until it is told
        raise Stranger("a worker sent more than its record")

    def _take(self, rank: int, record: bytes) -> None:
        if rank in self._records:
            raise GradwireError(f"two workers have rank {rank}")
        members.unpack(record, rank, self._workers)
        self._records[rank] = record

    def _lose(self, rank: int, line: Line, error: Exception) -> None:
        raise PeerError(f"worker {rank} left before all workers had joined")

    def _late(self) -> str:
        missing = min(r for r in range(self._workers) if r not in self._records)
        wrong = self._lines.turned_away.get(WrongSecret.__name__, 0)
        also = f"; {wrong} callers had another secret" if wrong else ""
        return (f"worker {missing} has not come to {self._where[0]}:{self._where[1]}{also}")

    def _hand_out(self, everybody: bytes) -> None:
        for line, session in self._present:
            line.failed = lambda line, error: None  # it has all it wanted, or is missed later
            line.say(session.word(EVERYBODY, everybody))
        while any(not line.flushed and self._lines.has(line) for line, _ in self._present):
            self._lines.turn()
            if time.monotonic() > self._lines.deadline:
                raise PeerError("some workers did not read the list of all workers in "
                                "time")

    def _tell(self, error: BaseException) -> None:
        text = str(error) if isinstance(error, GradwireError) else (
            "worker 0 was interrupted")
        for line, session in self._present:
            if self._lines.has(line):
                line.say(session.word(FAILED, clean(text).encode()[:REASON_MAX]))
                self._lines.see_off(line)


class Guest:
    """Any other worker."""

    def __init__(self, rank: int, workers: int, where: Address, secret: bytes,
                 deadline: float):
        self._rank, self._workers, self._where = rank, workers, where
        self._secret = secret
        self._lines = Lines(deadline)
        self._call = Call(self._lines, [where], self._talk)
        self._record = b""
        self._there = False  # worker 0 knows this one
        self._answer: Optional[bytes] = None

    def gather(self, record: bytes) -> List[bytes]:
        self._record = record
        try:
            while self._answer is None:
                if not self._there:
                    self._call.tick()
                self._lines.turn()
                if self._answer is None and time.monotonic() > self._lines.deadline:
                    raise PeerError(self._late())
            return members.unpack_all(self._answer, self._workers)
        finally:
            self._lines.close()

    def _talk(self, line: Line) -> Conversation:
        try:
            session = yield from handshake.call(self._secret, MEET, self._rank, 0,
                                                functools.partial(self._call.choose, line))
        except WrongSecret:
            raise MismatchError(f"worker 0 at {self._place} has another secret than worker "
                                f"{self._rank}; give all workers the same one with "
                                "`secret=` or GRADWIRE_SECRET") from None
        self._call.taken(line)
        self._there = True
        line.limit, line.failed = self._lines.never, self._lose
        line.say(session.word(RECORD, self._record))
        kind, body = yield from session.read_word(
            {EVERYBODY: members.all_max(self._workers), FAILED: REASON_MAX})
        if kind == FAILED:
            raise PeerError(clean(body.decode(errors="replace")))
        self._answer = body

    @property
    def _place(self) -> str:
        return f"{self._where[0]}:{self._where[1]}"

    def _lose(self, line: Line, error: Exception) -> None:
        raise PeerError(f"worker 0 at {self._place} left before all workers had joined")

    def _late(self) -> str:
        if self._there:
            return f"not all of {self._workers} workers have come to {self._place}"
        return f"worker 0 cannot be reached at {self._call.reasons() or self._place}"
