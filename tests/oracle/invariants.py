# SPDX-License-Identifier: Apache-2.0
"""invariants.py - what must hold of the simulated methods themselves, so that the
library is not compared with something wrong."""
import unittest

import numpy as np

from gradient_drop import Centres, Drop, sampled_threshold, share_room
from gtopk_tree import GlobalTopK
from local_steps import LocalSgd, ModelChange, SparseAverage
from quantized import Levels, Quantized, bf16, random_key, random24
from recording import Layout
from sparse_topk import MomentumCorrection, TopK, largest
from sync_method import F, average
from two_means import TwoMeans

# random_key(7, 3, 2) and the first draws of its block 5, as C that includes random.h
# prints them.
KEY = 0x1F6196CA4A4B5ED7
DRAWS = [16337629, 11051107, 2211844, 8183881]

LAYOUT = Layout([(40, 30), (1, 30), (30, 17), (1, 17), (64, 64)])


def gradients(workers, step, n=LAYOUT.n):
    rng = np.random.default_rng([workers, step])
    return [(rng.standard_normal(n) ** 3).astype(F) for _ in range(workers)]


def lost(exchange, workers, steps=6):
    """How much of sum a_i is neither in sum r_i nor in P u, relatively, at worst."""
    worst = 0.0
    for step in range(steps):
        vectors = gradients(workers, step)
        put_in = np.sum(np.float64(vectors) + np.float64(exchange.residual), axis=0)
        update = exchange.exchange(step, vectors)
        kept = np.sum(np.float64(exchange.residual), axis=0)
        missing = np.abs(put_in - kept - workers * np.float64(update)).sum()
        worst = max(worst, missing / np.abs(put_in).sum())
    return worst


class Conservation(unittest.TestCase):
    def test_with_a_residual_nothing_is_lost(self):
        for workers in (1, 2, 5):
            for exchange in (
                    TopK(LAYOUT, workers, 0.01),
                    TopK(LAYOUT, workers, 0.01, warmup=2, ladder=2, dense_below=100),
                    TopK(LAYOUT, workers, 0.05, code=Centres(2)),
                    TopK(LAYOUT, workers, 0.05, code=Levels(4)),
                    TopK(LAYOUT, workers, 0.05, code=bf16),
                    GlobalTopK(LAYOUT, workers, 0.01),
                    GlobalTopK(LAYOUT, workers, 0.01, warmup=1, dense_below=100),
                    Drop(LAYOUT, workers, 0.9),
                    Drop(LAYOUT, workers, 0.9, "tensor"),
                    Drop(LAYOUT, workers, 0.9, code=Centres(1)),
                    Drop(LAYOUT, workers, 0.9, code=Centres(1, "column")),
                    Drop(LAYOUT, workers, 0.9, code=Centres(2, "threshold")),
                    Quantized(LAYOUT, workers, Levels(4), residual=True)):
                self.assertLess(lost(exchange, workers), 1e-6)

    def test_gtopk_as_published_leaks(self):
        self.assertGreater(lost(GlobalTopK(LAYOUT, 8, 0.01, "paper"), 8), 1e-5)
        self.assertLess(lost(GlobalTopK(LAYOUT, 2, 0.01, "paper"), 2), 1e-6)


class Selection(unittest.TestCase):
    def test_ties_go_to_the_first(self):
        self.assertEqual(largest(F([1, -2, 2, 0, -2]), 2).tolist(), [1, 2])

    def test_zeros_are_not_among_the_largest(self):
        self.assertEqual(largest(F([0, -1, -0.0, 2]), 3).tolist(), [1, 3])
        merged = GlobalTopK(LAYOUT, 2, 0.01).merge({1: F(2), 4: F(1)}, {1: F(-2), 9: F(3)}, 3)
        self.assertEqual(merged, ({4: 1, 9: 3}, {1: 0}))

    def test_gtopk_of_everything_is_dense(self):
        g = gradients(5, 0)
        update = GlobalTopK(LAYOUT, 5, 0.9999999).exchange(0, g)
        different = np.abs(update - average(g)) > 1e-6 * np.abs(g).max(axis=0)
        self.assertLessEqual(different.sum(), 5)  # k is n - 1 in each merge

    def test_gtopk_sends_k(self):
        update = GlobalTopK(LAYOUT, 7, 0.01).exchange(0, gradients(7, 0))
        self.assertEqual(np.count_nonzero(update), int(0.01 * LAYOUT.n))

    def test_threshold(self):
        self.assertEqual(sampled_threshold(np.arange(10, dtype=F), 0.9), (8, False))
        self.assertEqual(sampled_threshold(np.arange(10, dtype=F), 0.01), (0, False))
        self.assertEqual(sampled_threshold(np.arange(250000, dtype=F), 0.5), (2 * 49999, False))
        self.assertEqual(sampled_threshold(F([1, 2, 2, 3]), 0.75), (2, False))
        self.assertEqual(sampled_threshold(F([1, 2, 3, 3]), 0.75), (3, True))
        self.assertEqual(sampled_threshold(F([5]), 0.9), (5, True))
        self.assertEqual(sampled_threshold(np.zeros(9, F), 0.5), (0, False))

    def test_room_for_ties(self):
        self.assertEqual(share_room(10, [10], [3], [20]), [7])
        self.assertEqual(share_room(10, [10], [12], [20]), [0])
        self.assertEqual(share_room(10, [6, 3], [0, 0], [20, 20]), [7, 3])
        self.assertEqual(share_room(10, [6, 3], [0, 9], [20, 20]), [1, 0])
        self.assertEqual(share_room(10, [6, 3], [1, 1], [0, 20]), [0, 8])

    def test_equal_entries_are_dropped_in_turn(self):
        drop, update = Drop(LAYOUT, 1, 0.99), np.zeros(LAYOUT.n)
        for step in range(20):
            update += drop.exchange(step, [np.ones(LAYOUT.n, F)])
        self.assertGreater(update.min(), 10)

    def test_ladder(self):
        exchange = TopK(LAYOUT, 1, 0.01, warmup=3, ladder=2)
        steps = [exchange.density(t) for t in range(10)]
        self.assertEqual(steps, [1] * 3 + [0.25] * 2 + [0.0625] * 2 + [0.015625] * 2 + [0.01])

    def test_two_bits(self):
        values = F([3, -4, 6, -10])
        got = Centres(2)(values, threshold=F(2), columns=None)
        want = np.mean([3, 4]), -np.mean([3, 4]), 8, -8
        self.assertEqual(got.tolist(), list(want))
        got = Centres(2, "threshold")(values, threshold=F(2), columns=None)
        self.assertEqual(got.tolist(), [2, -2, 6, -6])

    def test_columns(self):
        got = Centres(1, "column")(F([1, -3, 5]), threshold=F(0), columns=np.array([7, 7, 9]))
        self.assertEqual(got.tolist(), [2, -2, 5])

    def test_momentum_without_sparsity_is_momentum(self):
        exchange = MomentumCorrection(TopK(LAYOUT, 2, 1.0), 0.9, mask=False)
        velocity = np.zeros(LAYOUT.n)
        for step in range(5):
            g = gradients(2, step)
            velocity = 0.9 * velocity + average(g)
            update = exchange.exchange(step, g)
            np.testing.assert_allclose(update, velocity, rtol=1e-3, atol=1e-5)

    def test_clip(self):
        exchange = MomentumCorrection(TopK(LAYOUT, 4, 0.05), 0.9, clip=2.0)
        self.assertAlmostEqual(float(np.linalg.norm(exchange.clipped(gradients(1, 0)[0]))), 4.0, 5)
        self.assertAlmostEqual(float(np.linalg.norm(exchange.clipped(gradients(1, 0)[0], 1))), 2.0, 5)


class Rounding(unittest.TestCase):
    def test_known_random_bits(self):
        self.assertEqual(random_key(7, 3, 2), KEY)
        self.assertEqual(random24(KEY, 5, 4).tolist(), DRAWS)

    def test_unbiased(self):
        v = gradients(1, 0)[0][:1024]
        for bits in (2, 4, 8):
            for norm in ("max", "l2"):
                levels = Levels(bits, 128, norm)
                draws = [levels(v, step=t, worker=0).astype(np.float64) for t in range(400)]
                chance = np.var(draws, axis=0, ddof=1).sum() / len(draws)
                error = ((np.mean(draws, axis=0) - v) ** 2).sum()
                self.assertLess(error, 1.25 * chance)

    def test_neighbouring_levels(self):
        v = gradients(1, 0)[0]
        unit = Levels(4).largest_unit(v)
        self.assertLess(np.abs(Levels(4)(v, step=0, worker=0) - v).max(), unit)

    def test_zero(self):
        self.assertFalse(Levels(4)(np.zeros(20, F), step=0, worker=0).any())

    def test_bf16(self):
        self.assertEqual(bf16(F([1, 1 + 2**-8, 1 + 3 * 2**-8, -3])).tolist(), [1, 1, 1 + 2**-6, -3])


class Models(unittest.TestCase):
    def test_two_means_alone_is_sgd(self):
        g = gradients(1, 0)
        np.testing.assert_allclose(TwoMeans(1).gradient(0, g)[0], g[0], rtol=1e-6)

    def test_two_means_has_the_average_of_the_means(self):
        g = gradients(3, 0)
        updates = TwoMeans(3).gradient(0, g)
        means = [u[v >= 0].mean(dtype=np.float64) for u, v in zip(updates, g)]
        np.testing.assert_allclose(means, np.mean([v[v >= 0].mean() for v in g]), rtol=1e-5)

    def test_local_every_step_is_dense(self):
        local, x = LocalSgd(3, every=1), [np.ones(LAYOUT.n, F)] * 3
        for step in range(3):
            g = gradients(3, step)
            want = x[0] - average(g) / 8
            x = local.model(step, [xi - gi / 8 for xi, gi in zip(x, g)])
            np.testing.assert_allclose(x[2], want, rtol=1e-4, atol=1e-5)

    def test_phases(self):
        def talks(local, steps):
            return [t for t in range(steps) if local.talks(t)]
        self.assertEqual(talks(LocalSgd(2, every=4), 12), [3, 7, 11])
        self.assertEqual(talks(LocalSgd(2, every=4, start=6), 16), [9, 13])
        self.assertEqual(talks(LocalSgd(2, grow=2), 20), [0, 1, 2, 3, 5, 7, 9, 12, 15, 19])

    def test_fine_changes_are_averages(self):
        start = np.zeros(LAYOUT.n, F)
        method = ModelChange(2, 1, Quantized(LAYOUT, 2, Levels(16)), start)
        x = gradients(2, 1)
        got = method.model(0, x)[0]
        np.testing.assert_allclose(got, average(x), atol=2e-4 * np.abs(x).max())

    def test_chunks_cover(self):
        for chunks in (1, 3, 4, 7):
            spa = SparseAverage(LAYOUT, chunks)
            seen = np.concatenate([np.arange(LAYOUT.n)[spa.chunk(j)] for j in range(chunks)])
            self.assertTrue(np.array_equal(seen, np.arange(LAYOUT.n)))
