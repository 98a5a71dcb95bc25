# SPDX-License-Identifier: Apache-2.0
"""two_means.py - A2SGD (Bhattacharya, Yu, Chowdhury 2020).

    Pos = { j : g[j] >= 0 };  Neg = the others
    m+, m- = means of g over Pos and Neg, 0 if empty
    M+, M- = their averages over the workers, each with weight 1 / P
    u = g - m + M on the own pattern of signs

Models drift apart from the first step; resync=H averages them every H steps."""
import numpy as np

from sync_method import F, Method, average


def mean_or_zero(values):
    return values.astype(np.float64).mean() if len(values) else 0.0


class TwoMeans(Method):
    keeps_equal = False

    def __init__(self, workers, resync=0):
        self.resync = resync
        self.most_bytes = None if resync else 256 * workers

    def gradient(self, step, gradients):
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
