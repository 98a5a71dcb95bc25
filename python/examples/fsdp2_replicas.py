#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two replicas of a network that fully_shard() has sharded, with gradwire between them.

    torchrun --nproc_per_node 4 python/examples/fsdp2_replicas.py

Each half of the processes stands for one site with a fast network of its own. It needs
PyTorch 2.6 or later.
"""
import argparse

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import cross_entropy
import gradwire

from images import accuracy, load, network, resume, save, shard

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--batch", type=int, default=64, help="per worker")
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--sync", default="gtopk:0.01", help="the spec between replicas")
parser.add_argument("--data-dir", help="where the IDX files are")
parser.add_argument("--limit", type=int, help="use so many training images")
parser.add_argument("--checkpoints", help="save one after each epoch there, and resume")
args = parser.parse_args()

torch.manual_seed(1)
dist.init_process_group("gloo")
rank, workers = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (2, workers // 2), mesh_dim_names=("replicate", "shard"))
images, labels = load("train", args.data_dir, args.limit)
model = network()
for layer in (model[0], model[3], model[7], model):
    fully_shard(layer, mesh=mesh["shard"])
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
handle = gradwire.attach(model, args.sync, optimizer, mesh=mesh["replicate"])

parts = dict(model=model, optimizer=optimizer, gradwire=handle)
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
reached = accuracy(model, args.data_dir)  # all workers have a part of the model
if rank == 0:
    print(f"sent {handle.stats()['bytes_sent'] / 1e6:.2f} MB")
    print(f"accuracy {reached:.4f}")
dist.destroy_process_group()
