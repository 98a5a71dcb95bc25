# SPDX-License-Identifier: Apache-2.0
"""entropy_read.py - values that are coded by how often each symbol occurs: "Values coded once
more" of docs/format.md, read and written."""
import struct

import numpy as np

from bytes_and_checks import Bits, Parts, require

BLOCK = 32768  # symbols
ONE = 4096     # the shares add up to it
LOW = 2**15


def width_of(bits):
    return 8 // bits * bits


def blocks_of(k, bits):
    """The symbols and the bytes of each block as it was."""
    width, length = width_of(bits), (k * bits + 7) // 8
    symbols, step = -(-k * bits // width), BLOCK // 8 * width
    return [(min(BLOCK, symbols - b * BLOCK), min(step, length - b * step))
            for b in range(-(-symbols // BLOCK))]


# ---- reading --------------------------------------------------------------------

def read_shares(data, width):
    """The shares of the symbols, and the bytes that they take."""
    bits, shares = Bits(data), []
    while sum(shares) < ONE:
        require(len(shares) < 1 << width, "shares of more symbols than there are")
        more = bits.unary()
        require(more <= 12, "a share is too large")
        shares.append((1 << more) + bits.take(more) - 1)
    require(sum(shares) == ONE, "the shares add up to too much")
    length = (bits.at + 7) // 8
    require(bits.take(8 * length - bits.at) == 0, "bits that are left over are not 0")
    return shares, length


def read_symbols(data, count, width):
    shares, at = read_shares(data, width)
    begin = np.concatenate([[0], np.cumsum(shares)]).tolist()
    owner = np.repeat(np.arange(len(shares)), shares).tolist()
    parts = Parts(data[at:])
    states, out = list(parts.numbers("8I")), []
    require(all(LOW <= x < LOW << 16 for x in states), "a state is out of range")
    for i in range(count):
        x = states[i % 8]
        symbol = owner[x % ONE]
        out.append(symbol)
        x = shares[symbol] * (x // ONE) + x % ONE - begin[symbol]
        states[i % 8] = x << 16 | parts.numbers("H")[0] if x < LOW else x
    require(states == [LOW] * 8, "the states do not end where they began")
    parts.end()
    return out


def restore(parts, k, bits):
    """The values as they were before."""
    blocks, width, out = blocks_of(k, bits), width_of(bits), b""
    lengths = parts.numbers(f"{len(blocks)}H")
    require(2 * len(blocks) + sum(lengths) < (k * bits + 7) // 8, "coded values are not shorter")
    for (count, plain), length in zip(blocks, lengths):
        require(length <= plain, "a coded block is longer")
        data = parts.take(length)
        if length < plain:
            number = sum(s << i * width for i, s in enumerate(read_symbols(data, count, width)))
            require(number >> 8 * plain == 0, "bits past the last value")
            data = number.to_bytes(plain, "little")
        out += data
    return out


# ---- writing --------------------------------------------------------------------

def shares_of(symbols):
    count = np.bincount(symbols)
    present = int((count > 0).sum())
    shares = [1 + int(c) * (ONE - present) // len(symbols) if c else 0 for c in count]
    shares[int(count.argmax())] += ONE - sum(shares)
    return shares


def write_shares(shares):
    number = at = 0
    for share in shares:
        more = (share + 1).bit_length() - 1
        number |= (1 << more | (share + 1 - (1 << more)) << more + 1) << at
        at += 2 * more + 1
    return number.to_bytes((at + 7) // 8, "little")


def code_block(symbols):
    shares, words = shares_of(symbols), []
    begin = np.concatenate([[0], np.cumsum(shares)]).tolist()
    states = [LOW] * 8
    for i in reversed(range(len(symbols))):
        x, share = states[i % 8], shares[symbols[i]]
        if x >= share << 19:
            words.append(x & 0xFFFF)
            x >>= 16
        states[i % 8] = x // share * ONE + begin[symbols[i]] + x % share
    return write_shares(shares) + struct.pack(f"<8I{len(words)}H", *states, *reversed(words))


def write(values, k, bits):
    """What a sender writes for packed values, and whether it has coded them."""
    width, at, lengths, out = width_of(bits), 0, [], b""
    for count, plain in blocks_of(k, bits):
        data = values[at:at + plain]
        at += plain
        number = int.from_bytes(data, "little")
        coded = code_block([number >> i * width & (1 << width) - 1 for i in range(count)])
        out += coded if 20 * len(coded) <= 19 * plain else data
        lengths.append(len(coded) if 20 * len(coded) <= 19 * plain else plain)
    out = struct.pack(f"<{len(lengths)}H", *lengths) + out
    return (out, True) if k and 20 * len(out) <= 19 * len(values) else (values, False)
