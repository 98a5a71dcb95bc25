# SPDX-License-Identifier: Apache-2.0
"""exchange_owner_read.py - "Lists, by owners" of docs/format-exchange.md."""
import numpy as np

from bytes_and_checks import require
from collectives_read import lesser
from encoding import COMMON, draw, largest, largest_in_tiles
from exchanges import (check_coded, error_of, expect_note, note_of, open_due, same_to_all,
                       take_in)
from headed import NOTE, SPARSE
from momentum_read import mask


def selected(crew, v):
    if 0 < crew.spec.tile < len(v):
        return largest_in_tiles(v, crew.spec.tile, crew.spec.density_at(crew.step))
    return largest(v, crew.wanted())


class Brought:
    """What a worker has selected, and what arrives of it."""

    def __init__(self, crew, w, vector):
        v = take_in(crew, w, vector)
        self.positions = selected(crew, v)
        self.values = v[self.positions].copy()
        self.decoded = self.values.copy()
        v[self.positions] = 0
        mask(crew, w, self.positions)


def owners_of(crew, positions):
    key = crew.key(COMMON)
    return np.array([(draw(key, int(i)) >> 32) * crew.workers >> 32 for i in positions], np.int64)


def read_parts(crew, w, brought, note):
    """The messages of worker w to the owners."""
    owners = owners_of(crew, brought.positions) if brought else None
    for r in range(crew.workers):
        if r == w:
            continue
        m = open_due(crew, crew.mail.take(w, r), SPARSE, crew.n, crew.most(), w)
        expect_note(m, note, w)
        if m.kind == NOTE:
            continue
        mine = owners == r
        require(np.array_equal(m.positions, brought.positions[mine]), "entries of another owner")
        check_coded(crew, m, brought.values[mine], w)
        brought.decoded[mine] = m.values


def owned_sums(crew, brought, r):
    """The positions and sums that worker r sends on, and whether a sum overflows where."""
    total, there = np.zeros(crew.n, np.float32), np.zeros(crew.n, bool)
    for b in brought:
        mine = owners_of(crew, b.positions) == r
        at, values = b.positions[mine], b.decoded[mine]
        total[at] = np.where(there[at], total[at] + values, values)
        there[at] = True
    bad = np.flatnonzero(~np.isfinite(total)) if crew.looks else ()
    note = crew.note(crew.workers, bad[0]) if len(bad) else 0
    kept = largest(total, -(-crew.wanted() // crew.workers))
    return kept, total[kept], note


def lists_by_owners(crew, vectors, notes):
    brought = [None if notes[w] else Brought(crew, w, v) for w, v in enumerate(vectors)]
    note = 0
    for w in range(crew.workers):
        read_parts(crew, w, brought[w], notes[w])
        note = lesser(note, notes[w])
    if note:
        for w, b in enumerate(brought):
            if b and crew.residual:
                crew.residual[w][b.positions] += b.values
        return None, note
    return second_half(crew, brought)


def second_half(crew, brought):
    result, final, note, errors = np.zeros(crew.n, np.float32), np.zeros(crew.n, bool), 0, []
    for r in range(crew.workers):
        kept, sums, own_note = owned_sums(crew, brought, r)
        m = open_due(crew, same_to_all(crew, r), SPARSE, crew.n, crew.most(), r)
        expect_note(m, own_note, r)
        note = lesser(note, note_of(m))
        if m.kind == NOTE:
            continue
        require(np.array_equal(m.positions, kept), "other sums are the largest")
        check_coded(crew, m, sums, r, second=True)
        result[kept] += m.values / np.float32(crew.workers)
        final[kept] = True
        errors.append((r, kept, error_of(sums, m.values)))
    if note:  # of a sum: what was selected is gone
        return None, note
    put_back(crew, brought, final, errors)
    return [result] * crew.workers, 0


def put_back(crew, brought, final, errors):
    if not crew.residual:
        return
    exact = crew.spec.bits == 0 and not crew.spec.has("bf16")
    for w, b in enumerate(brought):
        inside = final[b.positions]
        crew.residual[w][b.positions[~inside]] += b.values[~inside]
        crew.residual[w][b.positions[inside]] += error_of(b.values, b.decoded)[inside]
    for r, kept, error in errors if not exact else ():
        crew.residual[r][kept] += error
