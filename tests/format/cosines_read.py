# SPDX-License-Identifier: Apache-2.0
"""cosines_read.py - vectors as cosines of tiles and back, from "Tiles of cosines" of
docs/format-exchange.md: in f32, every sum in its order."""
import math

import numpy as np

from bytes_and_checks import require
from encoding import count_for, largest

F = np.float32


def cut(n, chunk):
    whole = [run for run in range(chunk, chunk // 2, -1) if n % run == 0]
    count = n // whole[0] if whole else -(-n // chunk)
    return [i * n // count for i in range(count + 1)]


def tiles_of(layout, chunk):
    """Of each tile, where in the vector its entries lie, as a matrix."""
    for (begin, end), (_, rows, cols) in zip(layout.spans, layout.tensors):
        places = np.arange(begin, end).reshape(rows, cols)
        down, across = cut(rows, chunk), cut(cols, chunk)
        for r, r_end in zip(down, down[1:]):
            for c, c_end in zip(across, across[1:]):
                yield places[r:r_end, c:c_end]


def cosine(a, b):
    """cos(pi a / b); pi / 2 is not a float, but its cosine is 0."""
    return 0.0 if 2 * a % (2 * b) == b else math.cos(math.pi * a / b)


def matrix(rows, m, first, scale, odd):
    """E or O of length m, by rows."""
    entries = [[(scale if c or odd else first) * cosine((2 * j + 1) * (2 * c + odd), 2 * m)
                for j in range(rows)] for c in range(rows)]
    return np.array(entries).astype(F).reshape(rows, rows)


def product(m, x):
    total = m[:, :1] * x[0]
    for j in range(1, len(x)):
        total = total + m[:, j:j + 1] * x[j]
    return total


def ends(x):
    """The first half of x, and the last in reverse."""
    half = len(x) // 2
    return x[:half], x[::-1][:half]


def odd_numbers(y, n, scale):
    """The odd coefficients of differences, and the other way."""
    m, half = len(y), len(y) // 2
    if m <= 16 or m % 2 == 1 or n % 2 == 1:
        return product(matrix(m, n, 0, scale, 1), y)
    a, b = ends(y)
    w = [math.pi * (2 * j + 1) / (4 * m) for j in range(half)]
    c = np.array([[math.cos(x)] for x in w]).astype(F)
    s = np.array([[math.sin(x)] for x in w]).astype(F)
    sign = np.array([[(-1) ** j] for j in range(half)], F)
    p = transform(c * a + s * b, scale, scale, whole=False)
    q = transform(sign * c * b - sign * s * a, scale, scale, whole=False)
    out = np.empty_like(y)
    out[0], out[m - 1] = p[0], -q[0]
    out[2::2] = p[1:] + q[:0:-1]
    out[1:m - 1:2] = p[1:] - q[:0:-1]
    return out


def transform(x, first, scale, whole=True):
    """The coefficients of the columns of x."""
    n, out = len(x), np.empty_like(x)
    a, b = ends(x)
    sums, differences = a + b, a - b
    if len(differences):
        out[1::2] = (odd_numbers(differences, n, scale) if whole
                     else product(matrix(n // 2, n, 0, scale, 1), differences))
    if n % 2 == 0:
        out[0::2] = transform(sums, first, scale, whole=False)
    else:
        out[0::2] = product(matrix(n // 2 + 1, n, first, scale, 0), np.vstack([sums, x[n // 2:n // 2 + 1]]))
    return out


def inverse(y, first, scale, whole=True):
    n, out = len(y), np.empty_like(y)
    even = (inverse(y[0::2], first, scale, whole=False) if n % 2 == 0
            else product(matrix(n // 2 + 1, n, first, scale, 0).T.copy(), y[0::2]))
    half = n // 2
    if half:
        odd = (odd_numbers(y[1::2], n, scale) if whole
               else product(matrix(half, n, 0, scale, 1), y[1::2]))
        out[:half], out[::-1][:half] = even[:half] + odd, even[:half] - odd
    if n % 2 == 1:
        out[half] = even[half]
    return out


def columns(x, run):
    n = len(x)
    return run(x, math.sqrt(1 / n), math.sqrt(2 / n))


def forward(crew, v):
    parts = [columns(columns(v[tile], transform).T.copy(), transform)
             for tile in tiles_of(crew.layout, crew.spec.chunk)]
    return np.concatenate([part.ravel() for part in parts])


def back(crew, coefficients):
    out, at = np.empty_like(coefficients), 0
    for tile in tiles_of(crew.layout, crew.spec.chunk):
        rows, cols = tile.shape
        part = coefficients[at:at + tile.size].reshape(cols, rows)
        out[tile] = columns(columns(part, inverse).T.copy(), inverse)
        at += tile.size
    return out


def most(crew):
    return sum(count_for(crew.spec.density, tile.size) for tile in tiles_of(crew.layout, crew.spec.chunk))


def check_selected(crew, v, positions):
    due, at = [], 0
    for tile in tiles_of(crew.layout, crew.spec.chunk):
        due.append(at + largest(v[at:at + tile.size], count_for(crew.spec.density, tile.size)))
        at += tile.size
    require(np.array_equal(positions, np.concatenate(due)), "others are the largest of their tiles")


def around(crew, way, vectors, notes):
    """An exchange of coefficients; the note of a result that is not finite."""
    results, note = way(crew, [forward(crew, v) for v in vectors], notes)
    if note:
        return None, note
    result = back(crew, results[0])
    return [result] * crew.workers, crew.look(crew.workers, result)


def signs(crew, results):
    if not crew.spec.in_cosines or crew.spec.update == "mean":
        return results
    return [np.sign(v) for v in results]
