# SPDX-License-Identifier: Apache-2.0
"""bytes_and_checks.py - reading bytes and bits, and the three checks: CRC-32C of messages,
FNV-1a of states and settings, and that of the sections of checkpoints."""
import struct

import numpy as np


class Unexplained(Exception):
    """Bytes that the pages do not explain."""


def require(truth, what):
    if not truth:
        raise Unexplained(what)


class Parts:
    """The parts of some bytes, one after the other."""

    def __init__(self, data):
        self.data, self.at = bytes(data), 0

    def take(self, length):
        require(0 <= length <= len(self.data) - self.at, "the bytes end early")
        self.at += length
        return self.data[self.at - length:self.at]

    def numbers(self, letters):
        return struct.unpack("<" + letters, self.take(struct.calcsize("<" + letters)))

    def floats(self, count):
        return np.frombuffer(self.take(4 * count), "<f4")

    def rest(self):
        return self.take(len(self.data) - self.at)

    def end(self):
        require(self.at == len(self.data), f"{len(self.data) - self.at} bytes too many")


class Bits:
    """The bits of a part, from the lowest of the first byte on."""

    def __init__(self, data):
        self.number, self.count, self.at = int.from_bytes(data, "little"), 8 * len(data), 0

    def take(self, width):
        require(self.at + width <= self.count, "the bits end early")
        x = self.number >> self.at & (1 << width) - 1
        self.at += width
        return x

    def unary(self):
        """The number of zeros before the next one."""
        rest = self.number >> self.at
        require(rest != 0, "the bits end early")
        zeros = (rest & -rest).bit_length() - 1
        self.at += zeros + 1
        return zeros

    def end(self):
        require((self.at + 7) // 8 == self.count // 8, "bytes are left over")
        require(self.number >> self.at == 0, "bits that are left over are not 0")


# ---- CRC-32C --------------------------------------------------------------------

POLYNOMIAL = 0x82F63B78


def _table():
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = table >> np.uint32(1) ^ np.where(table & 1, np.uint32(POLYNOMIAL), np.uint32(0))
    return table


TABLE = _table()
SLOW = [int(x) for x in TABLE]
LANE = 64  # bytes that are looked at by themselves


def _after_zeros():
    """Where a register goes that sees LANE zero bytes: it is linear, so the way of each of
    its four bytes is enough."""
    ways = []
    for shift in (0, 8, 16, 24):
        register = np.arange(256, dtype=np.uint32) << np.uint32(shift)
        for _ in range(LANE):
            register = TABLE[register & 0xFF] ^ register >> np.uint32(8)
        ways.append([int(x) for x in register])
    return ways


AFTER = _after_zeros()


def _lanes(register, data):
    """Many bytes at once: every lane begins with 0, and is added where it belongs."""
    rows = np.frombuffer(data, np.uint8).reshape(-1, LANE)
    lanes = np.zeros(len(rows), np.uint32)
    for column in np.ascontiguousarray(rows.T):
        lanes = TABLE[(lanes ^ column) & 0xFF] ^ lanes >> np.uint32(8)
    a, b, c, d = AFTER
    for lane in lanes.tolist():
        register = (a[register & 255] ^ b[register >> 8 & 255] ^ c[register >> 16 & 255] ^
                    d[register >> 24] ^ lane)
    return register


def crc32c(*pieces):
    """The check of bytes that come in several pieces."""
    data = b"".join(pieces)
    register, whole = 0xFFFFFFFF, len(data) // LANE * LANE
    if whole >= 16 * LANE:
        register, data = _lanes(register, data[:whole]), data[whole:]
    for byte in data:
        register = SLOW[(register ^ byte) & 255] ^ register >> 8
    return register ^ 0xFFFFFFFF


# ---- the others -----------------------------------------------------------------

MASK = 2**64 - 1


def fnv1a(data, h=14695981039346656037):
    for byte in data:
        h = (h ^ byte) * 1099511628211 & MASK
    return h


def section_check(data):
    """The check of a section of a checkpoint."""
    factor = 0x243F6A8885A308D3

    def mix(h, word):
        h = (h ^ word) * factor & MASK
        return h ^ h >> 32

    words = struct.iter_unpack("<4Q", data + bytes(32 - len(data) % 32))
    lane = [0x13198A2E03707345 * (i + 1) & MASK for i in range(4)]
    for four in words:
        lane = [mix(h, word) for h, word in zip(lane, four)]
    h = 0xA4093822299F31D1
    for word in [*lane, len(data)]:
        h = mix(h, word)
    return h
