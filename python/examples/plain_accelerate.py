#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small CNN on Fashion-MNIST by Accelerate.

    torchrun --nproc_per_node 2 python/examples/plain_accelerate.py

mnist_accelerate.py is the same with gradwire: compare the two.
"""
import argparse
import os

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration, set_seed
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from images import accuracy, load, network

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--batch", type=int, default=64, help="per worker")
parser.add_argument("--lr", type=float, default=0.05)
parser.add_argument("--data-dir", help="where the IDX files are")
parser.add_argument("--limit", type=int, help="use so many training images")
parser.add_argument("--checkpoints", help="save one after each epoch there, and resume")
args = parser.parse_args()

set_seed(1)
seeded = DataLoaderConfiguration(use_seedable_sampler=True)  # else it cannot resume
accelerator = Accelerator(cpu=True, dataloader_config=seeded)
data = DataLoader(TensorDataset(*load("train", args.data_dir, args.limit)), args.batch,
                  shuffle=True, drop_last=True)
model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
model, optimizer, data = accelerator.prepare(model, optimizer, data)

begin = 0
while args.checkpoints and os.path.exists(f"{args.checkpoints}/epoch{begin + 1}"):
    begin += 1
if begin:
    accelerator.load_state(f"{args.checkpoints}/epoch{begin}")
for epoch in range(begin, args.epochs):
    data.set_epoch(epoch)
    for images, labels in data:
        loss = cross_entropy(model(images), labels)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
    accelerator.print(f"epoch {epoch + 1}: loss {loss.item():.3f}", flush=True)
    if args.checkpoints:
        accelerator.save_state(f"{args.checkpoints}/epoch{epoch + 1}")

if accelerator.is_main_process:
    print(f"accuracy {accuracy(accelerator.unwrap_model(model), args.data_dir):.4f}")
accelerator.end_training()
