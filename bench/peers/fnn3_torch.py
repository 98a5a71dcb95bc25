#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The training step of `gradwire bench train` in PyTorch.

FNN-3 (784-200-200-10, ReLU, cross-entropy), batch 64, one thread: forward, backward
and the update of plain SGD, from a batch that is in memory. Prints one line of JSON:
the best time of a step in nanoseconds and the BLAS that did the products.
"""
import ctypes
import json
import sys
import time

import torch

BATCH, RATE, WARM_STEPS, MIN_STEPS = 64, 0.05, 100, 7


def loaded_blas():
    """The BLAS library in this process, and the CPU it takes itself to be on."""
    with open("/proc/self/maps") as maps:
        paths = {line.split()[-1] for line in maps if "blas" in line.rsplit("/", 1)[-1]}
    for path in sorted(paths):
        try:
            corename = ctypes.CDLL(path).openblas_get_corename
        except (OSError, AttributeError):
            continue
        corename.restype = ctypes.c_char_p
        return "OpenBLAS", corename().decode()
    return "reference BLAS" if paths else "no BLAS", None


def network():
    return torch.nn.Sequential(
        torch.nn.Linear(784, 200), torch.nn.ReLU(),
        torch.nn.Linear(200, 200), torch.nn.ReLU(),
        torch.nn.Linear(200, 10))


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    loss_of = torch.nn.CrossEntropyLoss()
    batches = [(torch.rand(BATCH, 784), torch.randint(10, (BATCH,))) for _ in range(64)]

    def step(x, y):
        optimizer.zero_grad(set_to_none=True)
        loss_of(model(x), y).backward()
        optimizer.step()

    for i in range(WARM_STEPS):
        step(*batches[i % len(batches)])
    best, steps, end = float("inf"), 0, time.perf_counter() + seconds
    while steps < MIN_STEPS or time.perf_counter() < end:
        x, y = batches[steps % len(batches)]
        start = time.perf_counter()
        step(x, y)
        best = min(best, time.perf_counter() - start)
        steps += 1
    blas, core = loaded_blas()
    print(json.dumps({"ns": 1e9 * best, "blas": blas, "core": core,
                      "torch": torch.__version__}))


if __name__ == "__main__":
    main()
