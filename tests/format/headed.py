# SPDX-License-Identifier: Apache-2.0
"""headed.py - messages with a header, as docs/format.md has them."""
import numpy as np

import entropy_read
from bytes_and_checks import Bits, Parts, Unexplained, crc32c, require

DENSE, SPARSE, NOTE = 1, 2, 3
F32, BF16, LEVELS, CENTRES, SIGNS = 0, 1, 2, 3, 4
BITS = {F32: (0, 0), BF16: (0, 0), LEVELS: (2, 8), CENTRES: (1, 2), SIGNS: (1, 1)}
HEADER = 20


class Message:
    """A message that was opened: every byte of it belongs to one of these."""

    kind = coding = bits = step = n = k = group = 0
    note = None       # worker and tensor
    entropy = False   # the values are coded once more
    sent = plain = b""  # the values as they lie there, and as they were before
    coded = b""       # scales and values, as they were before
    codes = ()        # levels, codes or signs
    scales = ()
    values = None     # f32; None for centres of columns, if the layout is not known
    positions = None  # of sparse ones


def open_message(data, columns=None):
    """What the bytes say. columns has a number for each entry of the vector, the same for
    those of one column, if there is one centre per column."""
    parts, m = Parts(data), Message()
    magic, m.kind, m.coding, m.bits, m.step, m.n, m.k, check = parts.numbers("4B4I")
    m.entropy, m.bits = m.bits >= 128, m.bits % 128
    require(magic == 0xD2, f"the first byte is {magic:#x}")
    require(check == crc32c(data[:16], data[HEADER:]), "the check does not fit")
    check_form(m)
    if m.kind == NOTE:
        m.note = parts.numbers("2I")
    else:
        read_values(m, parts)
    if m.kind == SPARSE:
        m.positions = read_positions(parts.rest(), m.n, m.k)
    parts.end()
    if m.coding == CENTRES:
        m.values = values_of_centres(m, columns)
    return m


def check_form(m):
    require(m.kind in (DENSE, SPARSE, NOTE), f"kind {m.kind}")
    require(m.coding in BITS, f"coding {m.coding}")
    low, high = BITS[m.coding]
    require(low <= m.bits <= high, f"{m.bits} bits")
    require(not m.entropy or m.bits and m.k, "values that cannot be coded once more")
    if m.kind == DENSE:
        require(m.k == m.n, "dense with k other than n")
    elif m.kind == SPARSE:
        require(m.k <= m.n, "sparse with k above n")
    else:
        require(m.k == 0 and m.coding == F32, "a note with values")


def read_values(m, parts):
    begin = parts.at
    if m.coding == F32:
        m.values = parts.floats(m.k)
    elif m.coding == BF16:
        halves = np.frombuffer(parts.take(2 * m.k), "<u2")
        m.values = (halves.astype(np.uint32) << np.uint32(16)).view(np.float32)
    else:
        read_coded(m, parts)
    m.coded = parts.data[begin:parts.at - len(m.sent)] + m.plain


def read_coded(m, parts):
    m.group, = parts.numbers("I")
    if m.coding in (LEVELS, SIGNS):
        require(m.group % 8 == 0 and 8 <= m.group <= 2**30, f"buckets of {m.group}")
        count = -(-m.k // m.group)
    else:
        fits = m.group in (2, 4) if m.bits == 2 else min(m.k, 1) <= m.group <= max(m.k, 1)
        require(fits, f"{m.group} centres")
        count = m.group
    m.scales = parts.floats(count)
    begin = parts.at
    m.plain = (entropy_read.restore(parts, m.k, m.bits) if m.entropy
               else parts.take((m.k * m.bits + 7) // 8))
    m.sent = parts.data[begin:parts.at]
    m.codes = read_codes(m.plain, m.k, m.bits)
    if m.coding != CENTRES:
        require(all(m.scales.view(np.uint32) < 0x7F800000),
                "a norm or mean is negative or not finite")
        m.values = values_of_levels(m) if m.coding == LEVELS else values_of_signs(m)


def read_codes(data, k, bits):
    """k numbers of so many bits."""
    flat = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    require(not flat[k * bits:].any(), "bits after the last value are not 0")
    weights = 1 << np.arange(bits, dtype=np.int64)
    return flat[:k * bits].reshape(k, bits) @ weights


def values_of_levels(m):
    top = 2**(m.bits - 1) - 1
    levels = np.where(m.codes > top, m.codes - 2**m.bits, m.codes)
    units = m.scales / np.float32(top)
    return np.repeat(units, m.group)[:m.k] * levels.astype(np.float32)


def flipped(values, signs):
    """The values, their sign bits inverted where there is a 1."""
    return (values.view(np.uint32) ^ signs.astype(np.uint32) << np.uint32(31)).view(np.float32)


def values_of_signs(m):
    return flipped(np.repeat(m.scales, m.group)[:m.k], m.codes)


def values_of_centres(m, columns):
    if m.k == 0:
        return np.zeros(0, np.float32)
    if m.bits == 1 and columns is not None:
        here = columns[m.positions]
        present = np.unique(here)
        require(len(present) == m.group, f"{m.group} centres for {len(present)} columns")
        which = np.searchsorted(present, here)
    elif m.bits == 2 and m.group == 4:
        return m.scales[m.codes]
    elif m.group != m.bits:
        return None
    else:
        which = m.codes >> 1
    return flipped(m.scales[which], m.codes & 1)


def read_positions(data, n, k):
    bits, positions, following = Bits(data), [], 0
    while len(positions) < k:
        for gap in read_gaps(bits, min(128, k - len(positions))):
            positions.append(following + gap)
            following = positions[-1] + 1
    bits.end()
    require(following <= n, f"a position is not below n = {n}")
    return np.array(positions, np.int64)


def read_gaps(bits, count):
    r, flag = bits.take(5), bits.take(1)
    gaps = [bits.take(r) for _ in range(count)]
    for i in range(count):
        gaps[i] += bits.unary() << r
    last = -1
    for _ in range(bits.take(7) + 1 if flag else 0):
        place, width = bits.take(7), bits.take(5) + 1
        require(last < place < count, "places of long gaps do not ascend")
        gaps[place] += bits.take(width)
        last = place
    return gaps


def longest(kind, coding, bits, group, n, k, centres=0):
    """The longest message that gradwire's encoder writes."""
    buckets = -(-k // group) if group else 0
    scales = {LEVELS: buckets, SIGNS: buckets, CENTRES: centres}
    length = HEADER + (4 + 4 * scales[coding] if coding in scales else 0)
    length += {F32: 4 * k, BF16: 2 * k}.get(coding, (k * bits + 7) // 8)
    if kind == SPARSE and k > 0:
        most = min(k * (r + 1) + (n - k >> r) for r in range(32))
        length += (6 * -(-k // 128) + most + 7) // 8
    return length


__all__ = ["BF16", "CENTRES", "DENSE", "F32", "LEVELS", "Message", "NOTE", "SIGNS", "SPARSE",
           "Unexplained", "longest", "open_message"]
