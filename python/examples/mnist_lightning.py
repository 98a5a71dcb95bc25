#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small CNN on Fashion-MNIST by Lightning's Trainer and gradwire.

    torchrun --nproc_per_node 2 python/examples/mnist_lightning.py

plain_lightning.py is the same without gradwire: compare the two. The environment variable
SYNC names another spec than gtopk:0.01.
"""
import argparse
import os

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
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


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = network()

    def training_step(self, batch, _):
        images, labels = batch
        return cross_entropy(self.network(images), labels)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=args.lr, momentum=0.9)


lightning.seed_everything(1)
data = DataLoader(TensorDataset(*load("train", args.data_dir, args.limit)), args.batch,
                  shuffle=True, drop_last=True)
callbacks = []
callbacks.append(gradwire.lightning.Sync(os.getenv("SYNC", "gtopk:0.01")))
if args.checkpoints:
    callbacks.append(ModelCheckpoint(args.checkpoints, save_last=True))
trainer = lightning.Trainer(
    accelerator="cpu", devices=int(os.environ.get("LOCAL_WORLD_SIZE", 1)), strategy="ddp",
    num_nodes=int(os.environ.get("GROUP_WORLD_SIZE", 1)), max_epochs=args.epochs,
    callbacks=callbacks, logger=False, enable_checkpointing=bool(args.checkpoints),
    enable_progress_bar=False, enable_model_summary=False)
model = Classifier()
last = os.path.join(args.checkpoints or "", "last.ckpt")
trainer.fit(model, data, ckpt_path=last if os.path.exists(last) else None)
if trainer.is_global_zero:
    print(f"accuracy {accuracy(model.network, args.data_dir):.4f}")
torch.distributed.destroy_process_group()
