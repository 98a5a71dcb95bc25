# SPDX-License-Identifier: Apache-2.0
"""Calling a worker that has several addresses, of which some may be wrong guesses.

    round 1   address a -----(silence)------------> given up after 5 s
              address b  0.3 s later --> refused
              address c  at once, since b failed --> answers: the others are closed
    round 2   0.2 s after the last of round 1 has failed, with twice the patience

A call is a try; only what the caller of this makes of the answers ends them.
"""
from __future__ import annotations

import errno
import os
import socket
import time
from typing import Any, Callable, Dict, List, Sequence, Tuple

from .addresses import resolve
from .lines import Conversation, Line, Lines
from .members import Address

# How long the first try of an address lasts; each round doubles it, so that no network
# is too slow.
TRY_SECONDS = 5.0
_HEAD_START, _PAUSE = 0.3, 0.2
# After so many rounds in which each address was refused there is nobody.
REFUSED_ROUNDS = 5


class Call:
    def __init__(self, lines: Lines, addresses: Sequence[Address],
                 talk: Callable[[Line], Conversation]):
        self._lines = lines
        self._addresses = addresses
        self._talk = talk
        self._patience = TRY_SECONDS
        self._pending: List[Line] = []
        self._untried: List[Tuple[Any, Any, Address]] = []
        self._next = time.monotonic()
        self._names: Dict[Line, Address] = {}
        self._failures: List[bool] = []  # of this round: whether it was refused
        self._reasons: Dict[Address, str] = {}
        self._refused = 0  # rounds in a row

    @property
    def refused(self) -> bool:
        """Whether the hosts say that nobody listens there."""
        return self._refused >= REFUSED_ROUNDS

    def reasons(self) -> str:
        return " or ".join(f"{host}:{port} ({why})"
                           for (host, port), why in self._reasons.items())

    def tick(self) -> None:
        """Tries the next address when it is time to."""
        if time.monotonic() < self._next:
            return
        if not self._untried and not self._pending:
            self._begin_round()
        if self._untried:
            self._next = time.monotonic() + _HEAD_START
            self._try(*self._untried.pop(0))

    def _begin_round(self) -> None:
        self._failures = []
        self._untried = [(entry[0], entry[4], address) for address in self._addresses
                         for entry in resolve(*address, kind=socket.SOCK_STREAM)]
        if not self._untried:
            self._reasons = {a: "the name is not known" for a in self._addresses}
            self._next = time.monotonic() + _PAUSE

    def _try(self, family: int, to: Any, address: Address) -> None:
        try:
            sock = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            self._note(address, error)
            return
        sock.setblocking(False)
        limit = min(time.monotonic() + self._patience, self._lines.deadline)
        line = Line(sock, self._talk, self._failed, limit, connecting=True)
        number = sock.connect_ex(to)
        if number not in (0, errno.EINPROGRESS):
            sock.close()
            self._note(address, OSError(number, os.strerror(number)))
            return
        self._names[line] = address
        self._pending.append(line)
        self._lines.add(line)

    def _failed(self, line: Line, error: Exception) -> None:
        self._pending.remove(line)
        self._note(self._names.pop(line), error)

    def _note(self, address: Address, error: Exception) -> None:
        self._reasons[address] = getattr(error, "strerror", None) or str(error)
        self._failures.append(isinstance(error, ConnectionRefusedError))
        self._next = time.monotonic()
        if not self._untried and not self._pending:
            self._refused = self._refused + 1 if all(self._failures) else 0
            self._patience *= 2
            self._next += _PAUSE

    def choose(self, line: Line) -> None:
        """This try is the one: the others are given up."""
        self._untried = []
        for other in [other for other in self._pending if other is not line]:
            self._pending.remove(other)
            self._lines.close_line(other)

    def taken(self, line: Line) -> None:
        """The call has come to its end: this line is somebody else's from now on."""
        self._pending.remove(line)
        self.stop()

    def stop(self) -> None:
        """No more tries."""
        for line in self._pending:
            self._lines.close_line(line)
        self._pending, self._untried = [], []
