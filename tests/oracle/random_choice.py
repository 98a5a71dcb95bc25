# SPDX-License-Identifier: Apache-2.0
"""random_choice.py - random-k: the same coordinates on all workers, one of each of k
cells of equal length, by random bits of (seed, step, cell). Otherwise as top-k."""
import numpy as np

from local_steps import SparseAverage
from quantized import random64, random_key
from sparse_topk import TopK

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
    each parameter once in ceil(n / k) steps."""

    def __init__(self, layout, density, seed, turns=False):
        self.k = max(1, int(density * layout.n))
        super().__init__(layout, -(-layout.n // self.k) if turns else 10**9)
        self.seed, self.turns = seed, turns

    def chunk(self, step):
        if self.turns:
            return one_of_each_cell(random_key(self.seed, 0, NOBODY), self.n, self.k, step + 1)
        return one_of_each_cell(random_key(self.seed, step + 1, NOBODY), self.n, self.k)
