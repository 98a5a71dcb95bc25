# SPDX-License-Identifier: Apache-2.0
"""scale_read.py - "The scale of changes" of docs/format-exchange.md."""
import numpy as np

from collectives_read import allreduce
from encoding import COMMON, draw, key_of

SAMPLE, EVERY, SMOOTH = 4096, 16, 8


def within(crew, scale):
    return min(max(scale, 1.0), float(np.sqrt(float(crew.workers))))


def factor(crew):
    """That of this step's changes."""
    spec = crew.spec
    return np.float32(within(crew, float(crew.scale[0][0])) if spec.scale == "auto" else spec.scale)


def is_due(crew):
    change = crew.step - crew.spec.start
    return crew.spec.scale == "auto" and crew.workers > 1 and (change <= EVERY or change % EVERY == 0)


def places_of(crew):
    n = crew.layout.n
    if n <= SAMPLE:
        return np.arange(n)
    key = key_of(crew.seed - crew.spec.seed, crew.step, COMMON)
    return np.array([draw(key, i) % n for i in range(SAMPLE)])


def length(x):
    """The sum goes from the first to the last."""
    return np.sqrt(np.add.accumulate(x.astype(np.float64)**2)[-1])


def follow(crew, changes, notes):
    """Measures changes, where that is due; returns the notes with which the step goes on."""
    if not is_due(crew):
        return notes
    places = places_of(crew)
    samples = [np.append(np.float32(length(d[places])), d[places]) for d in changes]
    mean, note = allreduce(crew.mail, samples, notes if crew.looks else None, crew.workers)
    bad = np.flatnonzero(~np.isfinite(mean)) if crew.looks and not note else ()
    if len(bad):
        note = crew.note(crew.workers, places[max(bad[0] - 1, 0)])
    if note:
        return [note] * crew.workers
    together, before = length(mean[1:]), float(crew.scale[0][0])
    if together > 0 and np.isfinite(now := float(mean[0]) / together):
        now = within(crew, now)
        now = before + (now - before) / SMOOTH if before > 0 else now
        crew.scale = [np.full(1, now, np.float32)] * crew.workers
    return notes
