# SPDX-License-Identifier: Apache-2.0
"""odd_joining.py - a peer that knows the secret and misbehaves while it joins.

It changes one piece of what it says: the bytes, so that the check does not fit; kind or
length of a word, or what it holds, with a check that fits. Addresses stay on the
loopback device.
"""
import random
import struct

from messages import u32

CALLER = ["hello", "proof", "ready", "ready word", "ready body", "record", "record word",
          "record body"]
CALLEE = ["answer", "settle", "ready", "ready word", "ready body"]
HOST = CALLEE + ["everybody", "everybody word", "everybody body"]


def _bytes(rng, data):
    """Some other bytes; or fewer; or more."""
    way = rng.randrange(4)
    if way == 0:
        return data[:rng.randrange(len(data))]
    if way == 1:
        return data + rng.randbytes(rng.choice([1, 100, 5000]))
    if way == 2:
        return rng.randbytes(len(data))
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1:]


def _word(rng, data):
    """Another kind or length of a word."""
    kind, length = struct.unpack_from("<II", data)
    if rng.random() < 0.5:
        kind = rng.choice([0, 1, 2, 3, 4, 5, 0xFFFFFFFF])
    else:
        length = rng.choice([0, 1, 501, 4427, 1 << 20, 1 << 31, 0xFFFFFFFF, length + 1])
    return u32(kind) + u32(length) + data[8:]


def _short(data):
    return bytes([len(data)]) + data


def _record(rng, rank, workers, port):
    """A record with something odd in it."""
    host, secret = b"elsewhere", b""
    addresses = [_short(b"127.0.0.1") + struct.pack("<H", port)]
    count, after = None, b""
    way = rng.randrange(8)
    if way == 0:
        rank = rng.choice([0, rank + 1, workers, 0xFFFFFFFF])
    elif way == 1:
        workers = rng.choice([0, 1, workers + 1, 0xFFFFFFFF])
    elif way == 2:
        host = rng.choice([b"", b"\x00", b"\x1b[2Jhost\n", b"\xff\xfe", b"h" * 255,
                           b"%s%n", "\u202e".encode()])
    elif way == 3:
        secret = rng.randbytes(rng.choice([1, 15, 16, 32, 33, 255]))
    elif way == 4:
        addresses *= rng.choice([0, 2, 16, 17, 200])
    elif way == 5:
        count = rng.choice([0, 2, 16, 255])
    elif way == 6:
        other = rng.choice([0, 1, port ^ 1])
        addresses = [_short(b"127.0.0.1") + struct.pack("<H", other)]
    else:
        after = rng.randbytes(rng.choice([1, 4, 100]))
    count = len(addresses) if count is None else count
    return (u32(rank) + u32(workers) + _short(host) + _short(secret) + bytes([count]) +
            b"".join(addresses) + after)


def _everybody(rng, data):
    """Too few records, too many, in another order, or of another length."""
    records = []
    while data:
        length, = struct.unpack_from("<I", data)
        records.append(data[:4 + length])
        data = data[4 + length:]
    way = rng.randrange(6)
    if way == 0:
        records.pop()
    elif way == 1:
        records.append(records[-1])
    elif way == 2:
        records[0], records[-1] = records[-1], records[0]
    elif way == 3:
        records[-1] = u32(rng.choice([0, 1, 1 << 31, 0xFFFFFFFF])) + records[-1][4:]
    elif way == 4:
        records[-1] = u32(8) + records[-1][4:12]
    else:
        records = [rng.randbytes(3)]
    return b"".join(records)


class Tamper:
    """Changes one piece, once."""

    def __init__(self, job):
        self._rng = random.Random(job["seed"])
        self._rank, self._workers = job["rank"], job["workers"]
        pieces = HOST if self._rank == 0 else CALLER
        if 0 < self._rank < self._workers - 1:
            pieces = pieces + CALLEE
        self._piece = self._rng.choice(pieces)
        self._turn = self._rng.randrange(2) if self._piece in CALLEE else 0
        self.done = False

    def __call__(self, name, data):
        if name != self._piece or self.done:
            return data
        if self._turn > 0:
            self._turn -= 1
            return data
        self.done = True
        if name == "record body":
            port, = struct.unpack("<H", data[-2:])
            return _record(self._rng, self._rank, self._workers, port)
        if name == "everybody body":
            return _everybody(self._rng, data)
        if name == "ready body":
            return self._rng.randbytes(self._rng.choice([1, 500, 501, 100000]))
        return _word(self._rng, data) if name.endswith(" word") else _bytes(self._rng, data)
