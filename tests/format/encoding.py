# SPDX-License-Identifier: Apache-2.0
"""encoding.py - which entries a sender selects and what it writes for them, from "What a
sender writes" of docs/format.md."""
import numpy as np

from headed import BF16, CENTRES, F32, LEVELS, SIGNS

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15
HIGHEST = np.float32(float.fromhex("0x1.ffffp127"))  # of norms and means
COMMON = MASK  # in place of a worker's number


def f32_bytes(values):
    return np.asarray(values, "<f4").tobytes()


def magnitudes(v):
    """Bits without the sign, which order as magnitudes do."""
    return v.view(np.uint32) & np.uint32(0x7FFFFFFF)


def largest(v, k):
    """The positions of the k entries of the largest magnitude, ascending; no zeros."""
    keys = magnitudes(v).astype(np.int64)
    order = np.argsort(-keys, kind="stable")[:k]
    return np.sort(order[keys[order] > 0])


def largest_in_tiles(v, tile, density):
    """The same in each run of `tile` entries, of which the last may be shorter."""
    parts = [(b, v[b:b + tile]) for b in range(0, len(v), tile)]
    return np.concatenate([b + largest(part, count_for(density, len(part))) for b, part in parts])


def common_positions(key, n, k, turn=0):
    """One of each of k cells, by the key of all workers."""
    cells = [(i * n // k, (i + 1) * n // k) for i in range(k)]
    return np.array([begin + (((draw(key, i) >> 32) * (end - begin) >> 32) + turn) % (end - begin)
                     for i, (begin, end) in enumerate(cells)], np.int64)


def count_for(density, n):
    return min(n, max(1, int(density * float(n))))


def lane_sum(values):
    """A sum in f64 by 16 lanes."""
    padded = np.zeros(-(-max(len(values), 1) // 16) * 16)
    padded[:len(values)] = values
    lanes = np.add.accumulate(padded.reshape(-1, 16), axis=0)[-1]
    while len(lanes) > 1:
        lanes = lanes[:len(lanes) // 2] + lanes[len(lanes) // 2:]
    return lanes[0]


# ---- random bits ----------------------------------------------------------------

def mix(x):
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


def draw(key, i):
    return mix((mix((key + i * GOLDEN) & MASK) + key) & MASK)


def key_of(seed, step, worker):
    return draw(draw(draw(GOLDEN, seed & MASK), step), worker)


def random24(key, bucket, count):
    bits = draw(key, bucket)
    x = np.arange(count, dtype=np.uint32) * np.uint32(0x9E3779B9) + np.uint32(bits & 0xFFFFFFFF)
    x = (x ^ x >> np.uint32(16)) * np.uint32(0x7FEB352D)
    x = ((x ^ x >> np.uint32(15)) + np.uint32(bits >> 32)) * np.uint32(0x846CA68B)
    return x >> np.uint32(8)


# ---- values ---------------------------------------------------------------------

def norm_of(v, kind):
    norm = v.view(np.float32)
    if kind == "max":
        norm = magnitudes(v).max().view(np.float32) if len(v) else np.float32(0)
    else:
        norm = np.float32(np.sqrt(lane_sum(v.astype(np.float64)**2)))
    if not norm <= HIGHEST:
        return HIGHEST
    return np.float32(0) if norm < np.float32(2.0**-96) else norm


def levels_of(v, norm, bits, key, bucket):
    top = np.float32(2**(bits - 1) - 1)
    cap = top * np.float32(2.0**24)
    scale = cap / norm if norm > 0 else np.float32(0)
    a = np.minimum(np.abs(v) * scale, cap).astype(np.uint64)
    level = (a + random24(key, bucket, len(v)).astype(np.uint64) >> np.uint64(24)).astype(np.int64)
    return np.where(np.signbit(v), -level, level)


def pack(codes, bits):
    codes = np.asarray(codes, np.int64)
    flat = (codes[:, None] >> np.arange(bits) & 1).astype(np.uint8).reshape(-1)
    return np.packbits(flat, bitorder="little").tobytes()


def encode_levels(v, bits, bucket, norm, key, first):
    norms, levels = [], []
    for b in range(-(-len(v) // bucket)):
        part = v[b * bucket:(b + 1) * bucket]
        norms.append(norm_of(part, norm))
        levels.append(levels_of(part, norms[-1], bits, key, first + b))
    levels = np.concatenate(levels) if levels else np.zeros(0, np.int64)
    return np.uint32(bucket).tobytes() + f32_bytes(norms) + pack(levels, bits)


def encode_signs(v, bucket):
    means = []
    for at in range(0, len(v), bucket):
        part = np.abs(v[at:at + bucket]).astype(np.float64)
        mean = np.float32(lane_sum(part) / float(len(part)))
        means.append(mean if mean <= HIGHEST else HIGHEST)
    return np.uint32(bucket).tobytes() + f32_bytes(means) + pack(np.signbit(v), 1)


def encode_bf16(v):
    b = v.view(np.uint32)
    return (b + np.uint32(0x7FFF) + (b >> np.uint32(16) & np.uint32(1)) >> np.uint32(16)).astype(
        "<u2").tobytes()


def mean_of(magnitude, fallback):
    """In f64, in the order of the values."""
    if not len(magnitude):
        return fallback
    return np.float32(np.cumsum(magnitude.astype(np.float64))[-1] / float(len(magnitude)))


def best_centres(size):
    """Two centres by Lloyd's algorithm, and which magnitudes go to the upper one."""
    some = size[::max(1, len(size) // 4096)]
    border = mean_of(some, np.float32(0))
    centres = [border, border]
    for _ in range(8):
        upper = some >= border
        centres = [mean_of(some[upper == b], c) for b, c in enumerate(centres)]
        middle = np.float32(0.5) * centres[0] + np.float32(0.5) * centres[1]
        if middle == border:
            break
        border = middle
    upper = size >= border
    return [mean_of(size[upper == b], c) for b, c in enumerate(centres)], upper


def encode_bins(v):
    """Four bins, numbered by their codes, and the mean of each."""
    x = v.astype(np.float64)
    middle = np.cumsum(x)[-1] / len(x) if len(x) else 0.0
    squares = np.cumsum((x - middle) ** 2)[-1] if len(x) else 0.0
    width = 6 * np.sqrt(squares / (len(x) - 1)) / 4 if len(x) > 1 else 0.0
    codes = np.clip(np.rint((x - middle) / (width if width > 0 else 1.0) + 2), 0, 3).astype(np.int64)
    means = [np.float32(np.cumsum(x[codes == b])[-1] / (codes == b).sum() if b in codes else middle)
             for b in range(4)]
    return np.uint32(4).tobytes() + f32_bytes(means) + pack(codes, 2)


def encode_centres(v, bits, centre):
    if centre == "hivemind":
        return encode_bins(v)
    size = np.abs(v)
    if centre == "best":
        centres, upper = best_centres(size)
        return np.uint32(bits).tobytes() + f32_bytes(centres) + pack(np.signbit(v) + 2 * upper, bits)
    low, high = (size.min(), size.max()) if len(v) else (np.float32(0), np.float32(0))
    width = np.float32(0.5) * (high - low)
    upper = size - low >= width if bits == 2 else np.zeros(len(v), bool)
    centres = [low, low + width][:bits]
    if centre == "mean":
        centres = [mean_of(size[upper == b], c) for b, c in enumerate(centres)]
    return np.uint32(bits).tobytes() + f32_bytes(centres) + pack(np.signbit(v) + 2 * upper, bits)


def encode_columns(v, columns):
    present = np.unique(columns)
    centres = [mean_of(np.abs(v[columns == c]), None) for c in present]
    return np.uint32(len(present)).tobytes() + f32_bytes(centres) + pack(np.signbit(v), 1)


def encode(v, spec, key, first=0, columns=None):
    """Group, scales and values of a message about the values v. columns has the number of
    the column of each value."""
    if spec.coding == F32:
        return f32_bytes(v)
    if spec.coding == BF16:
        return encode_bf16(v)
    if spec.coding == LEVELS:
        return encode_levels(v, spec.bits, spec.bucket, spec.norm, key, first)
    if spec.coding == SIGNS:
        return encode_signs(v, spec.bucket)
    assert spec.coding == CENTRES
    if spec.centre == "column":
        return encode_columns(v, columns)
    return encode_centres(v, spec.bits, spec.centre)
