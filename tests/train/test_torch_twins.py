#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The first losses of every model, and of every optimizer, equal those of a twin in PyTorch.

tests/train/twin_driver.c trains the model for ten steps and writes down the weights it began
with, its batches, its first gradient and its losses; the twin (tests/train/torch_models.py)
begins with the same weights and sees the same batches. It steps PyTorch's optimizer of
the same name. The eleventh loss is that of
the last batch in evaluation, where batch normalisation uses what it has gathered.

The twin computes in double precision, so that only our own rounding is in the difference.
Networks magnify the last bit of a float where a ReLU is about to switch or where batch
normalisation divides by little: PyTorch itself, in single and in double precision, is apart
by 1e-3 and more after ten steps at usual learning rates, and by how much depends on the CPU.
Rates are small here, and the first gradient shows that the way back is right: its tolerance
is of its length. AdaGrad's first step is the sign of the gradient, so an entry that is almost
0 decides by its last bit; it is tried on softmax, which has no such entries.

  test_torch_twins.py [MODEL]...
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections import namedtuple

SKIP, STEPS, TOLERANCE, GRADIENT_TOLERANCE = 77, 10, 1e-4, 1e-2

try:
    import numpy
    import torch
except ImportError:
    print("skipped: no PyTorch (python3-torch)")
    sys.exit(SKIP)

import torch_models

# ids: inputs are whole numbers below it; 0: floats in -1..1. settings: of the optimizer, as PyTorch
# calls them
Row = namedtuple("Row", "model shape classes batch lr ids optimizer settings", defaults=[0, "sgd", {}])
OPTIMIZERS = {"sgd": torch.optim.SGD, "adagrad": torch.optim.Adagrad, "adam": torch.optim.Adam,
              "adamw": torch.optim.AdamW}


def softmax(optimizer, lr, **settings):
    return Row("softmax", (1, 28, 28), 10, 16, lr, 0, optimizer, settings)


def fnn3(optimizer, lr, **settings):
    return Row("fnn3", (1, 28, 28), 10, 16, lr, 0, optimizer, settings)


TABLE = [
    Row("softmax", (1, 28, 28), 10, 16, 0.1),
    Row("fnn3", (1, 28, 28), 10, 16, 0.1),
    Row("wide-mlp", (1, 28, 28), 10, 4, 0.01),
    Row("cnn", (1, 28, 28), 10, 16, 0.05),
    Row("cnn", (3, 32, 32), 10, 16, 0.05),
    Row("resnet20", (3, 32, 32), 10, 16, 0.001),
    Row("resnet20", (1, 28, 28), 10, 16, 0.0005),
    Row("vgg16", (3, 32, 32), 10, 8, 1e-5),
    Row("lstm", (35, 1, 1), 1000, 5, 2.0, 1000),
    Row("lstm:24", (7, 1, 1), 50, 3, 5.0, 50),
    Row("transformer", (64, 1, 1), 1000, 4, 0.1, 1000),
    Row("transformer", (64, 1, 1), 256, 4, 0.0005, 256, "adamw", {"weight_decay": 0.1}),
    Row("transformer-10m", (16, 1, 1), 256, 2, 0.001, 256),
    Row("transformer-30m", (16, 1, 1), 256, 2, 0.0001, 256),
    Row("transformer:layers=2,heads=3,width=24", (9, 1, 1), 50, 3, 0.1, 50),
    fnn3("sgd", 0.05, momentum=0.9),
    fnn3("sgd", 0.05, weight_decay=0.1),
    fnn3("sgd", 0.05, momentum=0.9, weight_decay=0.1),
    fnn3("sgd", 0.05, momentum=0.9, nesterov=True),
    fnn3("sgd", 0.05, momentum=0.9, nesterov=True, weight_decay=0.1),
    softmax("adagrad", 0.01),
    softmax("adagrad", 0.01, weight_decay=0.1),
    fnn3("adagrad", 0.01, weight_decay=0.1),
    fnn3("adam", 0.001),
    fnn3("adam", 0.001, weight_decay=0.1),
    fnn3("adamw", 0.001),
    fnn3("adamw", 0.001, weight_decay=0.01),
    fnn3("adamw", 0.001, weight_decay=10),
]

Recording = namedtuple("Recording", "head params batches gradient losses")


def record(driver, row):
    """Runs the driver and reads what it has written."""
    with tempfile.NamedTemporaryFile() as file:
        numbers = [*row.shape, row.classes, row.batch, STEPS, row.lr, row.ids]
        settings = [float(row.settings.get(key, 0)) for key in ("momentum", "weight_decay", "nesterov")]
        subprocess.run([driver, row.model, *map(str, numbers), file.name, row.optimizer,
                        *(f"{x:g}" for x in settings)], check=True)
        head = json.loads(file.readline())
        data = file.read()
    at = 0

    def take(kind, count):
        nonlocal at
        part = numpy.frombuffer(data, kind, count, at)
        at += part.nbytes
        return part.copy()

    params = take("<f4", head["params"])
    batches = []
    for step in range(STEPS):
        batches.append((take("<f4", head["batch"] * head["input"]),
                        take("<u4", head["batch"] * head["outputs"])))
        if step == 0:
            gradient = take("<f4", head["params"])
    return Recording(head, params, batches, gradient, take("<f8", STEPS + 1))


def distance(model, gradient):
    """How far the twin's gradient is from ours, by its length."""
    theirs = torch.cat([p.grad.flatten() for p in model.parameters()])
    apart = torch.linalg.norm(theirs - torch.from_numpy(gradient).double())
    return (apart / torch.linalg.norm(theirs)).item()


def twin_losses(row, recording):
    """The twin's losses, and how far its first gradient is from ours."""
    torch.set_num_threads(1)
    model = torch_models.MODELS[row.model](row.shape, row.classes)
    torch_models.load(model, recording.params)
    model.double()
    settings = {"weight_decay": 0, **row.settings}
    optimizer = OPTIMIZERS[row.optimizer](model.parameters(), lr=row.lr, **settings)
    loss_of, losses = torch.nn.CrossEntropyLoss(), []
    for x, y in recording.batches:
        x = torch.from_numpy(x).view(row.batch, -1).double()
        y = torch.from_numpy(y.astype("int64"))
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        if not losses:
            apart = distance(model, recording.gradient)
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        losses.append(loss_of(model(x), y).item())
    return losses, apart


def check(driver, row):
    recording = record(driver, row)
    losses, gradient = twin_losses(row, recording)
    worst = max(abs(a - b) / abs(b) for a, b in zip(recording.losses, losses))
    good = worst <= TOLERANCE and gradient <= GRADIENT_TOLERANCE
    shape = " x ".join(map(str, row.shape))
    rule = " ".join([row.optimizer, *(f"{key}={value}" for key, value in row.settings.items())])
    print(f"{row.model:12} {shape:14} {rule}, {recording.head['params']:>10} parameters, "
          f"losses {recording.losses[0]:.4f} .. {recording.losses[-2]:.4f}, "
          f"apart by {worst:.1e}, gradients {gradient:.1e}: "
          f"{'ok' if good else 'FAILED'}", flush=True)
    return good


def main():
    build = os.environ.get("GRADWIRE_BUILD")
    if not build:
        print("set GRADWIRE_BUILD")
        return SKIP
    driver = pathlib.Path(build) / "tests" / "twin_driver"
    rows = [row for row in TABLE if not sys.argv[1:] or row.model in sys.argv[1:]]
    if not rows:
        print(f"TABLE has no row for {' '.join(sys.argv[1:])}")
        return 1
    failed = sum(not check(driver, row) for row in rows)
    print(f"{len(rows) - failed} of {len(rows)} rows agree within {TOLERANCE:g}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
