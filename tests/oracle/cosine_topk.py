# SPDX-License-Identifier: Apache-2.0
"""cosine_topk.py - DeMo (Peng et al. 2024), in double precision:

    d_i = decay d_i + g_i;  C = D(h)^T X D(w) of each tile X of d_i, h x w
    I = the max(1, floor(density h w)) largest |C| of each tile; send (j, C[j]), j in I
    what was sent leaves C, and so d_i
    u = per coefficient the mean over those that sent it, transformed back; sign(u)

D is the orthonormal DCT-II. Sides of tiles are the largest divisor up to `chunk` of a
dimension where that is above chunk / 2, and otherwise as even and as few as possible.
Coefficients are numbered by tiles, row by row of tiles, and by columns in a tile."""
import numpy as np

from sparse_topk import TopK, largest, near_cut
from sync_method import F


def cosines(n):
    """D: a column for each coefficient."""
    j, b = np.arange(n)[:, None], np.arange(n)[None, :]
    scale = np.where(b == 0, np.sqrt(1 / n), np.sqrt(2 / n))
    return scale * np.cos(np.pi * (2 * j + 1) * b / (2 * n))


def cut(n, chunk):
    """Where the runs of a dimension begin, and the end."""
    whole = [run for run in range(chunk, chunk // 2, -1) if n % run == 0]
    count = n // whole[0] if whole else -(-n // chunk)
    return [i * n // count for i in range(count + 1)]


class CosineTopK(TopK):
    def __init__(self, layout, workers, density, decay=0.999, chunk=64, senders=True, update="sign",
                 **options):
        super().__init__(layout, workers, density, decay=decay, senders=senders, **options)
        self.update, self.tiles, at = update, [], 0
        self.vector = layout
        for span, (rows, cols) in zip(layout.slices, layout.shapes):
            places = np.arange(span.start, span.stop).reshape(rows, cols)
            down, across = cut(rows, chunk), cut(cols, chunk)
            for r, r_end in zip(down, down[1:]):
                for c, c_end in zip(across, across[1:]):
                    tile = places[r:r_end, c:c_end]
                    self.tiles.append((tile, slice(at, at + tile.size)))
                    at += tile.size

    def forward(self, v):
        out = np.empty(len(v), np.float64)
        for places, span in self.tiles:
            h, w = places.shape
            out[span] = (cosines(h).T @ v[places].astype(np.float64) @ cosines(w)).T.ravel()
        return out.astype(F)

    def back(self, coefficients):
        out = np.empty(len(coefficients), np.float64)
        for places, span in self.tiles:
            h, w = places.shape
            c = coefficients[span].astype(np.float64).reshape(w, h).T
            out[places] = cosines(h) @ c @ cosines(w).T
        return out

    def select(self, step, a):
        """Of each tile; small tensors have been set to 0."""
        picks = []
        for _, span in self.tiles:
            size = np.abs(a[span])
            inside = largest(size, max(1, int(self.density(step) * len(size))))
            if len(inside):
                self.near |= set(span.start + near_cut(size, size[inside].min()))
            picks.append(span.start + inside)
        pick = np.concatenate(picks)
        return pick, np.abs(a[pick]).min() if len(pick) else F(0)

    def exchange(self, step, vectors):
        whole, self.whole = self.whole, self.whole[:0]
        kept = [v.copy() for v in vectors]
        for v in kept:
            v[whole] = 0
        mean = self.back(super().exchange(step, [self.forward(v) for v in kept]))
        self.whole = whole
        mean[whole] = np.mean([v[whole] for v in vectors], axis=0)
        self.slack = 2e-6 * float(np.max(np.abs(mean)))
        if self.update == "mean":
            return mean.astype(F)
        # A sum that nearly cancels may have either sign.
        self.slack = np.where(np.abs(mean) < self.slack, 2.0, 0.0)
        return np.sign(mean).astype(F)
