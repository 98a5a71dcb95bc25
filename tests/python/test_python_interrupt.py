#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C while a worker waits for the others: KeyboardInterrupt at once, the others are
told, half a step is never saved, and the process ends in order."""
import os
import signal
import sys
import threading
import time

import torch_crew

torch_crew.skip_without("numpy", "torch")
import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import gradwire
from gradwire._api import lib
from gradwire.thread import Job
from support_threads import free_port
from torch_crew import raises

WORKERS = 2
# Seconds: far below the time limit of the comm, far above what it takes.
SOON, LIMIT = 30, 100


def interrupt_within(name):
    """Ctrl-C for this process once it is in that function of the library's."""
    own, entered = getattr(lib, name), threading.Event()

    def enters(*arguments):
        entered.set()
        return own(*arguments)

    def presses():
        entered.wait()
        time.sleep(0.2)  # it waits by now, most likely; it must not matter
        os.kill(os.getpid(), signal.SIGINT)

    setattr(lib, name, enters)
    threading.Thread(target=presses, daemon=True).start()


def is_interrupted(act):
    begin = time.monotonic()
    raises(KeyboardInterrupt, "", act)
    took = time.monotonic() - begin
    assert took < SOON, f"{took} s"


class Trial:
    def __init__(self, spec, width):
        torch.manual_seed(1)
        net = nn.Sequential(nn.Linear(50, width), nn.ReLU(), nn.Linear(width, width),
                            nn.ReLU(), nn.Linear(width, 3))
        self.model = DistributedDataParallel(net, bucket_cap_mb=0.3)
        self.sgd = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.handle = gradwire.attach(self.model, spec, self.sgd, timeout=LIMIT)

    def backward(self):
        self.model.zero_grad()
        self.model(torch.ones(4, 50)).square().sum().backward()

    def steps(self, n):
        for _ in range(n):
            self.backward()
            self.sgd.step()


def within(spec, function, act, width=100, told="worker 0 was interrupted"):
    """A case in which worker 0 waits in vain in `act`, which calls that function."""
    def case(rank, workers):
        trial = Trial(spec, width)
        trial.steps(3)
        dist.barrier()
        if rank == 0:
            interrupt_within(function)
            is_interrupted(lambda: act(trial))
            raises(gradwire.GradwireError, "incomplete", trial.handle.state_dict)
            # The comm is broken, and says why.
            raises(gradwire.GradwireError, "worker 0 was interrupted", lambda: act(trial))
        dist.barrier()
        if rank == 1:
            error = raises(gradwire.PeerError, told, lambda: act(trial))
            print(f"worker 1: {error}", flush=True)
        # And no detach(): the end of the process has to do.
    return case


def numpy_loop(rank, workers):
    """Without PyTorch: the same in Sync and in Comm."""
    with gradwire.rendezvous(rank, workers, f"127.0.0.1:{first_port()}",
                             secret="0123456789", timeout=LIMIT) as comm:
        sync = gradwire.Sync(1000, "topk:0.1", comm)
        sync.gradient(np.ones(1000, "f4"))
        sync.state_dict()
        if rank == 0:
            interrupt_within("gw_sync_gradient")
            is_interrupted(lambda: sync.gradient(np.ones(1000, "f4")))
            raises(gradwire.GradwireError, "incomplete", sync.state_dict)
        else:
            dist.barrier()
            raises(gradwire.PeerError, "worker 0 was interrupted",
                   lambda: sync.gradient(np.ones(1000, "f4")))
            return
    dist.barrier()


def at_the_end(rank, workers):
    """The process ends while its threads wait for others in the library: nothing is freed
    under them, be they the comm's or somebody's own."""
    comms = [gradwire.rendezvous(rank, workers, f"127.0.0.1:{port()}", secret="0123456789",
                                 timeout=LIMIT) for port in (first_port, second_port)]
    syncs = [gradwire.Sync(1000, "topk:0.1", comm) for comm in comms]
    ids = comms[0].allgather(str(os.getpid()).encode())
    if rank == 0:
        entered, own = threading.Semaphore(0), lib.gw_sync_gradient

        def enters(*arguments):
            entered.release()
            return own(*arguments)

        lib.gw_sync_gradient = enters
        g = np.ones(1000, "f4")
        comms[0].begin(Job(lambda: syncs[0].gradient(g)))
        threading.Thread(target=lambda: raises(gradwire.GradwireError, "interrupted",
                                               lambda: syncs[1].gradient(g)),
                         daemon=True).start()
        entered.acquire()
        entered.acquire()
        time.sleep(0.2)
        return
    await_end(int(ids[0]))
    for sync in syncs:
        # What worker 0 has sent of its step arrives; then comes the reason.
        raises(gradwire.PeerError, "worker 0 was interrupted",
               lambda: [sync.gradient(np.ones(1000, "f4")) for _ in range(2)])


def await_end(process):
    while True:
        try:
            os.kill(process, 0)
            time.sleep(0.01)
        except ProcessLookupError:
            return


def first_port():
    return int(os.environ["INTERRUPT_PORT"])


def second_port():
    return first_port() + 1


CASES = {
    "backward": within("gtopk:0.1", "gw_sync_gradient_pieces", Trial.backward),
    # More than one bucket, and so much that the reason cannot follow: a message is cut.
    "buckets": within("dense", "gw_sync_gradient", Trial.backward, 600, "worker 0"),
    "finish": within("local:50", "gw_sync_finish", lambda t: t.handle.finish()),
    "step": within("local:2", "gw_sync_model", lambda t: t.steps(2)),
    "numpy": numpy_loop,
    "end": at_the_end,
}

if __name__ == "__main__":
    case = os.environ.get("INTERRUPT_CASE")
    if case is None:
        good = True
        for name in CASES:
            os.environ["INTERRUPT_CASE"] = name
            os.environ["INTERRUPT_PORT"] = str(free_port())
            good = torch_crew.run([sys.executable, sys.argv[0]], WORKERS) and good
        sys.exit(0 if good else 1)
    torch_crew.main([CASES[case]], ())
