# SPDX-License-Identifier: Apache-2.0
"""gradient_drop.py - gradient dropping (Aji & Heafield 2017), synchronous.

    a = g + r_i;  T = threshold(a, R);  keep j with |a[j]| > T, strictly
    threshold: s = min(100000, len) samples of |a|, stride len div s, ascending;
               T = sample[p], p = max(0, floor(s R) - 1)

One T for the whole model or one per tensor. What the paper does not say: where fewer
samples than max(1, s - 1 - p) are larger than T, and T > 0, entries of just that
magnitude are kept, too, as far as there is room, the lowest index first. There is room
for m = min(n, 4 k + 1024) entries, k = max(1, floor((1 - R) n)) of n floats. If not all
fit, ties of each of c tensors first fill a part of 1 + (m - c) len / n, together with
what is larger in it, and then what is left of the room, from the first tensor on.

Kept values may be written as

    1 bit, mean        sign * mean of the kept magnitudes
    1 bit, threshold   sign * T
    1 bit, column      sign * mean of the kept magnitudes in the matrix column
    2 bits             w = (mx - T) / 2, bucket = min(1, floor((|a| - T) / w)):
        threshold      sign * (T + bucket w)
        mean           sign * mean of the magnitudes in the bucket

and the error of that goes into the residual. The authors' code takes T for the lower
end; lowest="kept" takes the smallest kept magnitude, which is what top-k has for a
threshold and differs by less than the gap between two samples. The models here have either fewer
than 100000 floats, so that the sample is everything, or values as they are."""
import numpy as np

from sparse_topk import LADDER, TopK, near_cut
from sync_method import F

SAMPLES = 100000


def sampled_threshold(magnitudes, rate):
    """T, and whether entries that tie with it are kept."""
    s = min(SAMPLES, len(magnitudes))
    stride = len(magnitudes) // s
    sample = np.sort(magnitudes[: s * stride : stride])
    place = max(0, int(np.floor(s * rate)) - 1)
    larger = np.count_nonzero(sample > sample[place])
    return sample[place], bool(sample[place] > 0 and larger < max(1, s - 1 - place))


def share_room(room, parts, larger, ties):
    """How many ties of each tensor are kept: lists with a number for each."""
    left = max(0, room - sum(larger))
    kept = []
    for part, above, tied in zip(parts, larger, ties):
        kept.append(min(tied, max(0, part - above), left))
        left -= kept[-1]
    for i, tied in enumerate(ties):
        more = min(tied - kept[i], left)
        kept[i] += more
        left -= more
    return kept


class Drop(TopK):
    def __init__(self, layout, workers, rate, threshold="global", **options):
        super().__init__(layout, workers, 1 - rate, **options)
        self.rate, self.scope = rate, threshold

    def rate_at(self, step):
        density = self.density(step)
        return self.rate if density == self.target else 1 - density

    def scopes(self):
        """The sets of coordinates that have a threshold of their own."""
        if self.scope == "global":
            return [self.chosen_from]
        every = [np.arange(s.start, s.stop) for s in self.layout.slices]
        return [c for c in every if np.isin(c[0], self.chosen_from)]

    def room(self):
        most = max(self.target, LADDER[0]) if self.ladder else self.target
        return min(self.layout.n, 4 * max(1, int(most * self.layout.n)) + 1024)

    def select(self, step, a):
        larger, ties, parts, cut = [], [], [], F(0)
        room, scopes = self.room(), 1 if self.scope == "global" else len(self.layout.slices)
        for coordinates in self.scopes():
            magnitudes = np.abs(a[coordinates])
            cut, tied = sampled_threshold(magnitudes, self.rate_at(step))
            self.near |= set(coordinates[near_cut(magnitudes, cut)])
            larger.append(coordinates[magnitudes > cut])
            ties.append(coordinates[magnitudes == cut] if tied else coordinates[:0])
            length = self.layout.n if self.scope == "global" else len(coordinates)
            parts.append(1 + max(0, room - scopes) * length // self.layout.n)
        kept = share_room(room, parts, [len(c) for c in larger], [len(c) for c in ties])
        pick = np.concatenate(larger + [c[:k] for c, k in zip(ties, kept)])
        return np.sort(pick)[:room], cut


def nearer(magnitudes, rounds=8):
    """1 where a magnitude goes to the upper of two centres, which lie where they cause the
    least squared error of all that were tried (Lloyd's algorithm)."""
    sizes = magnitudes.astype(np.float64)
    border = sizes.mean()
    for _ in range(rounds):
        upper = magnitudes >= F(border)
        means = [F(sizes[upper == b].mean() if np.any(upper == b) else sizes.mean()) for b in (0, 1)]
        border = F(0.5) * means[0] + F(0.5) * means[1]
    return (magnitudes >= F(border)).astype(int)


def four_bins(values):
    """Which of four bins each value lies in: those of Hivemind's quantizer, 1.5 standard
    deviations wide, with the third one around the mean."""
    x = values.astype(np.float64)
    width = 6 * x.std(ddof=1) / 4 if len(x) > 1 else 0
    return np.clip(np.rint((x - x.mean()) / (width if width > 0 else 1) + 2), 0, 3).astype(int)


class Bins:
    """The values that arrive when each is replaced by the mean of its bin."""

    def __call__(self, values, **_):
        if len(values) == 0:
            return np.zeros(0, F)
        bins = four_bins(values)
        means = [F(values[bins == b].astype(np.float64).mean() if np.any(bins == b) else 0) for b in range(4)]
        return np.array(means, F)[bins]


class Centres:
    """The values that arrive when kept ones are written in one or two bits."""

    def __init__(self, bits, centre="mean", lowest="threshold"):
        self.bits, self.centre, self.lowest = bits, centre, lowest

    def groups(self, magnitudes, threshold, columns):
        """A number for each value: those with the same one share a centre."""
        if self.bits == 1:
            return columns if self.centre == "column" else np.zeros(len(magnitudes), int)
        if self.centre == "best":
            return nearer(magnitudes)
        width = (float(magnitudes.max()) - float(threshold)) / 2
        if width == 0:
            return np.zeros(len(magnitudes), int)
        bucket = np.floor((magnitudes.astype(np.float64) - float(threshold)) / width)
        return np.minimum(1, bucket).astype(int)

    def centre_of(self, group, magnitudes, largest, threshold):
        if self.centre != "threshold":
            return F(np.mean(magnitudes.astype(np.float64)))
        width = (float(largest) - float(threshold)) / 2
        return F(float(threshold) + group * width)

    def __call__(self, values, threshold, columns, **_):
        magnitudes, out = np.abs(values), np.zeros(len(values), F)
        if len(values) == 0:
            return out
        if self.lowest == "kept":
            threshold = magnitudes.min()
        groups = self.groups(magnitudes, threshold, columns)
        for group in np.unique(groups):
            mine = groups == group
            out[mine] = self.centre_of(group, magnitudes[mine], magnitudes.max(), threshold)
        return np.copysign(out, values)
