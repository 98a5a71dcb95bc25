# SPDX-License-Identifier: Apache-2.0
"""ef21_read.py - "Estimates" of docs/format-exchange.md."""
import numpy as np

from exchanges import by_buckets


def changed(crew, w, v):
    """The change of worker w's last vector, which v has brought."""
    eta = np.float32(crew.spec.eta)
    change = eta * (v - crew.last[w])
    crew.last[w] = v.copy() if eta == 1 else crew.last[w] + change
    return change


def skip(crew):
    crew.last = [g.copy() for g in crew.estimate]
    crew.residual = crew.zeros(True)
    crew.certain = [True] * crew.workers


def around(crew, exchange, vectors, notes):
    """An exchange, of the changes of the vectors if the spec has an estimate."""
    if not crew.estimate:
        return exchange(crew, vectors, notes)
    changes = [v if notes[w] else changed(crew, w, v) for w, v in enumerate(vectors)]
    results, note = exchange(crew, changes, notes)
    if note:
        skip(crew)
        return None, note
    crew.estimate = [g + c for g, c in zip(crew.estimate, results)]
    return [g.copy() for g in crew.estimate], 0


def whole(crew, vectors, notes):
    """A step of the warm-up."""
    for w, v in enumerate(vectors):
        if notes[w] == 0:
            changed(crew, w, v)
    sent = [v if notes[w] else crew.last[w] for w, v in enumerate(vectors)]
    results, note = by_buckets(crew, sent, notes)
    if note:
        skip(crew)
        return None, note
    crew.residual = crew.zeros(True)
    crew.estimate = [r.copy() for r in results]
    return results, 0
