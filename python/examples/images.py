# SPDX-License-Identifier: Apache-2.0
"""What the examples share: the data, the network, and how good it is.

Data are the IDX files of MNIST or Fashion-MNIST, gzipped or not, in --data-dir or
where Debian's dataset-fashion-mnist puts them.
"""
import gzip
import os
from pathlib import Path

import numpy as np
import torch
from torch import nn

DEBIAN = "/usr/share/datasets/fashion-mnist"


def read_idx(path):
    with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as f:
        head = f.read(4)
        shape = np.frombuffer(f.read(4 * head[3]), ">u4").astype(int)
        return np.frombuffer(f.read(), np.uint8).reshape(shape)


def find(name, directory):
    for file in (Path(directory) / name, Path(directory) / f"{name}.gz"):
        if file.exists():
            return file
    raise SystemExit(f"there is no {name} or {name}.gz in {directory}: install "
                     "dataset-fashion-mnist, or give --data-dir")


def load(part, directory=None, limit=None):
    """Images as floats around 0 and their labels; part is "train" or "t10k"."""
    directory = directory or os.environ.get("GRADWIRE_DATA", DEBIAN)
    images = read_idx(find(f"{part}-images-idx3-ubyte", directory))[:limit]
    labels = read_idx(find(f"{part}-labels-idx1-ubyte", directory))[:limit]
    x = torch.from_numpy(images.astype(np.float32)).unsqueeze(1) / 255
    return (x - 0.286) / 0.353, torch.from_numpy(labels.astype(np.int64))


def network():
    return nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, 10))


def shard(n, rank, workers, batch, seed):
    """The batches of one worker in one epoch: all shuffle alike, each takes its own."""
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    for begin in range(0, n - workers * batch + 1, workers * batch):
        yield order[begin + rank * batch:begin + (rank + 1) * batch]


@torch.no_grad()
def accuracy(model, directory=None):
    images, labels = load("t10k", directory)
    model.eval()
    right = sum((model(x).argmax(1) == y).sum().item()
                for x, y in zip(images.split(500), labels.split(500)))
    return right / len(labels)
