# SPDX-License-Identifier: Apache-2.0
"""sync_method.py - what all simulated methods share: the two calls of a step, and
the arithmetic on lists with one vector per worker."""
import numpy as np

F = np.float32


def average(vectors):
    """The mean over the workers, rounded once."""
    return np.mean(np.asarray(vectors, np.float64), axis=0).astype(F)


class Method:
    """A method as P workers see it. A call that returns the very list that it was
    given says that this call does nothing: no bit changes and no byte is sent."""

    #: Workers hold the same bits after each update, and begin and end steps equal.
    keeps_equal = True
    #: What one update may deviate by, where rounding at random is not predicted.
    slack = 0.0
    #: Coordinates whose selection hung on the last bit in this step.
    near = frozenset()
    #: The exchange of the last step is counted at the end.
    ends_late = False
    #: The most bytes a worker may send in one step; None: not checked.
    most_bytes = None

    def gradient(self, step, gradients):
        """The update that each worker gets from gw_sync_gradient()."""
        return gradients

    def model(self, step, models):
        """What gw_sync_model() makes of each worker's model."""
        return models

    def finish(self, models):
        """What gw_sync_finish() makes of each worker's model."""
        return models

    def models_equal(self, step):
        """Whether all workers must have the same model after this step."""
        return self.keeps_equal

    def adopt(self, step, models):
        """Told what the library made of the models once that was found right, so
        that differences of rounding do not pile up."""

    def check(self, step, before, after):
        """More that must hold of the models around gw_sync_model(): a complaint or
        None."""


class Silence(Method):
    """No communication at all."""

    keeps_equal = False


class Gradients(Method):
    """Replaces the gradients by what an exchange makes of them."""

    def __init__(self, exchange):
        self.exchange = exchange

    def gradient(self, step, gradients):
        update = self.exchange.exchange(step, gradients)
        self.near = self.exchange.near
        self.slack = self.exchange.slack
        return [update] * len(gradients)


class Late(Method):
    """Hands back what a method that exchanges gradients made of the step before, in the
    first step zeros, or the signs of that. What the training ends with is dropped."""

    ends_late = True

    def __init__(self, method, lead=0.0, signs=False):
        self.method, self.lead, self.signs = method, F(lead), signs
        self.waiting = self.last = None
        self.before = (frozenset(), 0.0)  # near and slack of what waits

    def gradient(self, step, gradients):
        given, self.waiting = self.waiting, self.method.gradient(step, list(gradients))
        near, slack = self.before
        self.before = (self.method.near, self.method.slack)
        self.near, self.slack = near | self.method.near, slack
        if given is None:
            return [np.zeros_like(g) for g in gradients]
        last, self.last = self.last, given
        out = given if last is None else [
            r + self.lead * (r - before) for r, before in zip(given, last)]
        return self.signs_of(out) if self.signs else out

    def signs_of(self, vectors):
        """One that nearly cancels may have either sign."""
        self.slack = np.where(np.abs(vectors[0]) < 4 * self.slack, 2.0, 0.0)
        return [np.sign(v) for v in vectors]


class Exchange:
    """Turns one vector per worker into the update common to all."""

    near = frozenset()
    slack = 0.0

    def exchange(self, step, vectors):
        raise NotImplementedError


class Dense(Exchange):
    """S-SGD: the average."""

    def exchange(self, step, vectors):
        return average(vectors)
