# SPDX-License-Identifier: Apache-2.0
"""sign_vote.py - every entry as its sign and the mean magnitude of its bucket:

    a = g + r_i;  sent = sign(a) * mean |a| of its bucket;  r_i = a - sent
    gather:   u = (sum of what all sent) / P
    scatter:  the owner of a segment of whole buckets adds its own a and what the others
              sent, divides by P, sends signs of that; its r_i takes P times the error"""
import numpy as np

from sync_method import Exchange, F, average


def signs(values, bucket):
    out = np.empty(len(values), F)
    for at in range(0, len(values), bucket):
        v = values[at:at + bucket]
        mean = F(np.sum(np.abs(v.astype(np.float64))) / len(v))
        out[at:at + bucket] = np.copysign(mean, v)
    return out


class SignVote(Exchange):
    def __init__(self, layout, workers, bucket=512, residual=True, warmup=0, via="auto",
                 dense_below=0):
        small = [np.arange(s.start, s.stop) for s in layout.slices
                 if s.stop - s.start < dense_below]
        exact = np.concatenate(small) if small else ()
        self.coded = np.setdiff1d(np.arange(layout.n), exact)
        self.workers, self.bucket, self.keeps, self.warmup = workers, bucket, residual, warmup
        self.scatters = workers > 2 if via == "auto" else via == "scatter"
        self.residual = [np.zeros(len(self.coded), F) for _ in range(workers)]

    def segments(self):
        """Of each worker, in floats: as even as whole buckets allow, the first larger."""
        n = len(self.coded)
        count, more = divmod(-(-n // self.bucket), self.workers)
        begins = [r * count + min(r, more) for r in range(self.workers + 1)]
        return [slice(min(a * self.bucket, n), min(b * self.bucket, n))
                for a, b in zip(begins, begins[1:])]

    def gather(self, everything):
        messages = [signs(a, self.bucket) for a in everything]
        self.residual = [a - m for a, m in zip(everything, messages)]
        return average(messages)

    def scatter(self, everything):
        update = np.empty(len(self.coded), F)
        left = [a.copy() for a in everything]
        for owner, part in enumerate(self.segments()):
            brought = []
            for r, a in enumerate(everything):
                sent = a[part] if r == owner else signs(a[part], self.bucket)
                left[r][part] -= sent
                brought.append(sent)
            mean = average(brought)
            update[part] = signs(mean, self.bucket)
            left[owner][part] += F(self.workers) * (mean - update[part])
        self.residual = left
        return update

    def exchange(self, step, vectors):
        update = average(vectors)
        if step < self.warmup:
            return update
        everything = [v[self.coded] + (r if self.keeps else F(0))
                      for v, r in zip(vectors, self.residual)]
        update[self.coded] = (self.scatter if self.scatters else self.gather)(everything)
        return update
