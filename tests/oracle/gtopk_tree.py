# SPDX-License-Identifier: Apache-2.0
"""gtopk_tree.py - gTop-k S-SGD (Shi et al. 2019).

    worker i: a = g + r_i;  I_i = the k largest |a|;  r_i = a with a[I_i] = 0
    tree:     for step = 1, 2, 4, ... < P: rank (a multiple of 2 step) merges the list
              of rank + step into its own and keeps the k largest of the union that
              are not 0
    pairs:    with Q the largest power of two <= P, rank first merges the list of
              rank + Q; then the tree of Q workers, whose merges all workers below do
              once more, while the rank that the tree has there keeps what is rejected
    all:      u[J] = V / P, where (J, V) is the list that rank 0 ends with

worker i takes a[j] back for those j of I_i that are not in J, and what a merge rejects of
those that are stays in the residual of the worker that merged (putback=own), so that
sum a_i = sum r_i + P u. With putback=keep all that a merge rejects stays there; as
published (putback=paper) it is dropped: what was rejected on one branch and survived on
another is lost."""
import numpy as np

from sparse_topk import TopK, largest, near_cut
from sync_method import F, average


class GlobalTopK(TopK):
    def __init__(self, layout, workers, density, putback="own", via="pairs", **options):
        super().__init__(layout, workers, density, **options)
        self.putback, self.via = putback, via

    def merge(self, mine, theirs, k):
        """The k largest of the union, equal indices added, and the others."""
        union = dict(mine)
        for j, value in theirs.items():
            union[j] = F(union[j] + value) if j in union else value
        indices = np.array(sorted(union))
        values = np.array([union[j] for j in indices], F)
        kept = set(largest(values, k))
        if len(indices) > k == len(kept):
            cut = min(abs(values[i]) for i in kept)
            self.near |= set(indices[near_cut(np.abs(values), cut)])
        return ({j: union[j] for i, j in enumerate(indices) if i in kept},
                {j: union[j] for i, j in enumerate(indices) if i not in kept})

    def join(self, lists, rank, other, k):
        lists[rank], rejected = self.merge(lists[rank], lists[other], k)
        self.rejected += [(rank, j, value) for j, value in rejected.items()]

    def reduce(self, lists, k):
        """The merges: rank 0's list at the end."""
        step, top = 1, self.workers
        self.rejected = []
        if self.via == "pairs":
            top = 1 << (self.workers.bit_length() - 1)
            for rank in range(self.workers - top):
                self.join(lists, rank, rank + top, k)
        while step < top:
            for rank in range(0, top - step, 2 * step):
                self.join(lists, rank, rank + step, k)
            step *= 2
        return lists[0]

    def exchange(self, step, vectors):
        self.near = set()
        everything = self.with_residual(vectors)
        if self.density(step) == 1:
            return average(everything)
        picks = [self.select(step, a)[0] for a in everything]
        lists = [{int(j): a[j] for j in pick} for a, pick in zip(everything, picks)]
        for i, (a, pick) in enumerate(zip(everything, picks)):
            self.residual[i] = a.copy()
            self.residual[i][pick] = 0
            self.residual[i][self.whole] = 0
        found = self.reduce(list(lists), self.count(step))
        self.put_back(lists, found)
        update = np.zeros(self.layout.n, F)
        update[self.whole] = average([a[self.whole] for a in everything])
        for j, value in found.items():
            update[j] = F(np.float64(value) / self.workers)
        return update

    def put_back(self, lists, found):
        if not self.keeps:
            return
        if self.putback != "keep":
            for r, own in zip(self.residual, lists):
                for j in own.keys() - found.keys():
                    r[j] += own[j]
        for rank, j, value in self.rejected:
            if self.putback == "keep" or (self.putback == "own" and j in found):
                self.residual[rank][j] += value
