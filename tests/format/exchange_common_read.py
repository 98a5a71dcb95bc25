# SPDX-License-Identifier: Apache-2.0
"""exchange_common_read.py - "Common coordinates" of docs/format-exchange.md."""
import numpy as np

from collectives_read import allreduce
from encoding import COMMON, common_positions, count_for, key_of
from exchanges import average


def take_out(crew, w, vector, positions):
    """The values of worker w at the positions, which are 0 afterwards."""
    v = vector.copy()
    if crew.residual:
        v = crew.residual[w] = crew.residual[w] + vector
    values = v[positions]
    v[positions] = 0
    return values


def put_back(crew, w, positions, values):
    if crew.residual:
        good = np.isfinite(values)
        crew.residual[w][positions[good]] += values[good]


def look(crew, worker, values, positions):
    bad = np.flatnonzero(~np.isfinite(values)) if crew.looks else ()
    return crew.note(worker, crew.places[positions[bad[0]]]) if len(bad) else 0


def bring(crew, w, vector, positions, note):
    """What worker w brings to the average, or None for zeros; and its note."""
    if note:
        return None, note
    values = take_out(crew, w, vector, positions)
    note = look(crew, w, values, positions)
    if note:
        put_back(crew, w, positions, values)
    return None if note else values, note


def shared_positions(crew):
    """Those of the models, where a share of them is averaged."""
    k, turns = count_for(crew.spec.density, crew.n), crew.spec.order == "turns"
    key = key_of(crew.seed, 0, COMMON) if turns else crew.key(COMMON)
    return common_positions(key, crew.n, k, crew.step if turns else 0)


def nothing(crew, notes):
    """All tensors are small."""
    _, note = average(crew, [np.zeros(0, np.float32)] * crew.workers, notes)
    return [np.zeros(0, np.float32)] * crew.workers, note


def common_coordinates(crew, vectors, notes):
    if crew.n == 0:
        return nothing(crew, notes)
    positions = common_positions(crew.key(COMMON), crew.n, crew.wanted())
    brought = [bring(crew, w, v, positions, notes[w]) for w, v in enumerate(vectors)]
    zeros, own = np.zeros(len(positions), np.float32), [note for _, note in brought]
    averaged, note = allreduce(crew.mail, [zeros if x is None else x for x, _ in brought],
                               own if crew.looks else None, crew.workers)
    if note:
        for w, (values, _) in enumerate(brought):
            if values is not None:
                put_back(crew, w, positions, values)
        return None, note
    note = look(crew, crew.workers, averaged, positions)
    if note:  # of the sum: what was taken out is gone
        return None, note
    result = np.zeros(crew.n, np.float32)
    result[positions] += averaged
    return [result] * crew.workers, 0
