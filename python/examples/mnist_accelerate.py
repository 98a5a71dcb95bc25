#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small CNN on Fashion-MNIST by Accelerate and gradwire.

    torchrun --nproc_per_node 2 python/examples/mnist_accelerate.py

plain_accelerate.py is the same without gradwire: compare the two. The environment variable
SYNC names another spec than gtopk:0.01.
"""
import argparse
import os

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration, set_seed
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import gradwire
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
handle = gradwire.accelerate.attach(accelerator, model, os.getenv("SYNC", "gtopk:0.01"), optimizer)

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

handle.finish()
if accelerator.is_main_process:
    print(f"accuracy {accuracy(accelerator.unwrap_model(model), args.data_dir):.4f}")
accelerator.end_training()
