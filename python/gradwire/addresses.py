# SPDX-License-Identifier: Apache-2.0
"""Where this worker listens, and by which addresses others may reach it."""
from __future__ import annotations

import os
import socket
from typing import Any, List, Optional, Tuple

from .members import Address

# More than there are workers: those who gave up and call again, and strangers.
_BACKLOG = 128


def listen(workers: int) -> socket.socket:
    backlog = _BACKLOG + workers
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("", 0), family=socket.AF_INET6,
                                        backlog=backlog, dualstack_ipv6=True)
        except OSError:
            pass  # the kernel has no IPv6 here: IPv4 it is
    return socket.create_server(("", 0), backlog=backlog)


def listen_at(where: Address, workers: int) -> socket.socket:
    return socket.create_server(where, backlog=_BACKLOG + workers)


def resolve(host: str, port: int, kind: int = socket.SOCK_DGRAM) -> List[Any]:
    try:
        return socket.getaddrinfo(host, port, type=kind)
    except (OSError, UnicodeError):
        return []


def _towards(host: str) -> List[str]:
    """This host's address on the way to another; nothing is sent."""
    found = []
    for family, kind, _, _, to in resolve(host, 9):
        try:
            with socket.socket(family, kind) as s:
                s.connect(to)
                found.append(s.getsockname()[0])
        except OSError:
            continue
    return found


def addresses_of(listener: socket.socket, given: Optional[str]) -> Tuple[Address, ...]:
    port = listener.getsockname()[1]
    given = given or os.environ.get("GRADWIRE_ADDRESS")
    if given:
        return ((given, port),)
    hosts: List[str] = []
    master = os.environ.get("MASTER_ADDR")
    if master:
        hosts += _towards(master)
    hosts += [entry[4][0] for entry in resolve(socket.gethostname(), port)]
    hosts.append("127.0.0.1")
    return tuple((h, port) for h in dict.fromkeys(hosts))
