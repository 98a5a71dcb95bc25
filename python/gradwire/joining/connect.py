# SPDX-License-Identifier: Apache-2.0
"""Connects the workers by TCP, each to each.

connect() needs a way to tell all workers the addresses of all others, such as an
all-gather of a process group or of MPI. rendezvous() needs none: all workers meet at one
address. On every connection, both sides first prove that they know the job's secret
(handshake.py). Strangers are turned away and delay nobody.
"""
from __future__ import annotations

import os
import secrets
import socket
import sys
import time
from typing import Callable, List, Optional, Union

from . import members
from .addresses import addresses_of, listen, listen_at
from ..comm import Comm
from ..errors import GradwireError
from .meeting import Guest, Host
from .members import Address, Member
from .mesh import Mesh

Exchange = Callable[[bytes], List[bytes]]

_SECRET = "GRADWIRE_SECRET"
_SHORTEST = 8


def connect(rank: int, workers: int, exchange: Exchange, *, timeout: float = 60.0,
            address: Optional[str] = None) -> Comm:
    """Connects all workers. `exchange(data)` must return the bytes of all workers in the
    order of ranks: some 100 bytes each, at most 4,426. They contain the job's secret, so
    whoever can read them can join. `address` is the name or number by which other hosts
    reach this one. By default gradwire guesses, and tries several addresses."""
    secret = secrets.token_bytes(32) if rank == 0 else b""
    return _connect(rank, workers, exchange, address, secret, b"", None, timeout)


def _connect(rank: int, workers: int, exchange: Exchange, address: Optional[str],
             to_tell: bytes, secret: bytes, deadline: Optional[float],
             timeout: float) -> Comm:
    """Connects all workers. Either the secret is known, or worker 0 tells it."""
    with listen(workers) as listener:
        mine = Member(rank, workers, socket.gethostname(), to_tell,
                      addresses_of(listener, address))
        said = exchange(mine.pack())
        if len(said) != workers:
            raise ValueError(f"exchange() returned {len(said)} records, expected {workers}")
        everybody = [members.unpack(data, r, workers) for r, data in enumerate(said)]
        deadline = time.monotonic() + timeout if deadline is None else deadline
        sockets = Mesh(listener, rank, everybody, secret or everybody[0].secret,
                       deadline).run()
    return Comm.from_sockets(sockets, rank, hosts=[e.host for e in everybody],
                             timeout=timeout)


# ---- all meet at one address ---------------------------------------------------


def rendezvous(rank: int, workers: int, where: str, *, timeout: float = 60.0,
               address: Optional[str] = None,
               secret: Union[str, bytes, None] = None) -> Comm:
    """Connects workers that know only where worker 0 is, "host:port", and the job's secret.
    The secret is any text that is hard to guess, the same for all workers, given here or in
    the environment variable GRADWIRE_SECRET. Without one, worker 0 makes one and prints it
    on standard error, for the other workers. It takes at most `timeout` seconds."""
    place = _place(where)
    if not 0 <= rank < workers:
        raise ValueError(f"invalid rank {rank}: there are {workers} workers")
    deadline = time.monotonic() + timeout
    key = _secret(rank, workers, secret)
    gather = _host(workers, place, key, deadline) if rank == 0 else (
        Guest(rank, workers, place, key, deadline).gather)
    return _connect(rank, workers, gather, address, b"", key, deadline, timeout)


def _place(where: str) -> Address:
    host, _, port = where.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"invalid address '{where}'; expected host:port")
    return host, int(port)


def _host(workers: int, place: Address, key: bytes, deadline: float) -> Exchange:
    def gather(record: bytes) -> List[bytes]:
        try:
            door = listen_at(place, workers)
        except OSError as error:
            raise GradwireError(f"worker 0 cannot listen at {place[0]}:{place[1]} "
                                f"({error.strerror or error})") from None
        with door:
            return Host(door, workers, place, key, deadline).gather(record)

    return gather


def _secret(rank: int, workers: int, given: Union[str, bytes, None]) -> bytes:
    if given is None:
        given = os.environ.get(_SECRET)
    if given is None and (rank == 0 or workers == 1):
        given = _draw(workers)
    if given is None:
        raise ValueError("rendezvous() needs the job's secret: give all workers the same "
                         f"one with `secret=` or {_SECRET}, or give the others the one "
                         "that worker 0 prints")
    key = given if isinstance(given, bytes) else given.encode()
    if len(key) < _SHORTEST:
        raise ValueError(f"a secret of {len(key)} bytes is easy to guess; use at least "
                         f"{_SHORTEST}")
    return key


def _draw(workers: int) -> str:
    drawn = secrets.token_hex(16)
    if workers > 1:
        print(f"gradwire: start the other workers with {_SECRET}={drawn}", file=sys.stderr,
              flush=True)
    return drawn
