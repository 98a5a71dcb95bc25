# SPDX-License-Identifier: Apache-2.0
"""Connects the workers by TCP, each with each.

connect() needs some way by which the workers can tell each other their addresses
(a process group's all-gather, MPI's); rendezvous() is for those who have none: all
meet at one address. A connection begins with a greeting:

    16 bytes: a secret that worker 0 has drawn | u32: from | u32: to

so that strangers, and addresses that lead to another host than was meant, are
turned away. The answer is the same 24 bytes.
"""
from __future__ import annotations

import os
import pickle
import secrets
import socket
import struct
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from .comm import Comm
from .errors import GradwireError, PeerError

_GREETING = struct.Struct("<16sII")
# How long one try to reach one address may take.
_TRY_SECONDS = 5.0

Exchange = Callable[[Any], List[Any]]
Address = Tuple[str, int]


def connect(rank: int, workers: int, exchange: Exchange, *, timeout: float = 60.0,
            address: Optional[str] = None) -> Comm:
    """Connects all workers; `exchange(obj)` must return everybody's objects in the
    order of ranks. `address` is the name or number by which others reach this host;
    by default it is guessed, and several guesses are tried."""
    listener = _listen(workers)
    try:
        mine = {"addresses": _addresses(listener, address), "host": socket.gethostname(),
                "secret": secrets.token_bytes(16) if rank == 0 else None}
        everybody = exchange(mine)
        sockets = _mesh(listener, rank, everybody, time.monotonic() + timeout)
    finally:
        listener.close()
    return Comm.from_sockets(sockets, rank, hosts=[e["host"] for e in everybody],
                             timeout=timeout)


# ---- addresses -----------------------------------------------------------------


def _listen(backlog: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("", 0), family=socket.AF_INET6,
                                        backlog=backlog, dualstack_ipv6=True)
        except OSError:
            pass  # the kernel has no IPv6 here: IPv4 it is
    return socket.create_server(("", 0), backlog=backlog)


def _towards(host: str) -> List[str]:
    """This host's address on the way to another; nothing is sent."""
    found = []
    for family, kind, _, _, to in _resolve(host, 9):
        try:
            with socket.socket(family, kind) as s:
                s.connect(to)
                found.append(s.getsockname()[0])
        except OSError:
            continue
    return found


def _resolve(host: str, port: int, kind: int = socket.SOCK_DGRAM) -> List[Any]:
    try:
        return socket.getaddrinfo(host, port, type=kind)
    except OSError:
        return []


def _addresses(listener: socket.socket, given: Optional[str]) -> List[Address]:
    port = listener.getsockname()[1]
    given = given or os.environ.get("GRADWIRE_ADDRESS")
    if given:
        return [(given, port)]
    hosts: List[str] = []
    master = os.environ.get("MASTER_ADDR")
    if master:
        hosts += _towards(master)
    hosts += [entry[4][0] for entry in _resolve(socket.gethostname(), port)]
    hosts.append("127.0.0.1")
    return [(h, port) for h in dict.fromkeys(hosts)]


# ---- each with each ------------------------------------------------------------


def _mesh(listener: socket.socket, rank: int, everybody: List[Dict[str, Any]],
          deadline: float) -> List[Optional[socket.socket]]:
    """Calls the workers below, is called by those above."""
    workers, secret = len(everybody), everybody[0]["secret"]
    sockets: List[Optional[socket.socket]] = [None] * workers
    failures: List[BaseException] = []

    def answer() -> None:
        try:
            _answer(listener, rank, workers, secret, deadline, sockets)
        except BaseException as error:  # handed to the caller below
            failures.append(error)

    answering = threading.Thread(target=answer, name="gradwire-answer", daemon=True)
    answering.start()
    try:
        for peer in range(rank):
            greeting = _GREETING.pack(secret, rank, peer)
            sockets[peer] = _call(peer, everybody[peer], greeting, deadline)
    except BaseException as error:
        failures.append(error)
    answering.join()
    if failures:
        for s in sockets:
            if s is not None:
                s.close()
        raise failures[0]
    return sockets


def _receive(s: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        part = s.recv(length - len(data))
        if not part:
            break
        data += part
    return data


def _left(deadline: float, at_most: float = _TRY_SECONDS) -> float:
    return max(0.01, min(at_most, deadline - time.monotonic()))


def _answer(listener: socket.socket, rank: int, workers: int, secret: bytes,
            deadline: float, sockets: List[Optional[socket.socket]]) -> None:
    missing = set(range(rank + 1, workers))
    while missing:
        if time.monotonic() > deadline:
            raise PeerError(f"worker {min(missing)} has not connected to worker {rank}")
        listener.settimeout(_left(deadline))
        try:
            s, _ = listener.accept()
        except socket.timeout:
            continue
        s.settimeout(_left(deadline))
        try:
            greeting = _receive(s, _GREETING.size)
            key, caller, called = _GREETING.unpack(greeting)
            if key != secret or called != rank or caller not in missing:
                raise ValueError("a stranger")
            s.sendall(greeting)
        except (OSError, ValueError, struct.error):
            s.close()
            continue
        sockets[caller] = s
        missing.remove(caller)


def _call(peer: int, info: Dict[str, Any], greeting: bytes,
          deadline: float) -> socket.socket:
    reasons: Dict[str, str] = {}
    while time.monotonic() < deadline:
        for host, port in info["addresses"]:
            try:
                s = socket.create_connection((host, port), timeout=_left(deadline))
            except OSError as error:
                reasons[host] = f"{host}:{port} ({error})"
                continue
            try:
                s.sendall(greeting)
                if _receive(s, len(greeting)) == greeting:
                    return s
                reasons[host] = f"{host}:{port} (somebody else answers)"
            except OSError as error:
                reasons[host] = f"{host}:{port} ({error})"
            s.close()
        time.sleep(0.2)
    raise PeerError(
        f"worker {peer} on host {info['host']} cannot be reached at "
        f"{' or '.join(reasons.values()) or 'its addresses in time'}; "
        "give its address by `address=` or GRADWIRE_ADDRESS")


# ---- all meet at one address ---------------------------------------------------


def rendezvous(rank: int, workers: int, where: str, *, timeout: float = 60.0,
               address: Optional[str] = None) -> Comm:
    """Connects workers that know nothing but where worker 0 is: "host:port". Use it
    in a network you trust: what workers say there is taken as it is."""
    host, _, port = where.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"'{where}' is not host:port")
    if not 0 <= rank < workers:
        raise ValueError(f"rank {rank} is not one of {workers} workers")
    deadline = time.monotonic() + timeout
    meet = _host_meeting if rank == 0 else _join_meeting

    def exchange(mine: Any) -> List[Any]:
        return meet(rank, workers, (host, int(port)), mine, deadline)

    return connect(rank, workers, exchange, timeout=timeout, address=address)


def _send_object(s: socket.socket, value: Any) -> None:
    data = pickle.dumps(value)
    s.sendall(struct.pack("<Q", len(data)) + data)


def _receive_object(s: socket.socket) -> Any:
    length, = struct.unpack("<Q", _receive(s, 8))
    return pickle.loads(_receive(s, length))


def _host_meeting(_: int, workers: int, where: Address, mine: Any,
                  deadline: float) -> List[Any]:
    everybody: List[Any] = [mine] + [None] * (workers - 1)
    guests: List[socket.socket] = []
    with socket.create_server(where, backlog=workers) as door:
        while len(guests) < workers - 1:
            door.settimeout(_left(deadline, 3600))
            try:
                guest, _ = door.accept()
            except socket.timeout:
                missing = [r for r in range(workers) if everybody[r] is None]
                raise PeerError(f"worker {missing[0]} has not come to "
                                f"{where[0]}:{where[1]}") from None
            guest.settimeout(_left(deadline))
            rank, value = _receive_object(guest)
            if not 0 < rank < workers or everybody[rank] is not None:
                raise GradwireError(f"two workers say that they are number {rank}")
            everybody[rank] = value
            guests.append(guest)
    for guest in guests:
        _send_object(guest, everybody)
        guest.close()
    return everybody


def _join_meeting(rank: int, _: int, where: Address, mine: Any,
                  deadline: float) -> List[Any]:
    while True:
        try:
            s = socket.create_connection(where, timeout=_left(deadline))
            break
        except OSError as error:
            if time.monotonic() > deadline:
                raise PeerError(f"worker 0 cannot be reached at {where[0]}:{where[1]} "
                                f"({error})") from None
            time.sleep(0.1)
    with s:
        s.settimeout(_left(deadline, 3600))
        _send_object(s, (rank, mine))
        try:
            return _receive_object(s)
        except (struct.error, EOFError, OSError):
            raise PeerError("worker 0 ended before all had come") from None
