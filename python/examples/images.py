# SPDX-License-Identifier: Apache-2.0
"""What the examples share: the data, the network, how good it is, and checkpoints.

Data are the IDX files of MNIST or Fashion-MNIST, gzipped or not, in --data-dir or
where Debian's dataset-fashion-mnist puts them.
"""
import gzip
import os
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

DEBIAN = "/usr/share/datasets/fashion-mnist"
# PyTorch 1.13 cannot load numbers that are not in tensors in this way.
TENSORS_ONLY = int(torch.__version__.split(".")[0]) > 1


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


class Network(nn.Sequential):
    def forward(self, x):
        """Its own, since torch.compile() leaves those of torch.nn alone inside DDP."""
        return super().forward(x)


def network():
    return Network(
        nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, 10))


def shard(n, rank, workers, batch, seed):
    """The batches of one worker in one epoch: all shuffle alike, each takes its own."""
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    for begin in range(0, n - workers * batch + 1, workers * batch):
        yield order[begin + rank * batch:begin + (rank + 1) * batch]


def _saved(directory, epoch, rank):
    return Path(directory) / f"epoch{epoch}" / f"worker{rank}.pt"


def save(directory, rank, epoch, **parts):
    """Saves what this worker has after so many epochs, if there is a directory for it."""
    if directory:
        path = _saved(directory, epoch, rank)
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_suffix(".half")  # no file of that name is left half written
        torch.save({name: part.state_dict() for name, part in parts.items()}, half)
        half.replace(path)


def resume(directory, rank, comm=None, **parts):
    """Loads what this worker saved after the last epoch that all have saved, and returns
    after how many epochs that was. One that was stopped may have saved less than others.
    They agree through comm, or torch.distributed."""
    epoch = 0
    while directory and _saved(directory, epoch + 1, rank).exists():
        epoch += 1
    if directory:
        epoch = _least(epoch, comm)
    if epoch:
        saved = torch.load(_saved(directory, epoch, rank), weights_only=TENSORS_ONLY)
        for name, part in parts.items():
            part.load_state_dict(saved[name])
    return epoch


def _least(number, comm):
    if comm is not None:
        return min(map(int, comm.allgather(b"%d" % number)))
    least = torch.tensor(number)
    dist.all_reduce(least, dist.ReduceOp.MIN)
    return int(least)


@torch.no_grad()
def accuracy(model, directory=None):
    images, labels = load("t10k", directory)
    model.eval()
    right = sum((model(x).argmax(1) == y).sum().item()
                for x, y in zip(images.split(500), labels.split(500)))
    return right / len(labels)
