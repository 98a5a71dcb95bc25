# SPDX-License-Identifier: Apache-2.0
"""low_rank.py - PowerSGD (Vogels et al. 2019), in double precision:

    M_i = g_i + r_i of each matrix with 2 R (rows + cols) < rows cols
    P = mean of M_i Q, orthonormal;  Q' = mean of M_i^T P;  u = P Q'^T
    r_i = M_i - u, or M_i - P P^T M_i with the worker's own error

Q is the last Q', made orthonormal, and random at first, by the library's own bits. Other
tensors are averaged. The residual of a worker is not that of others."""
import numpy as np

from quantized import random64, random_key
from random_choice import NOBODY
from sync_method import Exchange, F, average


# What the twin's vectors differ by, of their largest float; how much nearer it is.
LAST_BITS, TIMES = 2.0**-23, 8


def drawn(key, n, rank):
    bits = [(random64(key, i) >> 40) - 2**23 for i in range(rank * n)]
    return np.array(bits, np.float64).reshape(rank, n).T / 2**23


def orthonormal(x):
    """By Gram-Schmidt, whose signs are those of the columns."""
    q, r = np.linalg.qr(x)
    return q * np.sign(np.diag(r))


class Memory:
    """What workers keep: the residuals, and Q of each matrix."""

    def __init__(self, layout, workers):
        self.residual = [np.zeros(layout.n, F) for _ in range(workers)]
        self.q = {}


class LowRank(Exchange):
    """Where singular values lie close to each other, the last bits decide which directions are
    kept, and every step builds on the one before. So a twin is fed the same with other last bits:
    the library may differ as much as some times the twin does."""

    def __init__(self, layout, workers, rank, seed, error="mean", residual=True, warmup=0):
        self.layout, self.workers, self.rank, self.seed = layout, workers, rank, seed
        self.error, self.keeps, self.warmup = error, residual, warmup
        self.memory, self.twin = Memory(layout, workers), Memory(layout, workers)
        self.noise = np.random.default_rng(seed)

    def density(self, step):
        return 1.0 if step < self.warmup else 0.5

    @property
    def residual(self):
        return self.memory.residual

    def one_matrix(self, memory, step, t, ms):
        rows, cols = ms[0].shape
        key = random64(random_key(self.seed, step + 1, NOBODY), t)
        q = orthonormal(memory.q[t] if t in memory.q else drawn(key, cols, self.rank))
        p = orthonormal(np.mean([m @ q for m in ms], axis=0))
        memory.q[t] = np.mean([m.T @ p for m in ms], axis=0)
        update = p @ memory.q[t].T
        return update, [m - (update if self.error == "mean" else p @ (p.T @ m)) for m in ms]

    def follow(self, memory, step, vectors):
        everything = [v + r for v, r in zip(vectors, memory.residual)]
        update = np.zeros(self.layout.n, F)
        memory.residual = [np.zeros(self.layout.n, F) for _ in vectors]
        for t, (span, (rows, cols)) in enumerate(zip(self.layout.slices, self.layout.shapes)):
            parts = [a[span] for a in everything]
            if 2 * self.rank * (rows + cols) >= rows * cols:
                update[span] = average(parts)
                continue
            ms = [p.astype(np.float64).reshape(rows, cols) for p in parts]
            u, errors = self.one_matrix(memory, step, t, ms)
            update[span] = u.ravel()
            for r, e in zip(memory.residual, errors):
                r[span] = e.ravel() if self.keeps else 0
        return update, everything

    def other_bits(self, v):
        return (v + LAST_BITS * np.max(np.abs(v)) * self.noise.choice((-1, 1), len(v))).astype(F)

    def exchange(self, step, vectors):
        if step < self.warmup:
            return average(vectors)
        update, everything = self.follow(self.memory, step, vectors)
        other, _ = self.follow(self.twin, step, [self.other_bits(v) for v in vectors])
        spread = TIMES * np.max(np.abs(update.astype(np.float64) - other))
        self.slack = 1e-6 * float(np.max(np.abs(everything))) + float(spread)
        return update
