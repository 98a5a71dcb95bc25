#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""powersgd_torch.py - lowrank:R against PyTorch's PowerSGD hook, on the same gradients.

    bench/peers/powersgd_torch.py [WORKERS] [STEPS] [RANK]

Each worker hands the same random gradients of a few matrices and vectors to both, step
by step. Both draw their first factors at random, and another draw gives another
approximation; so the hook takes over gradwire's factors and residual before each step
from the second on. The largest difference in any step, relative to the largest entry of
its result, must be at most 1e-4. A second hook takes them over only once: how far it is
away in the end is printed, too. Random matrices have no largest direction, so roundings
grow from step to step there. The exit status is 77, with the reason, where torch, its
hook or the gradwire package is missing."""
import multiprocessing
import socket
import sys
import tempfile

LIMIT = 1e-4
SHAPES = [(96, 64), (64,), (80, 96), (10, 80), (10,), (64, 9)]


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


try:
    import numpy as np
    import torch
    import torch.distributed as dist
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power
except ImportError as missing:
    skip(f"this needs PyTorch with its PowerSGD hook: {missing}")
try:
    import gradwire
except (ImportError, OSError) as missing:
    skip(f"this needs the gradwire package: {missing}")


class Bucket:
    """The gradients of one step, as the hook wants them."""

    def __init__(self, flat):
        self.flat = torch.from_numpy(flat.copy())
        sizes = [int(np.prod(s)) for s in SHAPES]
        self.views = [part.view(s) for part, s in zip(self.flat.split(sizes), SHAPES)]

    def buffer(self):
        return self.flat

    def gradients(self):
        return self.views

    def parameters(self):
        return self.views

    def index(self):
        return 0

    def is_last(self):
        return True


def gradient(worker, step):
    rng = np.random.default_rng([7, worker, step])
    return np.concatenate([rng.standard_normal(s).astype(np.float32).ravel() for s in SHAPES])


def thin(rank):
    return [s for s in SHAPES if len(s) == 2 and 2 * rank * sum(s) < s[0] * s[1]]


def hook_from(sync, rank):
    """The hook's state after the step that gradwire has made."""
    state = power.PowerSGDState(None, matrix_approximation_rank=rank, start_powerSGD_iter=2)
    saved = sync.state_dict()
    factors, at = torch.from_numpy(np.array(saved["factor"])), 0
    columns = []
    for _, cols in thin(rank):
        columns.append(factors[at:at + rank * cols].view(rank, cols).T.reshape(-1))
        at += rank * cols
    state.iter = 2
    state.q_memory_dict[0] = torch.cat(columns)
    state.p_memory_dict[0] = torch.empty(sum(rank * rows for rows, _ in thin(rank)))
    residual = [np.asarray(saved["residual"][f"t{i}"]).ravel() for i in range(len(SHAPES))]
    state.error_dict[0] = torch.from_numpy(np.concatenate(residual))
    return state


def approximation(state, g):
    result = power.powerSGD_hook(state, Bucket(g)).wait()
    return (result[0] if isinstance(result, list) else result).numpy()


def work(worker, sockets, meeting, steps, rank, results):
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=worker,
                            world_size=len(sockets))
    comm = gradwire.Comm.from_sockets(sockets, worker)
    sync = gradwire.Sync([(f"t{i}", s) for i, s in enumerate(SHAPES)], f"lowrank:{rank}", comm)
    sync.start(np.zeros(gradient(0, 0).size, np.float32))
    sync.gradient(gradient(worker, 0))
    alone, worst, apart = hook_from(sync, rank), 0.0, 0.0
    for step in range(1, steps):
        g = gradient(worker, step)
        same, own = approximation(hook_from(sync, rank), g), approximation(alone, g)
        sync.gradient(g)
        worst = max(worst, float(np.max(np.abs(g - same)) / np.max(np.abs(same))))
        apart = float(np.max(np.abs(g - own)) / np.max(np.abs(own)))
    results.put((worst, apart))
    dist.destroy_process_group()


def connected(workers):
    """A socket for every pair of workers: rows by worker, None on the diagonal."""
    table = [[None] * workers for _ in range(workers)]
    for a in range(workers):
        for b in range(a):
            table[a][b], table[b][a] = socket.socketpair()
    return table


def main():
    workers, steps, rank = [int(a) for a in sys.argv[1:]] + [2, 20, 4][len(sys.argv) - 1:]
    fork = multiprocessing.get_context("fork")
    results, table = fork.Queue(), connected(workers)
    with tempfile.TemporaryDirectory() as folder:
        crew = [fork.Process(target=work, args=(w, table[w], f"{folder}/meeting", steps, rank, results))
                for w in range(workers)]
        for process in crew:
            process.start()
        worst, apart = max(results.get(timeout=120) for _ in crew)
        for process in crew:
            process.join()
    print(f"lowrank:{rank}, {workers} workers, {steps} steps, torch {torch.__version__}: largest "
          f"relative difference to the hook {worst:.2e} (limit {LIMIT:g}); to one left alone "
          f"{apart:.2e}")
    return 0 if worst <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
