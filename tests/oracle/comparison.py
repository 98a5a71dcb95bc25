# SPDX-License-Identifier: Apache-2.0
"""comparison.py - follows a recording step by step with a simulated method. The
method is fed what the library was fed, so that differences of rounding do not pile
up; it keeps residuals and reference models of its own."""
import numpy as np

from recording import RATE, gradient_of, start_of


class Difference(AssertionError):
    """The library did something else than the method."""


def same_bits(a, b):
    return np.array_equal(a.view(np.uint32), b.view(np.uint32))


def tolerance(want, given, slack):
    """Sums over workers may be taken in any order: relative to the result, to the
    terms in this coordinate, and a little of the largest result."""
    terms = np.max(np.abs(given), axis=0)
    return 1e-5 * np.abs(want) + 1e-6 * terms + 1e-7 * np.max(np.abs(want)) + slack


def compare_one(where, want, got, given, slack):
    bad = np.abs(got.astype(np.float64) - want) > tolerance(want, given, slack)
    if bad.any():
        j = int(np.argmax(bad))
        raise Difference(f"{where}: {int(bad.sum())} of {len(want)} floats differ, first "
                         f"[{j}]: {got[j]!r} instead of {want[j]!r}")


def compare_call(name, step, method, want, got, given, sent):
    """One of the two calls of a step on all workers."""
    for worker in range(len(got)):
        where = f"step {step}, worker {worker}, {name}"
        if want is given:
            if not same_bits(got[worker], given[worker]):
                raise Difference(f"{where}: not left alone")
            if sent[worker]:
                raise Difference(f"{where}: {sent[worker]} bytes sent for nothing")
        elif not np.isfinite(got[worker]).all():
            raise Difference(f"{where}: not finite")
        else:
            compare_one(where, want[worker], got[worker], given, method.slack)


def compare_equal(name, step, vectors):
    for worker, v in enumerate(vectors):
        if not same_bits(v, vectors[0]):
            raise Difference(f"step {step}: {name} of worker {worker} is not that of "
                             "worker 0, bit for bit")


def check_inputs(recording, step, seed, words):
    """The driver computed the gradients and steps that it should have."""
    for worker in range(recording.workers):
        x = recording.after[step - 1, worker] if step else recording.start
        g = gradient_of(x, seed, worker, step, words, recording.start)
        if not same_bits(g, recording.gradient[step, worker]):
            raise Difference(f"step {step}, worker {worker}: not the driver's gradient")
        moved = x - RATE * recording.update[step, worker]
        if not same_bits(moved, recording.before[step, worker]):
            raise Difference(f"step {step}, worker {worker}: not the driver's step")


def compare_step(recording, method, step):
    given, got = list(recording.gradient[step]), recording.update[step]
    want = method.gradient(step, given)
    compare_call("update", step, method, want, got, given, recording.gradient_bytes[step])
    if method.keeps_equal:
        compare_equal("the update", step, got)
    before, after = list(recording.before[step]), recording.after[step]
    want = method.model(step, before)
    compare_call("model", step, method, want, after, before, recording.model_bytes[step])
    if method.models_equal(step):
        compare_equal("the model", step, after)
    complaint = method.check(step, recording.before[step], after)
    sent = int(max(recording.gradient_bytes[step] + recording.model_bytes[step]))
    if method.most_bytes is not None and sent > method.most_bytes:
        complaint = f"{sent} bytes sent, more than {method.most_bytes}"
    if complaint:
        raise Difference(f"step {step}: {complaint}")
    method.adopt(step, after)


def compare_finish(recording, method):
    last = list(recording.after[-1])
    want, end = method.finish(last), recording.steps
    sent = [0] * recording.workers if method.ends_late else recording.finish_bytes
    compare_call("finish", end, method, want, recording.finish, last, sent)
    if want is not last:
        compare_equal("the last model", end, recording.finish)


def compare(recording, method, seed, words=()):
    """Raises Difference; otherwise a remark, mostly empty. A difference in a step in
    which a selection hung on the last bit ends the comparison there; where gradients
    lie on a grid nothing is rounded and there is no such excuse."""
    method.slack = 0.0
    if not same_bits(start_of(recording.layout.n, seed), recording.start):
        raise Difference("not the driver's first model")
    for step in range(recording.steps):
        check_inputs(recording, step, seed, words)
        try:
            compare_step(recording, method, step)
        except Difference:
            if "grid" in words or not method.near:
                raise
            if step < recording.steps // 4:
                raise
            return f"near tie in step {step}, compared until there"
    compare_finish(recording, method)
    return ""


def compare_recordings(one, other):
    """Two runs that must not differ in any bit that a caller sees."""
    for name in ("update", "after"):
        for step in range(one.steps):
            for worker in range(one.workers):
                a, b = getattr(one, name)[step, worker], getattr(other, name)[step, worker]
                if not same_bits(a, b):
                    raise Difference(f"step {step}, worker {worker}, {name}: other bits")


def check_drained(recording, limit):
    """With gradients of 0 at the end, all that went in has come out: over all steps,
    the sum of the gradients is P times the sum of the updates."""
    put_in = recording.gradient.astype(np.float64).sum(axis=(0, 1))
    came_out = recording.update[:, 0].astype(np.float64).sum(axis=0) * recording.workers
    missing = np.abs(put_in - came_out).sum() / np.abs(put_in).sum()
    if missing > limit:
        raise Difference(f"{missing:.2e} of the gradients never came out (limit {limit})")
    return f"{missing:.1e} missing"


def check_unbiased(recording):
    """With the same gradient in every step, the mean update over T steps lies as far
    from the average gradient as its own variance explains: the ratio below is 1 for
    unbiased independent rounding, and 1 + T b^2 / s^2 for a bias of b."""
    want = recording.gradient[0].astype(np.float64).mean(axis=0)
    updates = recording.update[:, 0].astype(np.float64)
    explained = updates.var(axis=0, ddof=1).sum() / len(updates)
    if explained == 0:
        raise Difference("every step was rounded alike")
    ratio = ((updates.mean(axis=0) - want) ** 2).sum() / explained
    if ratio > 1.2:
        raise Difference(f"biased: squared error {ratio:.2f} of what chance explains")
    return f"ratio {ratio:.2f}"
