# SPDX-License-Identifier: Apache-2.0
"""Connects the workers by TCP, each with each.

connect() needs some way by which the workers can tell each other their addresses
(a process group's all-gather, MPI's); rendezvous() is for those who have none: all
meet at one address. Every connection begins with a proof of both sides that they know
the job's secret (handshake.py); strangers are turned away and hold up nobody.
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
from .comm import Comm
from .errors import GradwireError
from .meeting import Guest, Host
from .members import Address, Member
from .mesh import Mesh

Exchange = Callable[[bytes], List[bytes]]

_SECRET = "GRADWIRE_SECRET"
_SHORTEST = 8


def connect(rank: int, workers: int, exchange: Exchange, *, timeout: float = 60.0,
            address: Optional[str] = None) -> Comm:
    """Connects all workers; `exchange(data)` must return everybody's bytes, some 100 and
    at most 4,426, in the order of ranks. The job's secret is among them: whoever can
    read them can join. `address` is the name or number by which others reach this host;
    by default it is guessed, and several guesses are tried."""
    secret = secrets.token_bytes(32) if rank == 0 else b""
    return _connect(rank, workers, exchange, address, secret, b"", None, timeout)


def _connect(rank: int, workers: int, exchange: Exchange, address: Optional[str],
             to_tell: bytes, secret: bytes, deadline: Optional[float],
             timeout: float) -> Comm:
    """The secret is known, or worker 0 tells it."""
    with listen(workers) as listener:
        mine = Member(rank, workers, socket.gethostname(), to_tell,
                      addresses_of(listener, address))
        said = exchange(mine.pack())
        if len(said) != workers:
            raise ValueError(f"exchange() has returned {len(said)} records of {workers}")
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
    """Connects workers that know nothing but where worker 0 is, "host:port", and the
    job's secret: any text that is hard to guess, the same for all, here or in the
    environment as GRADWIRE_SECRET. Without one worker 0 draws it and shows it on the
    standard error, for the others. All of it takes `timeout` seconds at most."""
    place = _place(where)
    if not 0 <= rank < workers:
        raise ValueError(f"rank {rank} is not one of {workers} workers")
    deadline = time.monotonic() + timeout
    key = _secret(rank, workers, secret)
    gather = _host(workers, place, key, deadline) if rank == 0 else (
        Guest(rank, workers, place, key, deadline).gather)
    return _connect(rank, workers, gather, address, b"", key, deadline, timeout)


def _place(where: str) -> Address:
    host, _, port = where.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"'{where}' is not host:port")
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
                         f"by `secret=` or {_SECRET}, or the others what worker 0 shows")
    key = given if isinstance(given, bytes) else given.encode()
    if len(key) < _SHORTEST:
        raise ValueError(f"a secret of {len(key)} bytes is easy to guess: give at least "
                         f"{_SHORTEST}")
    return key


def _draw(workers: int) -> str:
    drawn = secrets.token_hex(16)
    if workers > 1:
        print(f"gradwire: start the other workers with {_SECRET}={drawn}", file=sys.stderr,
              flush=True)
    return drawn
