# SPDX-License-Identifier: Apache-2.0
"""wire_decoder.py - a slow decoder of gradwire messages, written from docs/format.md.

It shares nothing with the C library, so that a mistake in either, or in the page,
shows as a difference.
"""
import struct

KINDS = {1: "dense", 2: "sparse", 3: "note"}
CODINGS = {0: "f32", 1: "bf16", 2: "levels", 3: "centres", 4: "signs"}
BUCKETS = (2, 4)  # values in buckets, each with a scale
BLOCK = 128


class Malformed(Exception):
    """The bytes are not a message."""


def require(truth, what):
    if not truth:
        raise Malformed(what)


def to_f32(x):
    """The nearest float of 32 bits."""
    return struct.unpack("<f", struct.pack("<f", x))[0]


def crc32c(data):
    """CRC-32C, a bit at a time."""
    c = 0xFFFFFFFF
    for byte in data:
        c ^= byte
        for _ in range(8):
            c = c >> 1 ^ (0x82F63B78 if c & 1 else 0)
    return c ^ 0xFFFFFFFF


class Bits:
    """Bits of a part, from the lowest of the first byte on."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        require(self.at + count <= 8 * len(self.data), "bits end early")
        x = 0
        for i in range(count):
            x |= (self.data[self.at // 8] >> self.at % 8 & 1) << i
            self.at += 1
        return x

    def end(self):
        require((self.at + 7) // 8 == len(self.data), "bytes left over")
        require(self.take(8 * len(self.data) - self.at) == 0, "bits left over are not 0")


class Bytes:
    """Parts of a message, one after the other."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, length):
        require(self.at + length <= len(self.data), "message ends early")
        self.at += length
        return self.data[self.at - length : self.at]

    def numbers(self, letter, count):
        part = self.take(count * struct.calcsize("<" + letter))
        return list(struct.unpack("<%d%s" % (count, letter), part))


def read_gaps(bits, count):
    r, flag = bits.take(5), bits.take(1)
    gaps = [bits.take(r) for _ in range(count)]
    for i in range(count):
        while bits.take(1) == 0:
            gaps[i] += 1 << r
    last = -1
    for _ in range(bits.take(7) + 1 if flag else 0):
        place, width = bits.take(7), bits.take(5) + 1
        require(last < place < count, "places of long gaps do not ascend")
        gaps[place] += bits.take(width)
        last = place
    return gaps


def read_positions(data, n, k):
    bits, positions, following = Bits(data), [], 0
    while len(positions) < k:
        for gap in read_gaps(bits, min(BLOCK, k - len(positions))):
            positions.append(following + gap)
            following = positions[-1] + 1
    bits.end()
    require(following <= n, "a position is not below n")
    return positions


def read_codes(part, k, width):
    bits = Bits(part)
    codes = [bits.take(width) for _ in range(k)]
    bits.end()
    return codes


def read_shares(bits, width):
    """How often each symbol occurs, of 4096."""
    shares = []
    while sum(shares) < 4096:
        require(len(shares) < 2**width, "too many shares")
        zeros = 0
        while bits.take(1) == 0:
            zeros += 1
        require(zeros <= 12, "a share is too large")
        shares.append(2**zeros + bits.take(zeros) - 1)
    require(sum(shares) == 4096, "the shares add up to more than 4096")
    require(bits.take(-bits.at % 8) == 0, "bits left over are not 0")
    return shares


def read_block(data, count, width):
    """The symbols of a coded block."""
    bits = Bits(data)
    shares = read_shares(bits, width)
    parts, symbols = Bytes(data[bits.at // 8 :]), []
    states = parts.numbers("I", 8)
    require(all(2**15 <= x < 2**31 for x in states), "a state is out of range")
    for i in range(count):
        x, symbol = states[i % 8], 0
        slot = x % 4096
        while slot >= shares[symbol]:
            slot -= shares[symbol]
            symbol += 1
        x = shares[symbol] * (x // 4096) + slot
        if x < 2**15:
            x = x * 2**16 + parts.numbers("H", 1)[0]
        states[i % 8] = x
        symbols.append(symbol)
    require(states == [2**15] * 8 and parts.at == len(parts.data), "a block does not end well")
    return symbols


def restore_values(parts, k, bits):
    """The packed values that were coded once more."""
    width, length = 8 // bits * bits, (k * bits + 7) // 8
    symbols, out = -(-k * bits // width), b""
    lengths = parts.numbers("H", -(-symbols // 32768))
    require(2 * len(lengths) + sum(lengths) < length, "coded values are not shorter")
    for b, size in enumerate(lengths):
        count = min(32768, symbols - 32768 * b)
        plain = min(4096 * width, length - 4096 * width * b)
        require(size <= plain, "a coded block is longer")
        data = parts.take(size)
        if size < plain:
            number = sum(s << i * width for i, s in enumerate(read_block(data, count, width)))
            require(number < 256**plain, "bits past the last value")
            data = number.to_bytes(plain, "little")
        out += data
    return out


def levels_to_values(codes, width, norms, bucket):
    top = 2 ** (width - 1) - 1
    units = [to_f32(norm / top) for norm in norms]
    signed = [code - 2**width if code > top else code for code in codes]
    return [to_f32(units[i // bucket] * c) for i, c in enumerate(signed)]


def which_centre(codes, centres, positions, cols):
    """The number of the centre of each value; cols is for one centre per column."""
    if len(centres) <= 2 and cols is None:
        return [code >> 1 for code in codes]
    present = sorted({p % cols for p in positions})
    require(len(present) == len(centres), "not one centre per column")
    return [present.index(p % cols) for p in positions]


def centres_to_values(codes, width, scales, positions, cols):
    """With two bits and four centres a code is the number of one; otherwise it has a sign."""
    if width == 2 and len(scales) == 4:
        return [scales[code] for code in codes]
    centres = which_centre(codes, scales, positions, cols)
    return [-scales[c] if code & 1 else scales[c] for code, c in zip(codes, centres)]


def check_form(kind, coding, width, n, k):
    require(kind in KINDS, "kind %d" % kind)
    require(coding in CODINGS, "coding %d" % coding)
    lowest, highest = {2: (2, 8), 3: (1, 2), 4: (1, 1)}.get(coding, (0, 0))
    require(lowest <= width <= highest, "%d bits" % width)
    require(kind != 1 or k == n, "dense with k != n")
    require(kind != 2 or k <= n, "sparse with k > n")
    require(kind != 3 or (k == 0 and coding == 0), "a note with values")


def check_group(coding, width, k, group):
    if coding in BUCKETS:
        require(group % 8 == 0 and 8 <= group <= 2**30, "bucket of %d" % group)
    elif width == 2:
        require(group in (2, 4), "two bits have two centres or four")
    else:
        require(min(k, 1) <= group <= max(k, 1), "%d centres" % group)


def read_scales(parts, coding, width, k):
    """The group and the scales of what is not floats."""
    group = parts.numbers("I", 1)[0]
    check_group(coding, width, k, group)
    count = -(-k // group) if coding in BUCKETS else group
    raw = parts.take(4 * count)
    if coding in BUCKETS:
        for (x,) in struct.iter_unpack("<I", raw):
            require(x < 0x7F800000, "a scale is negative or not finite")
    return group, list(struct.unpack("<%df" % count, raw))


def decode(message, cols=None):
    """What a message says, as a dict; Malformed if it says nothing.

    cols is the number of columns where there is one centre per column, for a
    layout of one matrix that fills the whole vector."""
    parts = Bytes(message)
    magic, kind, coding, width = parts.take(4) if len(message) >= 20 else (0, 0, 0, 0)
    require(magic == 0xD2, "not a message of version 2")
    coded_again, width = width >= 128, width % 128
    step, n, k, check = parts.numbers("I", 4)
    require(check == crc32c(message[:16] + message[20:]), "the check does not fit")
    check_form(kind, coding, width, n, k)
    require(not coded_again or (width > 0 and k > 0), "values that cannot be coded again")
    group, scales, codes, positions = 0, [], [], []
    if coding == 0:
        values = parts.numbers("f", k)
    elif coding == 1:
        raw = parts.numbers("H", k)
        values = [struct.unpack("<f", struct.pack("<I", x << 16))[0] for x in raw]
    else:
        group, scales = read_scales(parts, coding, width, k)
        packed = restore_values(parts, k, width) if coded_again else parts.take((k * width + 7) // 8)
        codes = read_codes(packed, k, width)
    note = parts.numbers("I", 2) if kind == 3 else [0, 0]
    rest = message[parts.at :]
    require(kind == 2 or not rest, "bytes after the last value")
    if kind == 2:
        positions = read_positions(rest, n, k)
    if coding == 2:
        values = levels_to_values(codes, width, scales, group)
    if coding == 4:
        values = [-scales[i // group] if code else scales[i // group] for i, code in enumerate(codes)]
    if coding == 3:
        values = centres_to_values(codes, width, scales, positions, cols)
    return {"kind": KINDS[kind], "coding": CODINGS[coding], "bits": width, "group": group,
            "n": n, "k": k, "step": step, "positions": positions, "values": values, "note": note}
