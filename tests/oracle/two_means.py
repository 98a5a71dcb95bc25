# SPDX-License-Identifier: Apache-2.0
"""two_means.py - A2SGD (Bhattacharya, Yu, Chowdhury 2020).

    Pos = { j : g[j] >= 0 };  Neg = the others
    m+, m- = means of g over Pos and Neg, 0 if empty
    M+, M- = their averages over the workers, each with weight 1 / P
    u = g - m + M on the own pattern of signs

Models drift apart from the first step; resync=H averages them every H steps. With per=tensor
or row, or bucket=N, each run of entries has Pos, Neg and means of its own."""
import numpy as np

from sync_method import F, Method, average


def runs_of(layout, per="all", bucket=0):
    """The runs that have two means each."""
    wholes = {"all": [(0, layout.n)], "tensor": [(s.start, s.stop) for s in layout.slices],
              "row": [(at, at + cols) for s, (_, cols) in zip(layout.slices, layout.shapes)
                      for at in range(s.start, s.stop, cols)]}[per]
    return [slice(at, min(at + bucket, end) if bucket else end)
            for begin, end in wholes for at in range(begin, end, bucket or end - begin)]


def mean_or_zero(values):
    return values.astype(np.float64).mean() if len(values) else 0.0


class TwoMeans(Method):
    keeps_equal = False

    def __init__(self, workers, resync=0, runs=None):
        self.resync, self.runs = resync, runs or [slice(None)]
        self.most_bytes = None if resync else 256 * workers * len(self.runs)

    def gradient(self, step, gradients):
        updates = [np.zeros_like(g) for g in gradients]
        for run in self.runs:
            for update, part in zip(updates, self.one_run([g[run] for g in gradients])):
                update[run] = part
        return updates

    def one_run(self, gradients):
        plus = [g >= 0 for g in gradients]
        mine = [(mean_or_zero(g[p]), mean_or_zero(g[~p])) for g, p in zip(gradients, plus)]
        all_plus, all_minus = np.mean(mine, axis=0)
        updates = []
        for g, p, (m_plus, m_minus) in zip(gradients, plus, mine):
            correction = np.where(p, all_plus - m_plus, all_minus - m_minus)
            updates.append((g.astype(np.float64) + correction).astype(F))
        return updates

    def resyncs(self, step):
        return self.resync > 0 and (step + 1) % self.resync == 0

    def model(self, step, models):
        return [average(models)] * len(models) if self.resyncs(step) else models

    def finish(self, models):
        return [average(models)] * len(models) if self.resync else models

    def models_equal(self, step):
        return self.resyncs(step)
