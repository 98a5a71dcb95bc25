# SPDX-License-Identifier: Apache-2.0
"""What workers tell each other about themselves before they connect, as bytes:

    u32: rank | u32: workers | u8: length, then the host's name |
    u8: length, then the secret (0, or 16 to 32 bytes that worker 0 has drawn) |
    u8: number of addresses, 1 to 16; of each: u8: length, then the name or number |
    u16: port

Numbers are little-endian, texts are UTF-8. A record is at most 4,426 bytes long.
"""
from __future__ import annotations

import struct
from typing import List, NamedTuple, Sequence, Tuple

from ..errors import DataError
from .handshake import clean

Address = Tuple[str, int]

SECRET_MAX, TEXT_MAX, ADDRESSES_MAX = 32, 255, 16
RECORD_MAX = 8 + 1 + TEXT_MAX + 1 + SECRET_MAX + 1 + ADDRESSES_MAX * (1 + TEXT_MAX + 2)
_LENGTH = struct.Struct("<I")


class Member(NamedTuple):
    rank: int
    workers: int
    host: str
    secret: bytes
    addresses: Tuple[Address, ...]

    def pack(self) -> bytes:
        data = struct.pack("<II", self.rank, self.workers) + _short(
            self.host.encode()[:TEXT_MAX]) + _short(self.secret)
        chosen = self.addresses[:ADDRESSES_MAX]
        data += struct.pack("<B", len(chosen))
        for host, port in chosen:
            data += _short(host.encode()) + struct.pack("<H", port)
        return data


def _short(data: bytes) -> bytes:
    if len(data) > TEXT_MAX:
        raise ValueError(f"{data[:20]!r}... is longer than {TEXT_MAX} bytes")
    return struct.pack("<B", len(data)) + data


class _Reader:
    """Takes bytes from the front, and never more than there are."""

    def __init__(self, data: bytes):
        self._data, self._at = data, 0

    def take(self, length: int) -> bytes:
        if length > len(self._data) - self._at:
            raise DataError("it is cut short")
        self._at += length
        return self._data[self._at - length:self._at]

    def number(self, length: int) -> int:
        return int.from_bytes(self.take(length), "little")

    def text(self) -> str:
        return clean(self.take(self.number(1)).decode(errors="replace"))

    def end(self) -> None:
        if self._at != len(self._data):
            raise DataError(f"{len(self._data) - self._at} bytes are left over")


def unpack(data: bytes, rank: int, workers: int) -> Member:
    """The record of worker `rank` of `workers`; DataError says what is wrong with it."""
    try:
        member = _unpack(data)
    except DataError as error:
        raise DataError(f"worker {rank} sent an invalid record: {error}") from None
    if member.rank != rank:
        raise DataError(f"worker {rank} says that its rank is {member.rank}")
    if member.workers != workers:
        raise DataError(f"worker {rank} was started as one of {member.workers} workers, "
                        f"others as one of {workers}")
    return member


def _unpack(data: bytes) -> Member:
    if not isinstance(data, (bytes, bytearray)) or len(data) > RECORD_MAX:
        raise DataError(f"it is not bytes, or it is longer than {RECORD_MAX} bytes")
    reader = _Reader(bytes(data))
    rank, workers = reader.number(4), reader.number(4)
    host, secret = reader.text(), reader.take(reader.number(1))
    if len(secret) > SECRET_MAX or 0 < len(secret) < 16:
        raise DataError(f"its secret has {len(secret)} bytes")
    count = reader.number(1)
    if not 1 <= count <= ADDRESSES_MAX:
        raise DataError(f"it has {count} addresses")
    addresses = tuple((reader.text(), reader.number(2)) for _ in range(count))
    reader.end()
    return Member(rank, workers, host, secret, addresses)


def pack_all(records: Sequence[bytes]) -> bytes:
    return b"".join(_LENGTH.pack(len(r)) + r for r in records)


def all_max(workers: int) -> int:
    """How long pack_all() of so many records is at most."""
    return workers * (_LENGTH.size + RECORD_MAX)


def unpack_all(data: bytes, workers: int) -> List[bytes]:
    reader = _Reader(data)
    records = [reader.take(reader.number(_LENGTH.size)) for _ in range(workers)]
    reader.end()
    return records
