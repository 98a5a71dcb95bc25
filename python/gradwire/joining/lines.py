# SPDX-License-Identifier: Apache-2.0
"""Many connections at once, none of which can hold up the others.

A Line is a socket with a conversation (handshake.py): a generator that yields bytes to
be sent, or the number of bytes it wants next. Lines is the one loop that serves all of
them, the door at which others call, and the clock.
"""
from __future__ import annotations

import errno
import math
import os
import selectors
import socket
import time
from typing import Any, Callable, Dict, Generator, List, Optional

from .handshake import Stranger

# How many callers that have not proved themselves are listened to at a time. The oldest
# makes room for the next, but not before it had some time to speak: many workers may
# call at once.
GUESTS_MAX = 64
GRACE_SECONDS = 0.5
# How long they may take for the whole greeting.
GUEST_SECONDS = 10.0
# The longest sleep.
_NAP = 0.2

Conversation = Generator[Any, bytes, Any]
Failed = Callable[["Line", Exception], None]


class Line:
    """A connection, or a call that may become one. `failed` is told, once, why it has
    ended; not if somebody here closes it."""

    def __init__(self, sock: socket.socket, talk: Callable[[Line], Conversation],
                 failed: Failed, limit: float, connecting: bool = False):
        self.sock = sock
        self.since = time.monotonic()
        self.limit = limit  # on the same clock
        self.failed = failed
        self._connecting = connecting
        self._talk = talk(self)
        self._out = b""
        self._in = b""
        self._wants = 0  # bytes; 0 before the conversation has begun
        self.over = False

    def fileno(self) -> int:
        return self.sock.fileno()

    @property
    def events(self) -> int:
        """What to wait for; nothing once the conversation is over."""
        reads = 0 if self.over else selectors.EVENT_READ
        return reads | (selectors.EVENT_WRITE if self._connecting or self._out else 0)

    def say(self, data: bytes) -> None:
        self._out += data

    @property
    def flushed(self) -> bool:
        return not self._out

    def advance(self) -> None:
        """Goes on as far as it can without waiting; OSError, EOFError or Stranger."""
        if self._connecting:
            number = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if number:
                raise OSError(number, os.strerror(number))
            self._connecting = False
        try:
            while self._turn():
                pass
        except BlockingIOError:
            return

    def _turn(self) -> bool:
        """One send or one step of the conversation; False when it is over."""
        self._flush()
        if self.over:
            return False
        if self._wants == 0:
            return self._next(None)
        part = self.sock.recv(self._wants - len(self._in))
        if not part:
            self._talk.throw(EOFError("the connection ended"))
        self._in += part
        if len(self._in) == self._wants:
            data, self._in = self._in, b""
            return self._next(data)
        return True

    def _flush(self) -> None:
        while self._out:
            self._out = self._out[self.sock.send(self._out):]

    def part(self) -> None:
        """Says what there is to say and nothing more. What has come is read: bytes that
        nobody has read make the other side lose ours."""
        self._flush()
        self.sock.shutdown(socket.SHUT_WR)
        while self.sock.recv(4096):
            pass

    def _next(self, data: Optional[bytes]) -> bool:
        self._wants = 0
        try:
            asked = self._talk.send(data)  # type: ignore[arg-type]
        except StopIteration:
            self.over = True
            return bool(self._out)
        if isinstance(asked, int):
            self._wants = asked
        else:
            self.say(asked)
        return True


class Lines:
    """The loop. close() closes what was not released."""

    never = math.inf  # a limit for lines that only the deadline ends

    def __init__(self, deadline: float):
        self.deadline = deadline
        self.turned_away: Dict[str, int] = {}  # kinds of strangers, and how many
        self._selector = selectors.DefaultSelector()
        self._lines: List[Line] = []
        self._guests: List[Line] = []  # callers that are not known yet, oldest first
        self._door: Optional[socket.socket] = None
        self._greet: Optional[Callable[[Line], Conversation]] = None

    # ---- the door --------------------------------------------------------------

    def open_door(self, listener: socket.socket,
                  greet: Callable[[Line], Conversation]) -> None:
        """Has everybody who calls at the listener greeted."""
        listener.setblocking(False)
        self._door, self._greet = listener, greet

    def _full(self) -> bool:
        return (len(self._guests) >= GUESTS_MAX and
                time.monotonic() < self._guests[0].since + GRACE_SECONDS)

    def _watch_door(self) -> None:
        if self._door is not None:
            self._watch(self._door, 0 if self._full() else selectors.EVENT_READ, None)

    def _let_in(self) -> None:
        assert self._door is not None and self._greet is not None
        while not self._full():
            try:
                sock, _ = self._door.accept()
            except BlockingIOError:
                return
            except OSError as error:  # a caller that left already, or no descriptors
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    self._make_room()
                return
            if len(self._guests) >= GUESTS_MAX:
                self._make_room()
            sock.setblocking(False)
            line = Line(sock, self._greet, self._turn_away, time.monotonic() + GUEST_SECONDS)
            self.add(line)
            self._guests.append(line)

    def _make_room(self) -> None:
        if self._guests:
            self.close_line(self._guests[0])
        else:
            time.sleep(0.01)

    def _turn_away(self, line: Line, error: Exception) -> None:
        kind = type(error).__name__
        self.turned_away[kind] = self.turned_away.get(kind, 0) + 1

    def welcome(self, line: Line) -> None:
        """This guest has proved who it is, and is no longer one of many."""
        self._guests.remove(line)

    # ---- lines -----------------------------------------------------------------

    def add(self, line: Line) -> None:
        self._lines.append(line)

    def has(self, line: Line) -> bool:
        return line in self._lines

    def close_line(self, line: Line) -> None:
        self.release(line)
        line.sock.close()

    def release(self, line: Line) -> socket.socket:
        """Its socket, which the loop has nothing to do with any more."""
        if line in self._lines:
            self._lines.remove(line)
            self._watch(line, 0, None)
        if line in self._guests:
            self._guests.remove(line)
        return line.sock

    def see_off(self, line: Line) -> None:
        """Closes it so that what was said last still arrives."""
        try:
            line.part()
        except OSError:
            pass  # it is gone, or does not listen
        self.close_line(line)

    def turn(self) -> None:
        """Sleeps until something happens, a fifth of a second at most, and serves it."""
        self._watch_door()
        for line in self._lines:
            self._watch(line, line.events, line)
        ready = [key.data for key, _ in self._selector.select(self._nap())]
        for line in ready:
            if line in self._lines:
                self._serve(line)
        if None in ready:
            self._let_in()
        self._drop_late()

    def _watch(self, what: Any, events: int, data: Optional[Line]) -> None:
        if what not in self._selector.get_map():
            if events:
                self._selector.register(what, events, data)
        elif events:
            self._selector.modify(what, events, data)
        else:
            self._selector.unregister(what)

    def _nap(self) -> float:
        now = time.monotonic()
        soonest = min([self.deadline, *(line.limit for line in self._lines)])
        return min(_NAP, max(0.0, soonest - now))

    def _serve(self, line: Line) -> None:
        try:
            line.advance()
        except (OSError, EOFError, Stranger) as error:
            self.close_line(line)
            line.failed(line, error)

    def _drop_late(self) -> None:
        now = time.monotonic()
        for line in [line for line in self._lines if line.limit < now]:
            if self.has(line):
                self.close_line(line)
                line.failed(line, TimeoutError("no answer in time"))

    def close(self) -> None:
        for line in list(self._lines):
            self.close_line(line)
        self._selector.close()
