#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Forward and backward of a model in PyTorch, as `gradwire bench model` does it.

  torch_step.py MODEL SAMPLE BATCH CLASSES [SECONDS]

One thread, from a batch that is in memory; the models are those of
tests/train/torch_models.py. Prints one line of JSON: the best time of a step in nanoseconds,
of the process on a CPU, and the BLAS that did the products.
"""
import ctypes
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "train"))
import torch
import torch_models

WARM_STEPS, MIN_STEPS = 3, 7


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


def made_up(model, shape, batch, classes):
    """A batch and its labels; a model of text says how many labels a sample has."""
    labels = batch * getattr(model, "labels", 1)
    floats = shape[0] * shape[1] * shape[2]
    if getattr(model, "reads_text", False):
        x = torch.randint(classes, (batch, floats)).float()
    else:
        x = torch.rand(batch, floats)
    return x, torch.randint(classes, (labels,))


def main():
    name, sample, batch, classes = sys.argv[1:5]
    seconds = float(sys.argv[5]) if len(sys.argv) > 5 else 1.0
    batch, classes = int(batch), int(classes)
    shape = ([int(number) for number in sample.split("x")] + [1, 1])[:3]
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = torch_models.MODELS[name](shape, classes)
    loss_of = torch.nn.CrossEntropyLoss()
    x, y = made_up(model, shape, batch, classes)

    def step():
        for parameter in model.parameters():
            parameter.grad = None
        loss_of(model(x), y).backward()

    for _ in range(WARM_STEPS):
        step()
    best, steps, end = float("inf"), 0, time.perf_counter() + seconds
    while steps < MIN_STEPS or time.perf_counter() < end:
        start = time.process_time()
        step()
        best = min(best, time.process_time() - start)
        steps += 1
    blas, core = loaded_blas()
    print(json.dumps({"ns": 1e9 * best, "blas": blas, "core": core,
                      "torch": torch.__version__}))


if __name__ == "__main__":
    main()
