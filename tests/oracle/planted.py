# SPDX-License-Identifier: Apache-2.0
"""planted.py - the comparison itself: it accepts a recording made by a simulated
method, and notices each of a few faults planted in that method."""
import types
import unittest

import numpy as np

from comparison import Difference, check_drained, compare
from gradient_drop import Centres, Drop
from gtopk_tree import GlobalTopK
from local_steps import LocalSgd, ModelChange, SparseAverage
from quantized import Levels, Quantized
from recording import RATE, Layout, gradient_of, start_of
from sparse_topk import GlobalMomentum, MomentumCorrection, TopK
from sync_method import Dense, Gradients, Silence
from two_means import TwoMeans

LAYOUT = Layout([(20, 15), (1, 15), (15, 9)])
SEED, STEPS, BYTES = 5, 12, 100


def simulate(method, workers, words=(), steps=STEPS):
    """A recording of what the library would do if it were this method."""
    shape = (steps, workers, LAYOUT.n)
    r = types.SimpleNamespace(workers=workers, steps=steps, layout=LAYOUT)
    r.start = start_of(LAYOUT.n, SEED)
    r.gradient, r.update, r.before, r.after = (np.zeros(shape, np.float32) for _ in range(4))
    r.gradient_bytes, r.model_bytes = (np.zeros(shape[:2], np.uint64) for _ in range(2))
    x = [r.start] * workers
    for t in range(steps):
        g = [gradient_of(x[i], SEED, i, t, words, r.start) for i in range(workers)]
        u = method.gradient(t, g)
        before = [x[i] - RATE * u[i] for i in range(workers)]
        x = method.model(t, before)
        method.adopt(t, x)
        r.gradient[t], r.update[t], r.before[t], r.after[t] = g, u, before, x
        r.gradient_bytes[t] = 0 if u is g else BYTES
        r.model_bytes[t] = 0 if x is before else BYTES
    finish = method.finish(x)
    r.finish, r.finish_bytes = np.array(finish), [0 if finish is x else BYTES] * workers
    return r


def methods(workers):
    """Fresh ones, by name."""
    start = start_of(LAYOUT.n, SEED)
    return {
        "dense": Gradients(Dense()),
        "none": Silence(),
        "topk": Gradients(TopK(LAYOUT, workers, 0.01)),
        "topk, no residual": Gradients(TopK(LAYOUT, workers, 0.01, residual=False)),
        "topk, 2 bits": Gradients(TopK(LAYOUT, workers, 0.05, code=Centres(2))),
        "topk, 2 bits, threshold": Gradients(TopK(LAYOUT, workers, 0.05,
                                                  code=Centres(2, "threshold"))),
        "topk, momentum": Gradients(MomentumCorrection(TopK(LAYOUT, workers, 0.05), 0.9)),
        "topk, momentum not masked": Gradients(
            MomentumCorrection(TopK(LAYOUT, workers, 0.05), 0.9, mask=False)),
        "topk, warm-up": Gradients(TopK(LAYOUT, workers, 0.01, warmup=3, ladder=2)),
        "topk, short warm-up": Gradients(TopK(LAYOUT, workers, 0.01, warmup=2, ladder=2)),
        "topk, one momentum": Gradients(GlobalMomentum(TopK(LAYOUT, workers, 0.05), 0.9)),
        "gtopk": Gradients(GlobalTopK(LAYOUT, workers, 0.1)),
        "gtopk, kept by mergers": Gradients(GlobalTopK(LAYOUT, workers, 0.1, "keep")),
        "gtopk as published": Gradients(GlobalTopK(LAYOUT, workers, 0.1, "paper")),
        "drop": Gradients(Drop(LAYOUT, workers, 0.9)),
        "drop per tensor": Gradients(Drop(LAYOUT, workers, 0.9, "tensor")),
        "drop, 1 bit": Gradients(Drop(LAYOUT, workers, 0.9, code=Centres(1))),
        "drop, 1 bit, columns": Gradients(Drop(LAYOUT, workers, 0.9,
                                               code=Centres(1, "column"))),
        "qsgd": Gradients(Quantized(LAYOUT, workers, Levels(4))),
        "qsgd, another seed": Gradients(Quantized(LAYOUT, workers, Levels(4, seed=1))),
        "qsgd, residual": Gradients(Quantized(LAYOUT, workers, Levels(4), residual=True)),
        "a2sgd": TwoMeans(workers),
        "a2sgd, resync": TwoMeans(workers, resync=5),
        "local": LocalSgd(workers, every=4),
        "local, grow": LocalSgd(workers, grow=4),
        "local, start": LocalSgd(workers, every=4, start=6),
        "pqasgd": ModelChange(workers, 4, Quantized(LAYOUT, workers, Levels(8)), start),
        "local, topk": ModelChange(workers, 4, TopK(LAYOUT, workers, 0.05), start),
        "local, polyak": LocalSgd(workers, every=4, polyak=True),
        "oneshot": LocalSgd(workers, every=STEPS + 1),
        "spa": SparseAverage(LAYOUT, 4),
    }


class Comparison(unittest.TestCase):
    def test_a_method_is_itself_and_no_other(self):
        recordings = {name: simulate(m, 3) for name, m in methods(3).items()}
        for name, recording in recordings.items():
            self.assertEqual(compare(recording, methods(3)[name], SEED), "", name)
            for other, method in methods(3).items():
                if other != name:
                    with self.assertRaises(Difference, msg=f"{name} taken for {other}"):
                        compare(recording, method, SEED)

    def fails(self, name, spoil):
        recording = simulate(methods(3)[name], 3)
        spoil(recording)
        with self.assertRaises(Difference):
            compare(recording, methods(3)[name], SEED)

    def test_one_coordinate_missing(self):
        def spoil(r):
            r.update[STEPS - 1, :, np.flatnonzero(r.update[STEPS - 1, 0])[3]] = 0
        self.fails("topk", spoil)

    def test_one_bit_on_one_worker(self):
        def spoil(r):
            r.update[STEPS - 1, 2, 5:6] = np.nextafter(r.update[STEPS - 1, 2, 4:5], 1)
        self.fails("dense", spoil)

    def test_bytes_sent_for_nothing(self):
        def spoil(r):
            r.model_bytes[1, 1] = 16
        self.fails("none", spoil)
        self.fails("local", spoil)

    def test_what_does_not_drain(self):
        words = ("drain=4",)
        for putback, fine in (("own", True), ("keep", True), ("paper", False)):
            method = Gradients(GlobalTopK(LAYOUT, 5, 0.1, putback))
            recording = simulate(method, 5, words, steps=80)
            if fine:
                check_drained(recording, 1e-5)
            else:
                with self.assertRaises(Difference):
                    check_drained(recording, 1e-5)
