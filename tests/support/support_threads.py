# SPDX-License-Identifier: Apache-2.0
"""Workers as threads of a test, and a few things for them to do."""
import random
import socket
import threading

import numpy as np

import gradwire


def on_threads(workers, body, comms=None):
    """body(comm) in each of several threads; their results."""
    results, failures = [None] * workers, []
    group = None if comms else gradwire.LocalGroup(workers)

    def run(rank):
        try:
            with (comms(rank) if comms else group.join(rank)) as comm:
                results[rank] = body(comm)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(r,)) for r in range(workers)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failures:
        raise failures[0]
    return results


def values(rank, step, n):
    return np.random.default_rng(100 * step + rank).standard_normal(n).astype(np.float32)


def averages(comm):
    sync = gradwire.Sync({"w": (20, 30), "b": np.zeros(30)}, "dense", comm)
    assert sync.floats == 630 and sync.spec == "dense"
    g = values(comm.rank, 0, 630)
    assert sync.gradient(g)
    mean = sum(values(r, 0, 630) for r in range(comm.workers)) / comm.workers
    np.testing.assert_allclose(g, mean, rtol=1e-5, atol=1e-6)
    stats = sync.stats()
    assert stats["steps"] == 1 and (comm.workers == 1 or stats["bytes_sent"] > 0)
    assert sync.keeps_equal and not sync.model_due
    assert comm.allgather(b"x" * comm.rank) == [b"x" * r for r in range(comm.workers)]
    comm.barrier()
    return g.tobytes()


def free_port():
    """One below those that the kernel gives away by itself."""
    while True:
        port = random.randrange(20000, 32000)
        try:
            socket.create_server(("127.0.0.1", port)).close()
            return port
        except OSError:
            continue


def run_tests(names):
    """Every test of a script, in order."""
    for name, test in list(names.items()):
        if name.startswith("test_"):
            print(name, flush=True)
            test()
