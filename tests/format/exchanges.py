# SPDX-License-Identifier: Apache-2.0
"""exchanges.py - the ways in which vectors become their average, from the sections of
docs/format-exchange.md of the same names.

Each takes the vectors of all workers and their notes, reads every message, compares it
with what its sender was to write, and returns the result of each worker and the note that
all have in the end; where that is not 0 there is no result."""
import numpy as np

import entropy_read
import cosines_read as cosines
from bytes_and_checks import require
from collectives_read import allreduce, by_doubling, lesser
from encoding import count_for, encode, key_of, lane_sum, largest, largest_in_tiles, magnitudes
from headed import DENSE, NOTE, SPARSE, longest, open_message
from momentum_read import mask
from specs import LOSSY, segments


class Crew:
    """The workers of a run, and what they remember."""

    def __init__(self, spec, layout, workers, mail, seed, looks):
        self.spec, self.layout, self.workers, self.mail = spec, layout, workers, mail
        self.seed, self.looks, self.step = seed + spec.seed, looks, 0
        self.n = n = layout.n  # floats that an exchange is about
        self.columns = layout.columns() if spec.centre == "column" else None
        self.small = layout.small(spec.dense_below if spec.exchange in LOSSY else 0)
        self.rest = np.setdiff1d(np.arange(n), self.small)
        self.places = np.arange(n)  # where in the vector these lie
        self.residual = self.zeros(spec.remembers)
        self.velocity = self.zeros(spec.momentum > 0 or spec.outer["momentum"] > 0)
        self.mean = self.zeros(spec.average == "polyak")
        one_velocity = spec.momentum > 0 and spec.velocity == "global" and spec.what == "gradients"
        self.rate = [np.zeros(1, np.float32)] * workers if one_velocity else None  # never told
        self.scale = self.zeros(spec.scale == "auto", 1)
        self.last, self.estimate = self.zeros(spec.estimates), self.zeros(spec.estimates)
        self.factor = self.zeros(spec.exchange == "thin", sum(
            spec.rank * cols for _, rows, cols in layout.tensors
            if 2 * spec.rank * (rows + cols) < rows * cols))
        late = spec.delay > 0 or spec.streams
        self.pending, self.waiting = self.zeros(late), self.zeros(late, 6)
        self.before = self.zeros(late and spec.lead > 0 and not spec.streams)
        self.reference = None
        self.certain = [True] * workers  # whether the residual is known
        self.lost, self.applied = [0.0] * workers, [0.0] * workers

    def zeros(self, wanted, floats=None):
        n = self.layout.n if floats is None else floats
        return [np.zeros(n, np.float32) for _ in range(self.workers)] if wanted else None

    def key(self, worker, second=False):
        return key_of(self.seed, self.step, worker + (self.workers if second else 0))

    def look(self, worker, v, begin=0):
        """The note of a worker about a part of its vector."""
        bad = np.flatnonzero(~np.isfinite(v)) if self.looks else ()
        return self.note(worker, self.places[begin + bad[0]]) if len(bad) else 0

    def note(self, worker, index):
        return worker + 1 << 32 | self.layout.numbers[self.layout.tensor_of(index)]

    def wanted(self):
        return count_for(self.spec.density_at(self.step), len(self.rest))

    def most(self):
        """The most entries that the spec can ever ask for."""
        if self.spec.in_cosines:
            return cosines.most(self)
        density, tile = self.spec.most_density(), self.spec.tile or self.n
        if tile < self.n:
            return sum(count_for(density, min(tile, self.n - b)) for b in range(0, self.n, tile))
        k = count_for(density, self.n)
        return min(self.n, 4 * k + 1024) if self.spec.has("drop") else k


# ---- sums -----------------------------------------------------------------------

def average(crew, xs, notes, begin=0):
    """The average of vectors that begin at `begin` of the whole."""
    result, note = allreduce(crew.mail, xs, notes if crew.looks else None, crew.workers)
    note = note or 0
    if note == 0 and crew.workers > 1:
        note = crew.look(crew.workers, result, begin)
    return result, note


def by_buckets(crew, vectors, notes, parts=False):
    result, all_notes, last = np.empty(crew.n, np.float32), list(notes), 0
    for begin, end in crew.layout.buckets():
        xs = [v[begin:end] for v in vectors]
        if parts:
            all_notes = [crew.look(w, x, begin) for w, x in enumerate(xs)]
        result[begin:end], note = average(crew, xs, all_notes, begin)
        all_notes = [note] * crew.workers
        last = lesser(last, note)
    return [result] * crew.workers, last


def adaptive_sum(crew, vectors, notes):
    """By doubling, with another way to combine two vectors."""
    def combine(a, b):
        out = np.empty_like(a)
        for begin, end in crew.layout.spans:
            x, y = a[begin:end].astype(np.float64), b[begin:end].astype(np.float64)
            ab, aa, bb = lane_sum(x * y), lane_sum(x * x), lane_sum(y * y)
            weights = [np.float32(1 - ab / (2 * own)) if own > 0 else np.float32(1) for own in (aa, bb)]
            out[begin:end] = weights[0] * a[begin:end] + weights[1] * b[begin:end]
        return out

    result, note = by_doubling(crew.mail, vectors, notes if crew.looks else None, 1, combine)
    return [result] * crew.workers, note or crew.look(crew.workers, result)


# ---- messages -------------------------------------------------------------------

def open_due(crew, data, kind, n, most, sender):
    """Opens a message and sees that it is the one that is due; or a note."""
    spec, m = crew.spec, open_message(data, crew.columns)
    require(m.step == crew.step, f"worker {sender} is in step {m.step}, not {crew.step}")
    if m.kind == NOTE:
        require(crew.looks and m.n == crew.layout.n, "a note that is not due")
        require(m.note[0] <= crew.workers and m.note[1] < len(crew.layout.tensors), "a strange note")
        return m
    require((m.kind, m.n, m.coding, m.bits) == (kind, n, spec.coding, spec.bits),
            f"worker {sender} sent a message of another form")
    require((m.sent, m.entropy) == entropy_read.write(m.plain, m.k, m.bits) if spec.code == "entropy" and m.bits
            else not m.entropy, f"worker {sender} codes its values once more in another way")
    require(m.k <= most, f"{m.k} values, at most {most} were due")
    require(m.values is not None, f"{m.group} centres with {m.bits} bits")
    require(not crew.looks or kind == DENSE or np.isfinite(m.values).all(), "values are not finite")
    length = longest(kind, m.coding, m.bits, m.group, m.n, m.k, len(m.scales))
    require(len(data) <= length, f"{len(data)} bytes, at most {length} for {m.k} values")
    return m


def same_to_all(crew, sender):
    """The message that a worker has sent to all others."""
    copies = [crew.mail.take(sender, r) for r in range(crew.workers) if r != sender]
    require(all(c == copies[0] for c in copies), f"worker {sender} sends different messages to all")
    return copies[0]


def note_of(m):
    return m.note[0] + 1 << 32 | m.note[1] if m.kind == NOTE else 0


def expect_note(m, note, sender):
    require(note_of(m) == note, f"the note of worker {sender} is {note_of(m):#x}, not {note:#x}")


def check_coded(crew, m, v, worker, second=False, first=0):
    """Sees that a message says of the values v what its sender was to write."""
    columns = crew.columns[m.positions] if crew.columns is not None else None
    due = encode(v, crew.spec, crew.key(worker, second), first, columns)
    require(m.coded == due, f"worker {worker} codes its values in another way")


def error_of(v, decoded):
    """What stays; 0 + x makes 0 of -0."""
    return np.float32(0) + (v - decoded)


# ---- lists ----------------------------------------------------------------------

def take_in(crew, w, v):
    """The vector from which worker w selects."""
    if crew.residual:
        crew.residual[w] = np.float32(crew.spec.decay) * crew.residual[w] + v
        return crew.residual[w]
    return v


def remove(crew, w, positions, errors):
    if crew.residual:
        crew.residual[w][positions] = errors
    mask(crew, w, positions)


def check_selected(crew, v, positions):
    if crew.spec.in_cosines:
        cosines.check_selected(crew, v, positions)
    elif 0 < crew.spec.tile < len(v):
        due = largest_in_tiles(v, crew.spec.tile, crew.spec.density_at(crew.step))
        require(np.array_equal(positions, due), "others are the largest of their tiles")
    elif crew.spec.has("topk", "gtopk", "oktopk", "sparseloco"):
        require(np.array_equal(positions, largest(v, crew.wanted())), "others are the largest")
    else:
        sent = np.zeros(len(v), bool)
        sent[positions] = True
        keys = magnitudes(v)
        require(crew.spec.threshold == "tensor" or not sent.any() or sent.all() or
                keys[sent].min() >= keys[~sent].max() or len(positions) == crew.most(),
                "larger entries stay behind")


def read_list(crew, w, vector, note):
    """The message that worker w sends to all."""
    data = same_to_all(crew, w)
    m = open_due(crew, data, SPARSE, crew.n, crew.most(), w)
    expect_note(m, note, w)
    if m.kind == NOTE:
        return m
    v = take_in(crew, w, vector)
    check_selected(crew, v, m.positions)
    chosen = v[m.positions]
    check_coded(crew, m, chosen, w)
    remove(crew, w, m.positions, error_of(chosen, m.values))
    return m


def lists_gathered(crew, vectors, notes):
    messages = [read_list(crew, w, vectors[w], notes[w]) for w in range(crew.workers)]
    note = 0
    for m in messages:
        note = lesser(note, note_of(m))
    result, senders = np.zeros(crew.n, np.float32), np.zeros(crew.n, np.float32)
    by_senders = crew.spec.combine == "senders"
    for w, m in enumerate(messages):
        if m.kind == NOTE:
            continue
        if note and crew.residual:
            crew.residual[w][m.positions] += m.values
        result[m.positions] += m.values if by_senders else m.values / np.float32(crew.workers)
        senders[m.positions] += 1
    if by_senders:
        result /= np.maximum(senders, np.float32(1))
    return [result] * crew.workers, note


# ---- whole vectors in few bits --------------------------------------------------

def source(crew, w, v):
    if crew.residual:
        crew.residual[w] = crew.residual[w] + v
        return crew.residual[w].copy()
    return v


def keep_error(crew, w, begin, end, error):
    if crew.residual:
        crew.residual[w][begin:end] = error


def whole_gathered(crew, vectors, notes):
    total, note, sent = None, 0, []
    for w in range(crew.workers):
        m = open_due(crew, same_to_all(crew, w), DENSE, crew.n, crew.n, w)
        expect_note(m, notes[w], w)
        note = lesser(note, notes[w])
        if notes[w] == 0:
            v = source(crew, w, vectors[w])
            check_coded(crew, m, v, w)
            keep_error(crew, w, 0, crew.n, v - m.values)
            sent.append((w, m.values))
            total = m.values if total is None else total + m.values
    if note:
        for w, values in sent:
            if crew.residual:
                crew.residual[w] = crew.residual[w] + values
        return None, note
    result = total / np.float32(crew.workers)
    return [result] * crew.workers, crew.look(crew.workers, result)


def first_half(crew, spans, sources, notes):
    """What each worker has received of its segment: decoded[owner][sender]."""
    decoded = [{} for _ in spans]
    for w in range(crew.workers):
        for s, (begin, end, bucket) in enumerate(spans):
            if s == w:
                continue
            m = open_due(crew, crew.mail.take(w, s), DENSE, end - begin, end - begin, w)
            expect_note(m, notes[w], w)
            if notes[w] == 0:
                check_coded(crew, m, sources[w][begin:end], w, first=bucket)
                decoded[s][w] = m.values
    return decoded


def segment_average(crew, sources, decoded, s, begin, end):
    total = sources[s][begin:end].copy()
    for w in range(crew.workers):
        if w != s:
            total = total + decoded[s][w]
    return total / np.float32(crew.workers)


def whole_scattered(crew, vectors, notes):
    spans = segments(crew.n, crew.spec.bucket, crew.workers)
    sources = [source(crew, w, v) if note == 0 else None
               for w, (v, note) in enumerate(zip(vectors, notes))]
    decoded = first_half(crew, spans, sources, notes)
    noted = [note for note in notes if note]
    for s, (begin, end, _) in enumerate(spans):
        for w, values in decoded[s].items():
            error = sources[w][begin:end] - values
            keep_error(crew, w, begin, end, error + values if noted else error)
    return (None, min(noted)) if noted else second_half(crew, spans, sources, decoded)


def second_half(crew, spans, sources, decoded):
    result, least = np.empty(crew.n, np.float32), 0
    for s, (begin, end, bucket) in enumerate(spans):
        mean = segment_average(crew, sources, decoded, s, begin, end)
        note = crew.look(crew.workers, mean, begin)
        m = open_due(crew, same_to_all(crew, s), DENSE, end - begin, end - begin, s)
        expect_note(m, note, s)
        least = lesser(least, note)
        if note:
            crew.certain = [False] * crew.workers
            continue
        check_coded(crew, m, mean, s, second=True, first=bucket)
        result[begin:end] = m.values
        keep_error(crew, s, begin, end,
                   np.float32(0) + np.float32(crew.workers) * (mean - m.values))
    return [result] * crew.workers, least


def whole_vectors(crew, vectors, notes):
    if crew.spec.by_scatter(crew.workers):
        return whole_scattered(crew, vectors, notes)
    return whole_gathered(crew, vectors, notes)


# ---- two means ------------------------------------------------------------------

def two_means(v):
    stripe = max(4096, -(-(len(v) // 64 + 1) // 64) * 64)
    sums, below = [0.0, 0.0], int((v < 0).sum())
    for at in range(0, len(v), stripe):
        part = v[at:at + stripe].astype(np.float64)
        sums[0] += lane_sum(np.where(part > 0, part, 0.0))
        sums[1] += lane_sum(np.where(part < 0, part, 0.0))
    counts = [len(v) - below, below]
    return np.array([s / c if c else 0.0 for s, c in zip(sums, counts)], np.float64).astype(np.float32)


def runs_with_means(crew):
    """Of the whole vector, of each tensor or of each row, and of at most `bucket` entries."""
    per, bucket = crew.spec.per, crew.spec.bucket
    wholes = [(0, crew.layout.n)] if per == "all" else crew.layout.spans
    if per == "row":
        wholes = [(at, at + cols) for (begin, end), (_, _, cols) in zip(wholes, crew.layout.tensors)
                  for at in range(begin, end, cols)]
    return [(at, min(at + bucket, end) if bucket else end)
            for begin, end in wholes for at in range(begin, end, bucket or end - begin)]


def means(crew, vectors, notes):
    runs = runs_with_means(crew)
    own = [np.concatenate([two_means(v[b:e]) for b, e in runs]) for v in vectors]
    all_means, note = average(crew, own, notes)
    if note >> 32 == crew.workers + 1:
        first = int(np.flatnonzero(~np.isfinite(all_means))[0])
        note = crew.workers + 1 << 32 | crew.layout.tensor_of(runs[first // 2][0])
    results = [v.copy() for v in vectors]
    for v, m in zip(results, own):
        for i, (b, e) in enumerate(runs):
            plus, minus = (all_means - m)[2 * i:2 * i + 2]
            v[b:e] += np.where(v[b:e] < 0, minus, plus)
    return results, note
