# SPDX-License-Identifier: Apache-2.0
"""exchange_tree_read.py - "Lists, along a tree" of docs/format-exchange.md."""
import numpy as np

from bytes_and_checks import require
from collectives_read import edges, lesser
from encoding import largest
from exchanges import (check_coded, error_of, expect_note, note_of, open_due, take_in)
from headed import NOTE, SPARSE
from momentum_read import mask


def add(a, b):
    """The values of two lists (dictionaries by position) added, the first one's first."""
    total = dict(a)
    for position, value in b.items():
        total[position] = total[position] + value if position in total else value
    return dict(sorted(total.items()))


def cut(entries, k):
    """The k largest, and the others."""
    positions = np.array(list(entries), np.int64)
    values = np.array(list(entries.values()), np.float32)
    chosen = set(positions[largest(values, k)].tolist()) if len(values) else set()
    kept = {p: v for p, v in entries.items() if p in chosen}
    return kept, {p: v for p, v in entries.items() if p not in chosen}


def as_list(positions, values):
    return dict(zip(positions.tolist(), values))


def values_at(entries):
    return np.array(list(entries.values()), np.float32)


class Climb:
    """What happens to the lists on their way to worker 0."""

    def __init__(self, crew, vectors, notes):
        self.crew, self.notes = crew, list(notes)
        self.puts_back = crew.spec.putback != "keep" and crew.residual is not None
        self.lists = [self.select(w, vectors[w]) for w in range(crew.workers)]
        self.own = [dict(entries) for entries in self.lists]
        self.errors = [[] for _ in vectors]
        self.keeps_error = True  # whoever writes the next message
        self.rejected = [[] for _ in vectors]

    def keep(self, w, entries):
        if self.crew.residual:
            r = self.crew.residual[w]
            for position, value in entries.items():
                r[position] += value

    def select(self, w, vector):
        if self.notes[w]:
            return {}
        v = take_in(self.crew, w, vector)
        positions = largest(v, self.crew.wanted())
        values = v[positions].copy()
        if self.crew.residual:
            self.crew.residual[w][positions] = 0
        mask(self.crew, w, positions)
        return as_list(positions, values)

    def open(self, data, w, coder, last=False):
        """Opens what worker w has written, and sees that it is its list, or its note. `coder` is
        w, or more if it has coded before in this step; see crew.key()."""
        crew = self.crew
        m = open_due(crew, data, SPARSE, crew.n, crew.most(), w)
        expect_note(m, self.notes[w], w)
        if m.kind == NOTE:
            return m
        require(m.positions.tolist() == list(self.lists[w]), f"worker {w} sends another list")
        values = values_at(self.lists[w])
        check_coded(crew, m, values, coder)
        errors = as_list(m.positions, error_of(values, m.values))
        if not self.keeps_error:
            return m
        if self.puts_back and not last:
            self.errors[w].append(errors)
        else:
            self.keep(w, errors)
        return m

    def reject(self, w, others):
        """Others than the largest, of a merge of worker w."""
        if self.puts_back:
            self.rejected[w].append(others)
        else:
            self.keep(w, others)

    def merge(self, parent, m):
        crew = self.crew
        total = add(self.lists[parent], as_list(m.positions, m.values))
        self.lists[parent], others = cut(total, crew.wanted())
        self.reject(parent, others)
        bad = [p for p, v in self.lists[parent].items() if crew.looks and not np.isfinite(v)]
        if bad:
            self.notes[parent] = crew.note(crew.workers, bad[0])

    def up(self, child, parent):
        m = self.open(self.crew.mail.take(child, parent), child, child)
        if m.kind == NOTE:
            self.notes[parent] = lesser(self.notes[parent], note_of(m))
        elif self.notes[parent] == 0:
            self.merge(parent, m)

    def all_up(self):
        d, p = 1, self.crew.workers
        while d < p:
            for child in range(d, p, 2 * d):
                self.up(child, child - d)
            d *= 2


def mass(entries, final):
    total = 0.0
    for position, value in entries.items():
        if position in final:
            total += float(abs(value))
    return total


def put_back(climb, final):
    """What waits for the final list; and the masses that the published rule counts."""
    crew = climb.crew
    paper = crew.spec.putback == "paper"
    for w in range(crew.workers):
        climb.keep(w, {p: v for p, v in climb.own[w].items() if p not in final})
        for errors in climb.errors[w]:
            climb.keep(w, {p: v for p, v in errors.items() if p in final})
        for others in climb.rejected[w]:
            if paper:
                crew.lost[w] += mass(others, final)
            else:
                climb.keep(w, {p: v for p, v in others.items() if p in final})
        crew.applied[w] += mass(final, final) if paper else 0.0


def lists_along_a_tree(crew, vectors, notes):
    climb = Climb(crew, vectors, notes)
    climb.all_up()
    copies = [crew.mail.take(*edge) for edge in edges(crew.workers)]
    require(all(c == copies[0] for c in copies), "not all get the same list")
    m = climb.open(copies[0], 0, crew.workers, last=True)
    if m.kind == NOTE:
        crew.certain = [False] * crew.workers
        return None, note_of(m)
    if climb.puts_back:
        put_back(climb, as_list(m.positions, m.values))
    result = np.zeros(crew.n, np.float32)
    result[m.positions] += m.values / np.float32(crew.workers)
    return [result] * crew.workers, 0
