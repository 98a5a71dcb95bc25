# SPDX-License-Identifier: Apache-2.0
"""adaptive_sum.py - Adasum (Maleki et al. 2021), in double precision, for each tensor:

    a (+) b = (1 - a.b / 2 a.a) a + (1 - a.b / 2 b.b) b

Workers past the largest power of two Q are first combined with worker r - Q. Then those
whose numbers differ in bit 0 are combined, what comes out in bit 1, and so on."""
import numpy as np

from sync_method import Exchange, F


def combined(a, b):
    ab, aa, bb = a @ b, a @ a, b @ b
    return (1 - ab / (2 * aa) if aa else 1) * a + (1 - ab / (2 * bb) if bb else 1) * b


class AdaptiveSum(Exchange):
    def __init__(self, layout, workers):
        self.layout, self.workers = layout, workers

    def density(self, step):
        return 0.5

    def one_tensor(self, parts):
        q = 1 << self.workers.bit_length() - 1
        lower = [combined(parts[r], parts[r + q]) if r + q < self.workers else parts[r] for r in range(q)]
        while len(lower) > 1:
            lower = [combined(a, b) for a, b in zip(lower[::2], lower[1::2])]
        return lower[0]

    def exchange(self, step, vectors):
        whole = [v.astype(np.float64) for v in vectors]
        return np.concatenate([self.one_tensor([v[s] for v in whole]) for s in self.layout.slices]).astype(F)
