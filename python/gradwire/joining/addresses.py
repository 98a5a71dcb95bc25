# SPDX-License-Identifier: Apache-2.0
"""Where this worker listens, and by which addresses others may reach it."""
from __future__ import annotations

import errno
import os
import socket
from typing import Any, List, Optional, Sequence, Tuple

from ..errors import GradwireError
from .members import Address

# More than there are workers: those who gave up and call again, and strangers.
_BACKLOG = 128


def listen(workers: int) -> socket.socket:
    """Listens at a port of those that GRADWIRE_PORT allows, or at any that is free."""
    allowed = os.environ.get("GRADWIRE_PORT", "")
    for port in _ports(allowed):
        try:
            return _listen(port, _BACKLOG + workers)
        except OSError as error:
            reason = error.strerror or str(error)
    raise GradwireError(f"no port of GRADWIRE_PORT={allowed} can be used on host "
                        f"{socket.gethostname()} ({reason}); every worker of a host needs one")


def _ports(text: str) -> Sequence[int]:
    if not text:
        return [0]
    first, dash, last = text.partition("-")
    try:
        ports = range(int(first), int(last if dash else first) + 1)
    except ValueError:
        ports = range(0)
    if not ports or ports[0] < 1 or ports[-1] > 65535:
        raise ValueError(f"GRADWIRE_PORT={text} is no port and no range of ports such as "
                         "29600-29607")
    return ports


def _listen(port: int, backlog: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("", port), family=socket.AF_INET6,
                                        backlog=backlog, dualstack_ipv6=True)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise
            # the kernel has no IPv6 here: IPv4 it is
    return socket.create_server(("", port), backlog=backlog)


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
