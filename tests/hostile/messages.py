# SPDX-License-Identifier: Apache-2.0
"""messages.py - frames and messages as bytes: what is where, and how they are sealed.

    frame    7 bytes: length | 1 byte: kind | body
    message  a headed one, whose check is in its header; a packed vector, whose check
             ends it; or bytes whose check follows in a message of 4 bytes, or of 12
             with a note before it
"""
import struct

MESSAGE, GOODBYE, ABORT, ALIVE, BUSY = 0, 1, 2, 3, 4
HEAD_LEN, HEADER_LEN, NOTE_LEN = 8, 20, 28
MAGIC = 0xD2
DENSE, SPARSE, NOTE = 1, 2, 3
LEVELS, CENTRES = 2, 3
# Longer bodies are never packed: recursive doubling takes 8192 floats at most.
PACKED_MAX = 4 * 8192 + 12


def _table():
    table = []
    for i in range(256):
        for _ in range(8):
            i = i >> 1 ^ (0x82F63B78 if i & 1 else 0)
        table.append(i)
    return table


_TABLE = _table()


def crc32c(data):
    c, table = 0xFFFFFFFF, _TABLE
    for byte in data:
        c = c >> 8 ^ table[(c ^ byte) & 255]
    return c ^ 0xFFFFFFFF


def u32(x):
    return struct.pack("<I", x & 0xFFFFFFFF)


def frame(body, kind=MESSAGE, length=None):
    length = len(body) if length is None else length
    return length.to_bytes(7, "little") + bytes([kind]) + body


# ---- headed messages -----------------------------------------------------------


def is_headed(body):
    return (len(body) >= HEADER_LEN and body[0] == MAGIC and
            struct.unpack_from("<I", body, 16)[0] == crc32c(body[:16] + body[20:]))


def seal_headed(body):
    return body[:16] + u32(crc32c(body[:16] + body[20:])) + body[20:]


def make_headed(kind, coding, bits, step, n, k, rest):
    head = struct.pack("<BBBBIII", MAGIC, kind, coding, bits, step & 0xFFFFFFFF, n, k)
    return seal_headed(head + bytes(4) + rest)


def make_note(step, n, worker, tensor):
    return make_headed(NOTE, 0, 0, step, n, 0, u32(worker) + u32(tensor))


def coded_length(body, at, k, bits):
    """The bytes of values that are coded once more, which begin with the lengths of blocks."""
    if not 0 < bits <= 8:
        return len(body) - at
    blocks = -(-k * bits // (8 // bits * bits * 32768))
    lengths = body[at:at + 2 * blocks]
    return 2 * blocks + sum(struct.unpack_from(f"<{len(lengths) // 2}H", lengths))


def parts_of_headed(body):
    """Where its parts are: name, begin, end."""
    kind, coding, bits = body[1], body[2], body[3]
    k, = struct.unpack_from("<I", body, 12)
    parts = [("magic", 0, 1), ("kind", 1, 2), ("coding", 2, 3), ("bits", 3, 4),
             ("step", 4, 8), ("n", 8, 12), ("k", 12, 16)]
    at = HEADER_LEN
    if coding in (LEVELS, CENTRES) and len(body) >= at + 4:
        group, = struct.unpack_from("<I", body, at)
        parts.append(("group", at, at + 4))
        scales = -(-k // max(group, 1)) if coding == LEVELS else group
        parts.append(("scales", at + 4, at + 4 + 4 * scales))
        at += 4 + 4 * scales
    width = {0: 32, 1: 16}.get(coding, bits)
    values = (8 if kind == NOTE else (k * width + 7) // 8 if width < 128
              else coded_length(body, at, k, width - 128))
    parts.append(("note" if kind == NOTE else "values", at, at + values))
    parts.append(("positions", at + values, len(body)))
    return [(name, a, b) for name, a, b in parts if a < b <= len(body)]


# ---- others --------------------------------------------------------------------


def is_packed(body):
    return (4 < len(body) <= PACKED_MAX and
            struct.unpack("<I", body[-4:])[0] == crc32c(body[:-4]))


def seal_packed(body):
    return body[:-4] + u32(crc32c(body[:-4]))


def checks_itself(body):
    return is_headed(body) or is_packed(body)


def ends_bytes(body):
    """Whether it may be the check of the bytes before it."""
    return len(body) in (4, 12)


def kind_of(body):
    if is_headed(body):
        return "headed"
    if is_packed(body):
        return "packed"
    return "check" if ends_bytes(body) else "bytes"


class Frames:
    """Cuts a stream into frames: (kind, head, body)."""

    def __init__(self):
        self._data = bytearray()

    def feed(self, data):
        self._data += data

    def __iter__(self):
        while len(self._data) >= HEAD_LEN:
            length = int.from_bytes(self._data[:7], "little")
            if len(self._data) < HEAD_LEN + length:
                return
            whole = bytes(self._data[:HEAD_LEN + length])
            del self._data[:HEAD_LEN + length]
            yield whole[7], whole[HEAD_LEN:]
