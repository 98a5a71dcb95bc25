# SPDX-License-Identifier: Apache-2.0
"""owner_topk.py - top-k by owners, after Ok-Topk (Li & Hoefler 2022).

    worker i: a = g + r_i;  I_i = the k largest |a|
    owner of index j in a step: one of P, by random bits of (seed, step, j)
    owner:    sums what all sent of its indices; keeps the ceil(k / P) largest, none 0
    all:      u = the sums that were kept / P
    r_i = a, but 0 where i has sent an entry whose index was kept"""
import numpy as np

from quantized import random64, random_key
from random_choice import NOBODY
from sparse_topk import TopK, largest, near_cut
from sync_method import F


class OwnerTopK(TopK):
    def __init__(self, *args, seed, **options):
        super().__init__(*args, **options)
        self.seed = seed

    def owners(self, step):
        key = random_key(self.seed, step + 1, NOBODY)
        return np.array([(random64(key, j) >> 32) * self.workers >> 32
                         for j in range(self.layout.n)])

    def exchange(self, step, vectors):
        if self.density(step) == 1:
            return super().exchange(step, vectors)
        self.near = set()
        everything = self.with_residual(vectors)
        messages = [self.message(step, i, a) for i, a in enumerate(everything)]
        total = np.sum(np.asarray(messages, np.float64), axis=0).astype(F)
        kept, owners = np.zeros(self.layout.n, bool), self.owners(step)
        kept[self.whole] = True
        for owner in range(self.workers):
            mine = self.chosen_from[owners[self.chosen_from] == owner]
            inside = largest(total[mine], -(-self.count(step) // self.workers))
            kept[mine[inside]] = True
            if len(inside):
                magnitudes = np.abs(total[mine])
                self.near |= set(mine[near_cut(magnitudes, magnitudes[inside].min())])
        self.residual = [np.where(kept, a - m, a) for a, m in zip(everything, messages)]
        return np.where(kept, total / F(self.workers), F(0))
