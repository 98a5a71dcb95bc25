# SPDX-License-Identifier: Apache-2.0
"""Connects the workers, each with each: calls those below, is called by those above.

A worker says `ready` to all when it has a proven connection to every other, and is done
when all have said so. Until then it listens: a caller that gave up calls again, and the
newer connection takes the place of the older. One that cannot go on says why, and
everybody gives up with that reason.

Who is dead is known by its connection, which ends, or by its address, which refuses: a
worker listens before its address is known to anybody. Those above that do not call are
looked for there.
"""
from __future__ import annotations

import functools
import socket
import time
from typing import Dict, List, Optional, Sequence, Set

from . import handshake
from .calls import Call
from ..errors import GradwireError, PeerError
from .handshake import FAILED, MESH, READY, REASON_MAX, Session, clean
from .lines import Conversation, Line, Lines
from .members import Member

# How long to wait for the call of another before looking whether it is there at all.
_LOOK_SECONDS = 1.0


class Mesh:
    def __init__(self, listener: socket.socket, rank: int, members: Sequence[Member],
                 secret: bytes, deadline: float):
        self._rank, self._members, self._secret = rank, members, secret
        self._others = [r for r in range(len(members)) if r != rank]
        self._lines = Lines(deadline)
        self._lines.open_door(listener, self._greet)
        self._taken: Dict[int, Line] = {}
        self._sessions: Dict[int, Session] = {}
        self._ready: Set[int] = set()  # who has said so
        self._told: Set[int] = set()   # to whom this worker has
        self._callers = {r for r in self._others if r > rank}
        self._calls = {peer: Call(self._lines, members[peer].addresses,
                                  functools.partial(self._call, peer))
                       for peer in self._others if peer < rank}
        self._looks: Dict[int, Call] = {}
        self._look_at = {peer: time.monotonic() + _LOOK_SECONDS for peer in self._callers}

    def run(self) -> List[Optional[socket.socket]]:
        """The sockets, in the order of ranks; PeerError names who is missing."""
        try:
            while not self._complete():
                self._tick()
                self._lines.turn()
            return [None if r == self._rank else self._lines.release(self._taken[r])
                    for r in range(len(self._members))]
        except BaseException as error:
            self._tell(error)
            raise
        finally:
            self._lines.close()

    def _complete(self) -> bool:
        if len(self._taken) < len(self._others):
            return False
        for peer in [p for p in self._others if p not in self._told]:
            self._taken[peer].say(self._sessions[peer].word(READY))
            self._told.add(peer)
        return (len(self._ready) == len(self._others) and
                all(line.flushed for line in self._taken.values()))

    def _tick(self) -> None:
        for peer, call in self._calls.items():
            if peer not in self._taken:
                call.tick()
                if call.refused:
                    raise PeerError(self._unreachable(peer))
        self._look()
        if time.monotonic() > self._lines.deadline:
            raise PeerError(self._late())

    # ---- conversations ---------------------------------------------------------

    def _call(self, peer: int, line: Line) -> Conversation:
        call = self._calls[peer]
        session = yield from handshake.call(self._secret, MESH, self._rank, peer,
                                            functools.partial(call.choose, line))
        call.taken(line)
        yield from self._stay(line, session)

    def _greet(self, line: Line) -> Conversation:
        session = yield from handshake.answer(self._secret, MESH, self._rank, self._callers)
        self._lines.welcome(line)
        yield from self._stay(line, session)

    def _stay(self, line: Line, session: Session) -> Conversation:
        self._take(session.peer, line, session)
        kind, body = yield from session.read_word({READY: 0, FAILED: REASON_MAX})
        if kind == FAILED:
            raise PeerError(clean(body.decode(errors="replace")))
        self._ready.add(session.peer)
        self._callers.discard(session.peer)

    def _take(self, peer: int, line: Line, session: Session) -> None:
        if peer in self._taken:
            self._lines.close_line(self._taken[peer])
        self._taken[peer], self._sessions[peer] = line, session
        self._told.discard(peer)
        line.limit = self._lines.never
        line.failed = functools.partial(self._lose, peer)

    def _lose(self, peer: int, line: Line, error: Exception) -> None:
        """A caller may have given up and call again; a callee stays while it lives."""
        del self._taken[peer]
        self._told.discard(peer)
        if peer < self._rank:
            raise PeerError(f"worker {peer} on host {self._host(peer)} is gone")

    # ---- who is not there ------------------------------------------------------

    def _look(self) -> None:
        """Whether those who should have called are there, now and then."""
        for peer in [p for p in self._callers if p not in self._taken]:
            if time.monotonic() < self._look_at[peer]:
                continue
            if peer not in self._looks:
                self._looks[peer] = Call(self._lines, self._members[peer].addresses,
                                         functools.partial(self._found, peer))
            self._looks[peer].tick()
            if peer in self._looks and self._looks[peer].refused:
                raise PeerError(f"worker {peer} on host {self._host(peer)} is gone")

    def _found(self, peer: int, line: Line) -> Conversation:
        """Somebody listens there: good enough for another while."""
        self._looks.pop(peer).stop()
        self._look_at = {peer: time.monotonic() + _LOOK_SECONDS for peer in self._callers}
        return
        yield  # makes it a conversation, of no words

    def _host(self, peer: int) -> str:
        return self._members[peer].host

    def _unreachable(self, peer: int) -> str:
        return (f"worker {peer} on host {self._host(peer)} cannot be reached at "
                f"{self._calls[peer].reasons() or 'its addresses in time'}; if it is "
                "there, give its address by `address=` or GRADWIRE_ADDRESS")

    def _late(self) -> str:
        missing = [p for p in self._others if p not in self._taken]
        if missing and missing[0] < self._rank:
            return self._unreachable(missing[0])
        if missing:
            return (f"worker {missing[0]} on host {self._host(missing[0])} has not "
                    f"connected to worker {self._rank}")
        # Somebody is not ready, or does not take the word that this worker is.
        slow = min(p for p in self._others
                   if p not in self._ready or not self._taken[p].flushed)
        return f"worker {slow} on host {self._host(slow)} has not connected to all others"

    # ---- giving up -------------------------------------------------------------

    def _tell(self, error: BaseException) -> None:
        """Why this worker gives up, to those who have not been told that all is well."""
        text = str(error) if isinstance(error, GradwireError) else (
            f"worker {self._rank} was interrupted")
        reason = clean(text).encode()[:REASON_MAX]
        for peer, line in self._taken.items():
            if peer not in self._told:
                line.say(self._sessions[peer].word(FAILED, reason))
                self._lines.see_off(line)
