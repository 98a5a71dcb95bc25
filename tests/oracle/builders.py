# SPDX-License-Identifier: Apache-2.0
"""builders.py - simulations of methods, put together from parts as specs are. Each function
returns what makes one of a layout and a number of workers."""
import os

import numpy as np

from gradient_drop import Centres, Drop
from local_steps import Fragment, LocalSgd, ModelChange, OuterSgd, Stream, fragments_of
from quantized import Levels, Quantized, QuantizedAnyForm
from random_choice import Sparta
from recording import Layout, start_of
from sparse_topk import Ef21, GlobalMomentum, MomentumCorrection, TopK
from sync_method import Dense, Gradients, Late
from two_means import TwoMeans, runs_of

SEED = int(os.environ.get("GW_TEST_SEED", "1"))


def late(methods, lead=1.0, signs=False):
    """Results one step late."""
    def make(layout, workers):
        made = methods(layout, workers)
        return [Late(m, lead, signs) for m in (made if isinstance(made, list) else [made])]
    return make


def ef21(eta, kind, *args, **options):
    """What a sparsifier makes of changes of gradients."""
    return lambda layout, workers: Gradients(Ef21(kind(layout, workers, *args, **options), eta))


def sparse(kind, *args, **options):
    """A method that exchanges gradients by a sparsifier."""
    return lambda layout, workers: Gradients(kind(layout, workers, *args, **options))


def centred(rate, *args):
    """Gradient dropping with centres, from either lower end."""
    return lambda layout, workers: [
        Gradients(Drop(layout, workers, rate, code=Centres(*args, lowest=lowest)))
        for lowest in ("threshold", "kept")]


def momentum(factor, clip=0.0, mask=True, **options):
    """Of each worker's own."""
    return lambda layout, workers: Gradients(
        MomentumCorrection(TopK(layout, workers, 0.05, **options), factor, clip, mask))


def one_momentum(factor, kind=TopK, density=0.05, clip=0.0, dampening=0.0, nesterov=False,
                 **options):
    """Of all workers."""
    return lambda layout, workers: Gradients(GlobalMomentum(
        kind(layout, workers, density, **options), factor, clip, dampening, nesterov))


def moving(kind, *momentum, **options):
    """A sparsifier with one velocity for all workers in front of it."""
    return lambda *args, **own: GlobalMomentum(kind(*args, **own), *momentum, **options)


def update(dense, scale, kind, *args, **options):
    """The changes that own optimizers make."""
    return lambda layout, workers: ModelChange(
        workers, 1, kind(layout, workers, *args, **options), start_of(layout.n, SEED), dense, scale,
        seed=SEED)


def levels(*args, seed=0, **options):
    """The seed of a spec is added to that of the sync."""
    return Levels(*args, seed=SEED + seed, **options)


def qsgd(code, **options):
    """Predicted to the bit where messages are gathered; otherwise within a level."""
    def make(layout, workers):
        forms = [Quantized(layout, workers, code, **options)]
        if workers > 2 and not options:
            forms.append(QuantizedAnyForm(code))
        return [Gradients(form) for form in forms]
    return make


def qsgd_dense_below(code, floats, **options):
    """The same with small tensors apart."""
    def make(layout, workers):
        small = [np.arange(s.start, s.stop) for s in layout.slices
                 if s.stop - s.start < floats]
        small = np.concatenate(small)
        forms = [Quantized(layout, workers, code, exact=small, **options)]
        if workers > 2 and not options:
            forms.append(QuantizedAnyForm(code, small))
        return [Gradients(form) for form in forms]
    return make


def pqasgd(every, code, **options):
    def make(layout, workers):
        forms = [Quantized(layout, workers, code, **options)]
        if workers > 2 and not options:
            forms.append(QuantizedAnyForm(code))
        start = start_of(layout.n, SEED)
        return [ModelChange(workers, every, form, start) for form in forms]
    return make


def change(every, kind, *args, **options):
    """A sparsifier that exchanges changes of the model."""
    return lambda layout, workers: ModelChange(
        workers, every, kind(layout, workers, *args, **options), start_of(layout.n, SEED))


def outer(every, lr, momentum, nesterov=True, dense=0, polyak=False, kind=None, **options):
    """An outer optimizer on the changes, of all coordinates or those of a sparsifier."""
    def make(layout, workers):
        exchange = kind(layout, workers, **options) if kind else Dense()
        return ModelChange(workers, every, exchange, start_of(layout.n, SEED), dense,
                           outer=OuterSgd(lr, momentum, nesterov), polyak=polyak)
    return make


def shares(density, resync, lr, momentum, nesterov=True, turns=False):
    """A share of the models in each step, and an outer optimizer on whole ones."""
    return lambda layout, _: Sparta(layout, density, SEED, turns, resync, OuterSgd(lr, momentum, nesterov),
                                    start_of(layout.n, SEED))


def stream(every, count, lr=1, momentum=0, delay=0, mix=0, dense=0, kind=None, tensors=False, **options):
    """Changes in fragments, each a model of its own."""
    def make(layout, workers):
        fragments = []
        for begin, end in fragments_of(layout, count, tensors):
            exchange = kind(Layout([(1, end - begin)]), workers, **options) if kind else Dense()
            fragments.append(Fragment(slice(begin, end), exchange, OuterSgd(lr, momentum)))
        return Stream(workers, every, fragments, start_of(layout.n, SEED), delay, mix, dense)
    return make


def local(**options):
    return lambda _layout, workers: LocalSgd(workers, **options)


def more_means(per, bucket=0, resync=0):
    return lambda layout, workers: TwoMeans(workers, resync, runs_of(layout, per, bucket))
