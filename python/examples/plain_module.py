#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small CNN on Fashion-MNIST by a plain module and gradwire, without DDP.

    torchrun --nproc_per_node 2 python/examples/plain_module.py

Without torch.distributed, on any number of machines, with one GRADWIRE_SECRET for all:

    RANK=0 WORLD_SIZE=2 python/examples/plain_module.py --meet host:4000
    RANK=1 WORLD_SIZE=2 python/examples/plain_module.py --meet host:4000
"""
import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
import gradwire

from images import accuracy, load, network, resume, save, shard

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--batch", type=int, default=64, help="per worker and backward pass")
parser.add_argument("--accumulate", type=int, default=1, help="backward passes per step")
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--sync", default="gtopk:0.01", help="the spec")
parser.add_argument("--meet", help="host:port of worker 0, in place of torch.distributed")
parser.add_argument("--data-dir", help="where the IDX files are")
parser.add_argument("--limit", type=int, help="use so many training images")
parser.add_argument("--checkpoints", help="save one after each epoch there, and resume")
args = parser.parse_args()

torch.manual_seed(1)
rank, workers = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
comm = None
if args.meet:
    comm = gradwire.rendezvous(rank, workers, args.meet)
else:
    dist.init_process_group("gloo")
images, labels = load("train", args.data_dir, args.limit)
model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
handle = gradwire.attach(model, args.sync, optimizer, comm=comm)

parts = dict(model=model, optimizer=optimizer, gradwire=handle)
for epoch in range(resume(args.checkpoints, rank, comm, **parts), args.epochs):
    batches = shard(len(images), rank, workers, args.batch, seed=epoch)
    for i, batch in enumerate(batches, 1):
        loss = cross_entropy(model(images[batch]), labels[batch])
        if i % args.accumulate:
            with handle.no_sync():
                (loss / args.accumulate).backward()
            continue
        (loss / args.accumulate).backward()
        optimizer.step()
        optimizer.zero_grad()
    if rank == 0:
        print(f"epoch {epoch + 1}: loss {loss.item():.3f}", flush=True)
    save(args.checkpoints, rank, epoch + 1, **parts)

handle.finish()
if rank == 0:
    print(f"sent {handle.stats()['bytes_sent'] / 1e6:.2f} MB")
    print(f"accuracy {accuracy(model, args.data_dir):.4f}")
if dist.is_initialized():
    dist.destroy_process_group()
