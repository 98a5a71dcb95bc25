# SPDX-License-Identifier: Apache-2.0
"""momentum_read.py - "Momentum" of docs/format-exchange.md, in the order of its list."""
import numpy as np

from encoding import lane_sum


def is_local(crew):
    return crew.spec.velocity == "local"


def clipped(crew, g, workers):
    limit = crew.spec.clip * np.sqrt(float(workers))
    total = 0.0
    for i in range(0, len(g), 2**20):
        total += lane_sum(g[i:i + 2**20].astype(np.float64)**2)
    norm = np.sqrt(total)
    return g * np.float32(limit / norm) if limit > 0 and norm > limit else g


def joined(crew, w, g):
    """What worker w's gradient and the velocity make together."""
    spec, m = crew.spec, np.float32(crew.spec.momentum)
    if is_local(crew):
        crew.velocity[w] = m * crew.velocity[w] + g
        return crew.velocity[w].copy()
    weight = np.float32(1 - spec.dampening if crew.step > 1 + spec.start else 1)
    return weight * g + m * crew.velocity[w]


def enter(crew, w, g):
    """What worker w hands to the exchange."""
    g = clipped(crew, g, crew.workers)
    return joined(crew, w, g) if crew.spec.momentum > 0 else g


def mask(crew, w, positions):
    """Worker w has selected these."""
    if crew.spec.momentum > 0 and is_local(crew) and crew.spec.mask == "on":
        crew.velocity[w][positions] = 0


def leave(crew, results):
    """What the exchange's results become."""
    if crew.spec.momentum == 0 or is_local(crew):
        return results
    before, crew.velocity = crew.velocity, [v.copy() for v in results]
    if crew.spec.nesterov == "off":
        return results
    m = np.float32(crew.spec.momentum)
    return [v + m * (v - u) for v, u in zip(results, before)]


def whole(crew, averages):
    """What averages become in the warm-up."""
    averages = [clipped(crew, g, 1) for g in averages]
    if crew.spec.momentum == 0:
        return averages
    return leave(crew, [joined(crew, w, g) for w, g in enumerate(averages)])


def skip(crew):
    """The step has come to a note."""
    if crew.spec.momentum > 0 and not is_local(crew):
        crew.velocity = crew.zeros(True)
