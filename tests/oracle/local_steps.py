# SPDX-License-Identifier: Apache-2.0
"""local_steps.py - methods that exchange models.

LocalSgd (Patel & Dieuleveut 2019): N_t local steps, then the average of the models.
    N_t = H, or growing: max(1, floor(c sqrt(s) / P)), s = local steps done so far.
    start=S: the gradients of the first S steps are averaged instead.
    At the end the models are averaged, unless the last step has left them equal;
    average=polyak: all iterates of all workers.
    One phase that never ends is one-shot averaging.

ModelChange: every H steps the change since the last common model z is exchanged,
    D_i = x_i - z;  z = z + exchange(D);  x_i = z
    with a quantizer and no memory this is PQASGD (Jiang & Agrawal 2018), with a
    sparsifier its residual remembers what was not sent.

OuterSgd, DiLoCo (Douillard et al. 2023): an optimizer steps on the change, as PyTorch's
    SGD defines it for the gradient -D:
    u = m u + D;  z = z + lr (D + m u), or without Nesterov z + lr u

Stream, Streaming DiLoCo (Douillard et al. 2025): F fragments of neighbouring floats,
    each exchanged once in H steps; fragment f with step floor((f + 1) H / F), from the
    change of `delay` steps before:
    D_i = x_i - z;  ...  z = outer(z, exchange(D));  x_i = (1 - mix) z + mix x_i

SparseAverage, SPA (Jiang & Agrawal 2018): in step j every worker's chunk j mod p of p
    contiguous equal parts becomes the average of that chunk."""
import numpy as np

from quantized import random64, random_key
from sync_method import F, Method, average


class LocalSgd(Method):
    keeps_equal = False

    def __init__(self, workers, every=None, grow=None, start=0, polyak=False):
        self.workers, self.every, self.grow, self.start = workers, every, grow, start
        self.phase_begin, self.phase_steps = 0, None
        self.polyak, self.iterates = polyak, []
        self.equal = False

    def phase_length(self, done):
        if self.grow is None:
            return self.every
        return max(1, int(np.floor(self.grow * np.sqrt(done) / self.workers)))

    def gradient(self, step, gradients):
        if step < self.start:
            return [average(gradients)] * len(gradients)
        return gradients

    def talks(self, step):
        """Whether a phase ends with this step. Called once per step."""
        done = step - self.start + 1
        if self.phase_steps is None:
            self.phase_steps = self.phase_length(0)
        if done < 1 or done - self.phase_begin < self.phase_steps:
            return False
        self.phase_begin, self.phase_steps = done, self.phase_length(done)
        return True

    def look(self, step):
        self.talked = self.talks(step)
        self.equal = self.talked or step < self.start

    def model(self, step, models):
        self.look(step)
        self.iterates += models if self.polyak else []
        return [average(models)] * len(models) if self.talked else models

    def finish(self, models):
        if self.equal and not self.polyak:
            return models
        return [average(self.iterates if self.polyak else models)] * len(models)

    def models_equal(self, step):
        return self.equal


class OuterSgd:
    """The step of an optimizer on changes of the common model."""

    def __init__(self, lr=1, momentum=0, nesterov=True):
        self.lr, self.momentum, self.nesterov = F(lr), F(momentum), nesterov
        self.velocity = F(0)

    def step(self, common, change):
        self.velocity = self.momentum * self.velocity + change
        ahead = change + self.momentum * self.velocity
        return common + self.lr * (ahead if self.nesterov else self.velocity)


class MeasuredScale:
    """What the average of changes is too short by: the mean of their lengths over the
    length of their mean, both of a sample of 4096 coordinates if there are more. Each of
    the first 16 changes is measured, then every 16th, and counts for an eighth."""

    def __init__(self, workers, seed):
        self.most, self.value, self.seed = np.sqrt(workers), 0.0, seed

    def within(self, scale):
        return min(max(scale, 1.0), self.most)

    def factor(self):
        return F(self.within(self.value))

    def sample(self, step, n):
        key = random_key(self.seed, step + 1, 2**64 - 1)
        return [random64(key, i) % n for i in range(4096)] if n > 4096 else np.arange(n)

    def follow(self, step, count, changes):
        if count > 16 and count % 16 or len(changes) == 1:
            return
        changes = [d[self.sample(step, len(d))] for d in changes]
        lengths = [np.linalg.norm(d.astype(np.float64)) for d in changes]
        together = np.linalg.norm(np.mean(np.asarray(changes, np.float64), axis=0))
        now = self.within(np.mean(lengths) / together)
        self.value = self.value + (now - self.value) / 8 if self.value else now


class ModelChange(LocalSgd):
    """start is the model that all workers begin with, dense the number of steps whose
    gradients are averaged instead; changes count `scale` times, and the outer optimizer
    makes a model of what is exchanged. scale may be "auto", with samples by the seed."""

    def __init__(self, workers, every, exchange, start, dense=0, scale=1, outer=None,
                 polyak=False, seed=0):
        super().__init__(workers, every=every, start=dense, polyak=polyak)
        self.exchange, self.common, self.scale = exchange, start, scale
        self.measured = MeasuredScale(workers, seed)
        self.outer = outer or OuterSgd()

    def model(self, step, models):
        self.look(step)
        self.iterates += models if self.polyak else []
        if not self.talked:
            return models
        changes = [x - self.common for x in models]
        factor = self.measured.factor() if self.scale == "auto" else F(self.scale)
        if self.scale == "auto":
            self.measured.follow(step, step + 1 - self.start, changes)
        update = self.exchange.exchange(step, [factor * d for d in changes])
        self.near, self.slack = self.exchange.near, self.exchange.slack
        return [self.outer.step(self.common, update)] * len(models)

    def adopt(self, step, models):
        if self.equal:
            self.common = models[0].copy()


class Fragment:
    """Some tensors, with an exchange and an outer optimizer of their own."""

    def __init__(self, span, exchange, outer):
        self.span, self.exchange, self.outer, self.update = span, exchange, outer, None


class Stream(LocalSgd):
    """fragments has one Fragment for each turn, start is the first model."""

    def __init__(self, workers, every, fragments, start, delay=0, mix=0, dense=0):
        super().__init__(workers, every=every, start=dense)
        self.fragments, self.delay, self.mix = fragments, delay, F(mix)
        self.common, self.shared = start.copy(), False

    def turn(self, done):
        """The fragment whose turn it is, and the steps until it ends."""
        within, count = (done - 1) % self.every + 1, len(self.fragments)
        for f, fragment in enumerate(self.fragments):
            end = (f + 1) * self.every // count
            if within <= end:
                return fragment, end - within

    def model(self, step, models):
        self.equal, done = step < self.start, step - self.start + 1
        self.shared = False
        if self.equal:
            return models
        fragment, left = self.turn(done)
        if left == self.delay:
            fragment.update = fragment.exchange.exchange(
                step, [x[fragment.span] - self.common[fragment.span] for x in models])
        if left > 0:
            return [x.copy() for x in models] if left == self.delay else models
        exchange, at = fragment.exchange, fragment.span
        self.near, self.slack = {at.start + i for i in exchange.near}, exchange.slack
        z = fragment.outer.step(self.common[at], fragment.update)
        self.common[at] = z
        out = [x.copy() for x in models]
        for x in out:
            x[at] = (1 - self.mix) * z + self.mix * x[at]
        self.shared = self.mix == 0 and fragment
        self.equal = bool(self.shared) and len(self.fragments) == 1
        return out

    def adopt(self, step, models):
        if step < self.start:
            self.common = models[0].copy()
        elif self.shared:
            self.common[self.shared.span] = models[0][self.shared.span]

    def check(self, step, before, after):
        """Workers have the same bits of the fragment whose turn has ended."""
        same = not self.shared or all(
            np.array_equal(x[self.shared.span], after[0][self.shared.span]) for x in after)
        return None if same else "workers differ in the fragment that was exchanged"


def fragments_of(layout, count, tensors=False):
    """Where each begins and ends, as even as rows or tensors allow."""
    ends = tensor_ends(layout, count) if tensors else even_ends(layout, count)
    return list(zip([0, *ends], [*ends, layout.n]))


def even_ends(layout, count):
    """At f / count of all; between rows that have no more than a sixteenth of a fragment."""
    ends = []
    for goal in (f * layout.n // count for f in range(1, count)):
        begin, cols = next((s.start, cols) for s, (_, cols) in zip(layout.slices, layout.shapes)
                           if goal < s.stop)
        down = goal - (goal - begin) % cols
        near = min((down, down + cols), key=lambda end: abs(end - goal))
        ends.append(near if 16 * count * cols <= layout.n else goal)
    return ends


def tensor_ends(layout, count):
    offsets, ends = [s.start for s in layout.slices], [0]
    for f in range(1, count):
        allowed = range(ends[-1] + 1, len(offsets) - (count - f) + 1)
        ends.append(min(allowed, key=lambda t: (abs(count * offsets[t] - f * layout.n), t)))
    return [offsets[t] for t in ends[1:]]


class SparseAverage(Method):
    keeps_equal = False

    def __init__(self, layout, chunks):
        self.n, self.chunks = layout.n, chunks
        self.last = np.full(layout.n, -1)

    def chunk(self, step):
        """Parts as even as possible, the first ones larger by one."""
        c, (low, more) = step % self.chunks, divmod(self.n, self.chunks)
        begin = c * low + min(c, more)
        return slice(begin, begin + low + (c < more))

    def model(self, step, models):
        out = [x.copy() for x in models]
        for x in out:
            x[self.chunk(step)] = average([m[self.chunk(step)] for m in models])
        return out

    def finish(self, models):
        return [average(models)] * len(models)

    def check(self, step, before, after):
        """What is not averaged keeps its bits, what is is the same everywhere, and no
        coordinate waits longer than `chunks` steps."""
        chunk = self.chunk(step)
        outside = np.ones(self.n, bool)
        outside[chunk] = False
        for worker, (b, a) in enumerate(zip(before, after)):
            if not np.array_equal(a[outside], b[outside]):
                return f"worker {worker} changed coordinates outside {chunk}"
            if not np.array_equal(a[chunk], after[0][chunk]):
                return f"worker {worker} differs from worker 0 inside {chunk}"
        self.last[np.all(after == after[0], axis=0)] = step
        waited = step - self.last.min()
        if step >= self.chunks - 1 and waited >= self.chunks:
            return f"a coordinate was last common {waited} steps ago"
        return None
