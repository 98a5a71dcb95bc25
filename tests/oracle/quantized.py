# SPDX-License-Identifier: Apache-2.0
"""quantized.py - values rounded at random to a few levels per bucket (QSGD), with the
random bits and the arithmetic that src/kernels/random.h and levels.h define:

    bucket of v: N = max |v| or ||v||_2;  s = 2^(bits-1) - 1
    a = |v| s 2^24 / N;  level = (trunc(a) + 24 random bits) div 2^24, sign of v
    value = (N / s) * level,  E[value] = v

The bits are keyed by (seed, step, worker), steps counted from 1. Workers decode each
other's messages and average them (the all-gather form)."""
import numpy as np

from sync_method import Exchange, F, average

WORD = 2**64 - 1
STEP64, STEP32 = 0x9E3779B97F4A7C15, 0x9E3779B9
LEAST_NORM = F(2.0**-96)


def mix64(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & WORD
    return x ^ (x >> 31)


def random64(key, index):
    return mix64((mix64((key + index * STEP64) & WORD) + key) & WORD)


def random_key(seed, step, worker):
    return random64(random64(random64(STEP64, seed), step), worker)


def random24(key, block, n):
    """24 random bits for each of n draws of a block."""
    bits = random64(key, block)
    add, mid = np.uint32(bits & 0xFFFFFFFF), np.uint32(bits >> 32)
    x = np.arange(n, dtype=np.uint32) * np.uint32(STEP32) + add
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
    x = ((x ^ (x >> np.uint32(15))) + mid) * np.uint32(0x846CA68B)
    return x >> np.uint32(8)


def norm_of(v, kind):
    norm = np.abs(v).max() if kind == "max" else F(np.sqrt(np.sum(v.astype(np.float64) ** 2)))
    return norm if norm >= LEAST_NORM else F(0)


def round_bucket(v, bits, kind, key, block):
    """The values that arrive when one bucket is sent."""
    s, norm = 2 ** (bits - 1) - 1, norm_of(v, kind)
    if norm == 0:
        return np.zeros(len(v), F)
    cap = F(s * 2**24)
    a = np.minimum(np.abs(v) * F(cap / norm), cap)
    level = (a.astype(np.int64) + random24(key, block, len(v)).astype(np.int64)) >> 24
    return F(norm / F(s)) * np.copysign(level.astype(F), v)


class Levels:
    """The values that arrive when a vector is sent in levels; also a coder of the
    values that a sparsifier chose."""

    def __init__(self, bits, bucket=512, norm="max", seed=0):
        self.bits, self.bucket, self.norm, self.seed = bits, bucket, norm, seed

    def __call__(self, values, step, worker, **_):
        key = random_key(self.seed, step + 1, worker)
        out = np.zeros(len(values), F)
        for block, at in enumerate(range(0, len(values), self.bucket)):
            part = slice(at, at + self.bucket)
            out[part] = round_bucket(values[part], self.bits, self.norm, key, block)
        return out

    def largest_unit(self, v):
        """The widest step between levels in any bucket, however v is cut."""
        s = 2 ** (self.bits - 1) - 1
        norm = np.abs(v).max()
        if self.norm == "l2":
            norm = norm * np.sqrt(self.bucket)
        return norm / s


class Quantized(Exchange):
    """The all-gather form, with every random bit predicted. Coordinates of `exact` are
    sent as they are; the others, as if they lay side by side, are one vector."""

    def __init__(self, layout, workers, levels, residual=False, warmup=0, exact=()):
        self.levels, self.keeps, self.warmup = levels, residual, warmup
        self.residual = [np.zeros(layout.n, F) for _ in range(workers)]
        self.coded = np.setdiff1d(np.arange(layout.n), exact)

    def message(self, step, worker, a):
        message = a.copy()
        message[self.coded] = self.levels(a[self.coded], step=step, worker=worker)
        return message

    def exchange(self, step, vectors):
        if step < self.warmup:
            return average(vectors)
        everything = [v + r if self.keeps else v for v, r in zip(vectors, self.residual)]
        messages = [self.message(step, i, a) for i, a in enumerate(everything)]
        if self.keeps:
            self.residual = [a - m for a, m in zip(everything, messages)]
        return average(messages)


class QuantizedAnyForm(Exchange):
    """However the messages are combined: the average, give or take one level of each
    worker's own rounding and one of the rounding of the sum, which the form by
    reduce-scatter adds. Coordinates of `exact` are sent as they are."""

    def __init__(self, levels, exact=()):
        self.levels, self.exact = levels, np.asarray(exact, int)

    def exchange(self, step, vectors):
        mean = average(vectors)
        own = np.mean([self.levels.largest_unit(v) for v in vectors])
        again = self.levels.largest_unit(np.abs(mean) + F(own))
        self.slack = np.full(len(mean), (own + again) * (1 + 1e-5))
        self.slack[self.exact] = 0
        return mean


def bf16(values, **_):
    """The nearest number of 8 significant bits, ties to even."""
    bits = values.view(np.uint32).astype(np.uint64)
    bits = (bits + 0x7FFF + ((bits >> np.uint64(16)) & np.uint64(1))) & np.uint64(0xFFFF0000)
    return bits.astype(np.uint32).view(F)
