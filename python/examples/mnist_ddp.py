#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small CNN on Fashion-MNIST by DistributedDataParallel and gradwire.

    torchrun --nproc_per_node 2 python/examples/mnist_ddp.py

plain_ddp.py is the same without gradwire: compare the two.
"""
import argparse

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
import gradwire

from images import accuracy, load, network, resume, save, shard

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--batch", type=int, default=64, help="per worker")
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--sync", default="gtopk:0.01", help="the spec")
parser.add_argument("--data-dir", help="where the IDX files are")
parser.add_argument("--limit", type=int, help="use so many training images")
parser.add_argument("--checkpoints", help="save one after each epoch there, and resume")
args = parser.parse_args()

torch.manual_seed(1)
dist.init_process_group("gloo")
rank, workers = dist.get_rank(), dist.get_world_size()
images, labels = load("train", args.data_dir, args.limit)
model = DistributedDataParallel(network())
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
parts = dict(model=model, optimizer=optimizer)
handle = parts["gradwire"] = gradwire.attach(model, args.sync, optimizer)

for epoch in range(resume(args.checkpoints, rank, **parts), args.epochs):
    for batch in shard(len(images), rank, workers, args.batch, seed=epoch):
        optimizer.zero_grad()
        loss = cross_entropy(model(images[batch]), labels[batch])
        loss.backward()
        optimizer.step()
    if rank == 0:
        print(f"epoch {epoch + 1}: loss {loss.item():.3f}", flush=True)
    save(args.checkpoints, rank, epoch + 1, **parts)

handle.finish()
if rank == 0:
    print(f"sent {handle.stats()['bytes_sent'] / 1e6:.2f} MB")
    print(f"accuracy {accuracy(model.module, args.data_dir):.4f}")
dist.destroy_process_group()
