# SPDX-License-Identifier: Apache-2.0
"""training.py - the small training that honest workers run, and what came of it."""
import hashlib
import traceback

import numpy as np

import gradwire

LAYOUTS = {
    "doubling": [("w", (31, 20)), ("b", 20), ("v", (9, 7)), ("c", 5)],
    "ring": [("w", (90, 100)), ("b", 100), ("v", (20, 15))],
    "chunks": [("w", (300, 150)), ("b", 150), ("v", (20, 30))],
}
RATE = np.float32(0.1)


def floats_of(layout):
    return sum(int(np.prod(shape)) for _, shape in LAYOUTS[layout])


def _gradient(job, rank, step, x):
    """That of a parabola of the worker's own, and noise."""
    rng = np.random.default_rng([rank, step])
    g = x - rng.standard_normal(x.size, np.float32)
    if job["bad"] == [rank, step]:
        g[x.size // 2] = np.nan
    return g


def _exchange(job, sync, g):
    if job["parts"] and sync.overlaps:
        for tensor in reversed(range(len(sync.parts))):
            sync.gradient_part_at(g.ctypes.data, tensor)
    return sync.gradient(g)


def train(job, rank, comm):
    """The model in the end."""
    x = np.random.default_rng([rank, 0]).standard_normal(
        floats_of(job["layout"]), np.float32)
    if job["gathers"]:
        comm.allgather(b"%d" % rank * 5)
    sync = gradwire.Sync(LAYOUTS[job["layout"]], job["spec"], comm,
                         nonfinite=job["nonfinite"], seed=7)
    sync.start(x)
    for step in range(1, job["steps"] + 1):
        g = _gradient(job, rank, step, x)
        if _exchange(job, sync, g):
            x -= RATE * g
        sync.model(x)
        if job["reloads"] and step == 2:
            sync.load_state_dict(sync.state_dict())
    sync.finish(x)
    return x


def run(job, rank, make_comm):
    """[status, text, whether all numbers are finite] of one worker: status is "ok" and
    text the model's hash; "failed", and text what gradwire says; or "raised", and text
    how something else came out, which must not be."""
    try:
        with make_comm() as comm, np.errstate(all="ignore"):
            x = train(job, rank, comm)
    except gradwire.GradwireError as error:
        return ["failed", f"{type(error).__name__}: {error}", True]
    except BaseException:
        return ["raised", traceback.format_exc(), True]
    return ["ok", hashlib.sha256(x.tobytes()).hexdigest()[:16], bool(np.isfinite(x).all())]
