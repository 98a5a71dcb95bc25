# SPDX-License-Identifier: Apache-2.0
"""exchange_lowrank_read.py - "Thin matrices" of docs/format-exchange.md."""
import numpy as np

from collectives_read import allreduce
from encoding import COMMON, draw

DEPENDENT = 1e-5


class Place:
    """A tensor, and the rank of its factors; 0 if it is sent whole."""

    def __init__(self, number, span, rows, cols, rank):
        self.number, self.span, self.rows, self.cols = number, span, rows, cols
        self.rank = rank if 2 * rank * (rows + cols) < rows * cols else 0

    def of(self, v):
        return v[self.span[0]:self.span[1]].reshape(self.rows, self.cols)


def places(crew):
    return [Place(i, span, rows, cols, crew.spec.rank)
            for i, (span, (_, rows, cols)) in enumerate(zip(crew.layout.spans, crew.layout.tensors))]


def in_turn(values):
    """A sum in f64 from the first on."""
    return np.add.accumulate(np.concatenate([[0.0], values]))[-1]


def norm(x):
    return np.sqrt(in_turn(x.astype(np.float64)**2))


def without_others(x, c):
    own = x[c]
    for other in x[:c]:
        share = in_turn(own.astype(np.float64) * other.astype(np.float64))
        own = (own.astype(np.float64) - share * other.astype(np.float64)).astype(np.float32)
    return own


def made_orthonormal(x, c):
    """Column c, or whether it depends on those before."""
    for _ in range(2):
        before = norm(x[c])
        x[c] = without_others(x, c)
        after = norm(x[c])
        if not after > DEPENDENT * before:
            return False
        x[c] = (x[c].astype(np.float64) / after).astype(np.float32)
    return True


def orthonormalize(x, key=None):
    n = x.shape[1]
    for c in range(len(x)):
        fits = made_orthonormal(x, c)
        if not fits and key is not None:
            bits = [(draw(key, c * n + i) >> 40) - 2**23 for i in range(n)]
            x[c] = np.array(bits, np.float32) / np.float32(2**23)
            fits = made_orthonormal(x, c)
        if not fits:
            x[c] = 0


def project(m, q):
    """Columns of m q: by 16 lanes, which are added in halves."""
    rows, cols = m.shape
    steps = -(-cols // 16)
    wide = np.zeros((rows, steps * 16), np.float32)
    wide[:, :cols] = m
    p = np.zeros((len(q), rows), np.float32)
    for c, column in enumerate(q):
        factor = np.zeros(steps * 16, np.float32)
        factor[:cols] = column
        lanes = np.zeros((rows, 16), np.float32)
        for j in range(0, steps * 16, 16):
            lanes = lanes + wide[:, j:j + 16] * factor[j:j + 16]
        for half in (8, 4, 2, 1):
            lanes = lanes[:, :half] + lanes[:, half:2 * half]
        p[c] = lanes[:, 0]
    return p


def project_back(m, p):
    q = np.zeros((len(p), m.shape[1]), np.float32)
    for i, row in enumerate(m):
        q = q + p[:, i:i + 1] * row
    return q


def expand(p, q):
    out = np.zeros((p.shape[1], q.shape[1]), np.float32)
    for a, b in zip(p, q):
        out = out + np.outer(a, b)
    return out


def cut(buffer, tensors, size):
    """What the buffer has of each tensor."""
    at, parts = 0, []
    for t in tensors:
        parts.append(buffer[at:at + size(t)])
        at += size(t)
    return parts


def tensor_of(tensors, i, size):
    at = 0
    for t in tensors:
        at += size(t)
        if i < at:
            return t
    return None


def first_size(t):
    return t.rank * t.rows if t.rank else t.rows * t.cols


def second_size(t):
    return t.rank * t.cols


def averaged(crew, tensors, buffers, notes, size):
    result, note = allreduce(crew.mail, buffers, notes if crew.looks else None, crew.workers)
    note = note or 0
    bad = np.flatnonzero(~np.isfinite(result)) if crew.looks and crew.workers > 1 and not note else ()
    if len(bad):
        note = crew.note(crew.workers, tensor_of(tensors, bad[0], size).span[0])
        if crew.residual:
            crew.residual = crew.zeros(True)
    return result, note


def last_factors(crew, tensors):
    """The orthonormal ones, for each tensor."""
    q = [x.reshape(t.rank, -1).copy() if t.rank else None
         for t, x in zip(tensors, cut(crew.factor[0], tensors, second_size))]
    for t, x in zip(tensors, q):
        if t.rank:
            orthonormalize(x, draw(crew.key(COMMON), t.number))
    return q


def take_in(crew, w, v):
    if not crew.residual:
        return v
    crew.residual[w] = crew.residual[w] + v
    return crew.residual[w]


def first_buffer(tensors, q, m):
    return np.concatenate([project(t.of(m), q[i]).ravel() if t.rank else t.of(m).ravel()
                           for i, t in enumerate(tensors)])


def keep_factors(crew, q):
    crew.factor = [q.copy() for _ in range(crew.workers)]


def thin_matrices(crew, vectors, notes):
    tensors = places(crew)
    q = last_factors(crew, tensors)
    keep_factors(crew, np.concatenate([x.ravel() for x in q if x is not None] or
                                      [np.zeros(0, np.float32)]))
    ms = [None if notes[w] else take_in(crew, w, v) for w, v in enumerate(vectors)]
    zeros = np.zeros(sum(first_size(t) for t in tensors), np.float32)
    first, note = averaged(crew, tensors, [zeros if m is None else first_buffer(tensors, q, m)
                                           for m in ms], notes, first_size)
    return (None, note) if note else second_half(crew, tensors, ms, first)


def second_half(crew, tensors, ms, first):
    p = [x.reshape(t.rank, -1).copy() if t.rank else x
         for t, x in zip(tensors, cut(first, tensors, first_size))]
    for t, x in zip(tensors, p):
        if t.rank:
            orthonormalize(x)
    own = [[project_back(t.of(m), x) if t.rank else np.zeros(0, np.float32)
            for t, x in zip(tensors, p)] for m in ms]
    keeps_own = crew.spec.error == "own"
    for w in range(crew.workers if keeps_own and crew.residual else 0):
        for t, x, y in zip(tensors, p, own[w]):
            if t.rank:
                t.of(crew.residual[w])[:] = t.of(crew.residual[w]) - expand(x, y)
    second, note = averaged(crew, tensors, [np.concatenate([y.ravel() for y in mine]) for mine in own],
                            [0] * crew.workers, second_size)
    if note:
        return None, note
    keep_factors(crew, second)
    result = np.zeros(crew.layout.n, np.float32)
    for t, x, y in zip(tensors, p, cut(second, tensors, second_size)):
        t.of(result)[:] = expand(x, y.reshape(t.rank, -1)) if t.rank else x.reshape(t.rows, t.cols)
        for r in crew.residual or ():
            if not t.rank:
                t.of(r)[:] = 0
            elif not keeps_own:
                t.of(r)[:] = t.of(r) - t.of(result)
    return [result] * crew.workers, 0
