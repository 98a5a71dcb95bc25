# SPDX-License-Identifier: Apache-2.0
"""random_choice.py - random-k: the same coordinates on all workers, one of each of k
cells of equal length, by random bits of (seed, step, cell). Otherwise as top-k."""
import numpy as np

from quantized import random64, random_key
from sparse_topk import TopK

NOBODY = 2**64 - 1


class RandomK(TopK):
    def __init__(self, *args, seed, **options):
        super().__init__(*args, **options)
        self.seed = seed

    def select(self, step, a):
        n, k = len(self.chosen_from), self.count(step)
        key = random_key(self.seed, step + 1, NOBODY)
        borders = [i * n // k for i in range(k + 1)]
        inside = [begin + ((random64(key, i) >> 32) * (end - begin) >> 32)
                  for i, (begin, end) in enumerate(zip(borders, borders[1:]))]
        return self.chosen_from[np.array(inside)], 0
