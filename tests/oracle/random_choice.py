# SPDX-License-Identifier: Apache-2.0
"""random_choice.py - random-k: the same coordinates on all workers, one of each of k
cells of equal length, by random bits of (seed, step, cell). Otherwise as top-k."""
import numpy as np

from local_steps import SparseAverage
from quantized import random64, random_key
from sparse_topk import TopK
from sync_method import average

NOBODY = 2**64 - 1


def one_of_each_cell(key, n, k, turn=0):
    borders = [i * n // k for i in range(k + 1)]
    return np.array([begin + (((random64(key, i) >> 32) * (end - begin) >> 32) + turn) % (end - begin)
                     for i, (begin, end) in enumerate(zip(borders, borders[1:]))])


class RandomK(TopK):
    def __init__(self, *args, seed, **options):
        super().__init__(*args, **options)
        self.seed = seed

    def select(self, step, a):
        n, k = len(self.chosen_from), self.count(step)
        key = random_key(self.seed, step + 1, NOBODY)
        return self.chosen_from[one_of_each_cell(key, n, k)], 0


class Sparta(SparseAverage):
    """SPARTA: a random share of the parameters is averaged in every step; or in turns,
    each parameter once in ceil(n / k) steps. Every `resync` steps it is all of them, and an
    outer optimizer may step on their average change from the model `common`."""

    def __init__(self, layout, density, seed, turns=False, resync=0, outer=None, common=None):
        self.k = max(1, int(density * layout.n))
        super().__init__(layout, -(-layout.n // self.k) if turns else 10**9)
        self.seed, self.turns, self.resync = seed, turns, resync
        self.outer, self.common = outer, common

    def repairs(self, step):
        return self.resync > 0 and (step + 1) % self.resync == 0

    def chunk(self, step):
        if self.turns:
            return one_of_each_cell(random_key(self.seed, 0, NOBODY), self.n, self.k, step + 1)
        return one_of_each_cell(random_key(self.seed, step + 1, NOBODY), self.n, self.k)

    def model(self, step, models):
        self.equal = self.repairs(step)
        if not self.equal:
            return super().model(step, models)
        mean = average(models)
        if self.outer:
            mean = self.outer.step(self.common, mean - self.common)
        return [mean] * len(models)

    def adopt(self, step, models):
        if self.outer and self.repairs(step):
            self.common = models[0].copy()

    def models_equal(self, step):
        return self.repairs(step)

    def finish(self, models):
        return models if self.equal else super().finish(models)

    def check(self, step, before, after):
        if not self.repairs(step):
            return super().check(step, before, after)
        self.last[:] = step
        return None
