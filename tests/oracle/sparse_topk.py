# SPDX-License-Identifier: Apache-2.0
"""sparse_topk.py - top-k sparsification with a residual, messages gathered from all:

    a = g + r_i;  I = the k = max(1, floor(density * n)) largest |a|, none of them 0
    send (j, a[j]) for j in I, perhaps in fewer bits
    r_i = a less what was sent;  u = (sum of what all sent) / P

With tiles, I has the largest of each run of so many floats. With decay, a = g + decay r_i.
With senders, u is the sum over the workers that sent a coordinate, by their number.

And what can be asked of every sparsifier: dense steps at first, a ladder of
densities, small tensors sent whole, and DGC's momentum correction."""
import numpy as np

from sync_method import Exchange, F, average

NEAR = 1e-6  # Magnitudes as close as this, relatively, may be ranked either way.
LADDER = (0.25, 0.0625, 0.015625, 0.004)


def largest(values, k):
    """The positions of the k largest magnitudes, ascending; of equals the first. There
    are fewer where fewer are not 0."""
    order = np.argsort(-np.abs(values), kind="stable")
    return np.sort(order[:min(k, np.count_nonzero(values))])


def near_cut(magnitudes, cut):
    """Positions that rounding could have put on the other side of the cut: none if
    the cut itself stands alone."""
    close = np.flatnonzero(np.abs(magnitudes - cut) <= NEAR * cut)
    close = close[magnitudes[close] > 0]
    return close if len(close) > 1 else close[:0]


def plain(values, **_):
    """Values as they are."""
    return values


class TopK(Exchange):
    """code(values, step, worker, threshold, columns) gives the values that arrive
    when the chosen values are sent; threshold is the smallest magnitude chosen."""

    def __init__(self, layout, workers, density, warmup=0, ladder=0, dense_below=0,
                 residual=True, code=plain, tile=0, decay=1, senders=False):
        self.layout, self.workers, self.target = layout, workers, density
        self.tile, self.decay, self.senders = tile or layout.n, F(decay), senders
        self.warmup, self.ladder = warmup, ladder
        self.keeps, self.code = residual, code
        self.residual = [np.zeros(layout.n, F) for _ in range(workers)]
        self.picked = [None] * workers
        self.columns = layout.columns()
        small = [s for s in layout.slices if s.stop - s.start < dense_below]
        whole = np.zeros(layout.n, bool)
        for s in small:
            whole[s] = True
        self.whole = np.flatnonzero(whole)
        self.chosen_from = np.flatnonzero(~whole)

    def density(self, step):
        """1 while warming up, then down the ladder's rungs above the target."""
        if step < self.warmup:
            return 1.0
        rungs = [d for d in LADDER if d > self.target]
        rung = (step - self.warmup) // self.ladder if self.ladder else len(rungs)
        return rungs[rung] if rung < len(rungs) else self.target

    def count(self, step):
        return max(1, int(self.density(step) * len(self.chosen_from)))

    def select(self, step, a):
        """The coordinates chosen of a, ascending, and the threshold."""
        if self.tile < self.layout.n:
            return self.select_in_tiles(step, a)
        candidates = np.abs(a[self.chosen_from])
        inside = largest(candidates, self.count(step))
        cut = candidates[inside].min() if len(inside) else F(0)
        self.near |= set(self.chosen_from[near_cut(candidates, cut)])
        return self.chosen_from[inside], cut

    def select_in_tiles(self, step, a):
        size = np.abs(a)
        size[self.whole] = 0
        picks = []
        for begin in range(0, len(a), self.tile):
            part = size[begin:begin + self.tile]
            inside = largest(part, max(1, int(self.density(step) * len(part))))
            if len(inside):
                self.near |= set(begin + near_cut(part, part[inside].min()))
            picks.append(begin + inside)
        pick = np.concatenate(picks)
        return pick, size[pick].min() if len(pick) else F(0)

    def message(self, step, worker, a):
        """What worker sends of a, and so what arrives, as a whole vector."""
        if self.density(step) == 1 or len(self.chosen_from) == 0:
            self.picked[worker] = np.arange(self.layout.n)
            return a.copy()
        pick, cut = self.select(step, a)
        self.picked[worker] = np.union1d(pick, self.whole)
        message = np.zeros(self.layout.n, F)
        message[self.whole] = a[self.whole]
        message[pick] = self.code(a[pick], step=step, worker=worker, threshold=cut,
                                  columns=self.columns[pick])
        return message

    def with_residual(self, vectors):
        return [v + self.decay * r if self.keeps else v.copy()
                for v, r in zip(vectors, self.residual)]

    def exchange(self, step, vectors):
        self.near = set()
        everything = self.with_residual(vectors)
        messages = [self.message(step, i, a) for i, a in enumerate(everything)]
        self.residual = [a - m for a, m in zip(everything, messages)]
        if self.senders:
            return self.mean_of_senders(messages)
        return average(messages)

    def mean_of_senders(self, messages):
        senders = np.zeros(self.layout.n)
        for pick in self.picked:
            senders[pick] += 1
        total = np.sum(np.asarray(messages, np.float64), axis=0)
        return (total / np.maximum(senders, 1)).astype(F)


class MomentumCorrection(Exchange):
    """DGC: what is accumulated and selected is a velocity.

        g = g clipped to the norm clip sqrt(P);  u = m u + g;  v = v + u
        I = top-k of v;  send v[I];  v[I] = 0;  u[I] = 0 (masking)

    v is the residual of the sparsifier inside."""

    def __init__(self, inside, momentum, clip=0.0, mask=True):
        self.inside, self.momentum, self.clip, self.mask = inside, F(momentum), clip, mask
        self.velocity = [np.zeros(inside.layout.n, F) for _ in range(inside.workers)]

    def clipped(self, g, workers=None):
        """A worker's own gradient, or the average of all (workers=1)."""
        norm = np.sqrt(np.sum(g.astype(np.float64) ** 2))
        limit = self.clip * np.sqrt(workers or self.inside.workers)
        return (g * F(limit / norm)).astype(F) if 0 < limit < norm else g

    def exchange(self, step, vectors):
        self.velocity = [self.momentum * u + self.clipped(g)
                         for u, g in zip(self.velocity, vectors)]
        update = self.inside.exchange(step, self.velocity)
        self.near = self.inside.near
        if self.mask:
            for u, pick in zip(self.velocity, self.inside.picked):
                u[pick] = 0
        return update


class Ef21(Exchange):
    """EF21 and EF21-SGDM:

        v_i = (1 - eta) v_i + eta g_i;  c_i = C(v_i - h_i);  h_i += c_i
        h += the mean of c_i, and is what is applied

    C is the sparsifier inside, whose residual is left at v_i - h_i - c_i. In dense
    steps everything is sent: h_i = v_i. Sums over steps round as their largest terms do."""

    def __init__(self, inside, eta=1.0):
        self.inside, self.eta = inside, F(eta)
        self.v = [np.zeros(inside.layout.n, F) for _ in range(inside.workers)]
        self.h = [np.zeros(inside.layout.n, F) for _ in range(inside.workers)]
        self.mean, self.largest = np.zeros(inside.layout.n, F), 0.0

    def exchange(self, step, vectors):
        self.v = [v + self.eta * (g - v) if self.eta < 1 else g for v, g in zip(self.v, vectors)]
        apart = [v - h for v, h in zip(self.v, self.h)]
        self.inside.residual = [np.zeros_like(a) for a in apart]
        self.mean = self.mean + self.inside.exchange(step, apart)
        self.largest = max(self.largest, float(np.max(np.abs(self.v))))
        self.near, self.slack = self.inside.near, self.inside.slack + 5e-7 * self.largest
        self.h = [v - r for v, r in zip(self.v, self.inside.residual)]
        return self.mean


class GlobalMomentum(Exchange):
    """One velocity for all workers, that of what was applied:

        v_i = (1 - dampening) g_i, clipped before, + m u;  u = what is exchanged of v
        applied: u, or with nesterov u + m (u - the u before)"""

    def __init__(self, inside, momentum, clip=0.0, dampening=0.0, nesterov=False):
        self.local = MomentumCorrection(inside, momentum, clip)
        self.inside, self.momentum = inside, F(momentum)
        self.dampening, self.nesterov = dampening, nesterov
        self.velocity = np.zeros(inside.layout.n, F)

    def exchange(self, step, vectors):
        weight = F(1 - self.dampening if step > 0 else 1)
        if self.inside.density(step) == 1:
            clipped = [self.local.clipped(average(vectors), 1)] * len(vectors)
        else:
            clipped = [self.local.clipped(g) for g in vectors]
        mine = [weight * g + self.momentum * self.velocity for g in clipped]
        before, self.velocity = self.velocity, self.inside.exchange(step, mine)
        self.near = self.inside.near
        if not self.nesterov:
            return self.velocity
        return self.velocity + self.momentum * (self.velocity - before)
