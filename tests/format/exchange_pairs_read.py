# SPDX-License-Identifier: Apache-2.0
"""exchange_pairs_read.py - "Lists, in pairs" of docs/format-exchange.md."""
import numpy as np

from bytes_and_checks import require
from collectives_read import lesser
from exchange_tree_read import Climb, add, as_list, cut, put_back
from headed import NOTE


class Swaps(Climb):
    """What happens to the lists of groups of workers, round by round."""

    def write(self, data, w, coder):
        """Opens what worker w has written with the random bits of `coder`; its list becomes
        what is read of it."""
        m = self.open(data, w, coder)
        if m.kind != NOTE:
            self.lists[w] = {p: v for p, v in as_list(m.positions, m.values).items() if v != 0}

    def merged(self, lower, upper, first):
        """What two groups have together. `first` is the worker that remembers, or None."""
        crew = self.crew
        note = lesser(self.notes[lower], self.notes[upper])
        if note:
            return {}, note
        entries, others = cut(add(self.lists[lower], self.lists[upper]), crew.wanted())
        if first is not None:
            self.reject(first, others)
        bad = [p for p, v in entries.items() if crew.looks and not np.isfinite(v)]
        return ({}, crew.note(crew.workers, bad[0])) if bad else (entries, 0)

    def round(self, d, number, q):
        p, mail = self.crew.workers, self.crew.mail
        for w in range(q):
            first = w - w % d
            self.keeps_error = w == first
            self.write(mail.take(w, w ^ d), w, first + number * p)
        found = [self.merged(w & ~d, w | d, w if w % (2 * d) == 0 else None) for w in range(q)]
        for w, (entries, note) in enumerate(found):
            self.lists[w], self.notes[w] = entries, note

    def from_beyond(self, q):
        """The workers past the power of two."""
        self.keeps_error = True
        for w in range(q, self.crew.workers):
            self.write(self.crew.mail.take(w, w - q), w, w)
            self.lists[w - q], self.notes[w - q] = self.merged(w - q, w, w - q)

    def to_beyond(self, q, rounds):
        crew = self.crew
        copies = [crew.mail.take(w - q, w) for w in range(q, crew.workers)]
        require(all(c == copies[0] for c in copies), "not all get the same list")
        if not copies:
            return self.lists[0]
        self.keeps_error = True
        m = self.open(copies[0], 0, (rounds + 1) * crew.workers, last=True)
        return {} if m.kind == NOTE else as_list(m.positions, m.values)


def lists_in_pairs(crew, vectors, notes):
    swaps, q, rounds = Swaps(crew, vectors, notes), 1, 0
    while 2 * q <= crew.workers:
        q, rounds = 2 * q, rounds + 1
    swaps.from_beyond(q)
    for number in range(rounds):
        swaps.round(2 ** number, number, q)
    final = swaps.to_beyond(q, rounds)
    require(len(set(swaps.notes[:q])) == 1, "not all have the same note")
    if swaps.notes[0]:
        crew.certain = [False] * crew.workers
        return None, swaps.notes[0]
    if swaps.puts_back:
        put_back(swaps, final)
    result = np.zeros(crew.n, np.float32)
    for position, value in final.items():
        result[position] += value / np.float32(crew.workers)
    return [result] * crew.workers, 0
