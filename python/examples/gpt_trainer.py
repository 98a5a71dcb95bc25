#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A tiny GPT-2 on the bytes of a text by the Trainer of Transformers and gradwire.

    torchrun --nproc_per_node 2 python/examples/gpt_trainer.py

plain_trainer.py is the same without gradwire: compare the two. The environment variable
SYNC names another spec than gtopk:0.01.
"""
import argparse
import os
import tempfile
from pathlib import Path

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed
from transformers.trainer_utils import get_last_checkpoint
import gradwire

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--batch", type=int, default=8, help="per worker")
parser.add_argument("--lr", type=float, default=2e-3)
parser.add_argument("--text", help="a file to learn from; the Python scripts here otherwise")
parser.add_argument("--limit", type=int, help="use so many pieces of it")
parser.add_argument("--checkpoints", help="save one after each epoch there, and resume")
args = parser.parse_args()

PIECE = 64  # bytes
here = Path(__file__).resolve().parent
text = Path(args.text).read_bytes() if args.text else b"".join(
    script.read_bytes() for script in sorted(here.glob("*.py")))
pieces = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
pieces = pieces[:len(pieces) // PIECE * PIECE].view(-1, PIECE)[:args.limit]
data = [{"input_ids": piece, "labels": piece} for piece in pieces]

set_seed(1)
model = GPT2LMHeadModel(GPT2Config(vocab_size=256, n_positions=PIECE, n_embd=64, n_layer=2,
                                   n_head=4, bos_token_id=0, eos_token_id=0))
trainer = Trainer(model, TrainingArguments(
    args.checkpoints or tempfile.mkdtemp(), use_cpu=True, num_train_epochs=args.epochs,
    per_device_train_batch_size=args.batch, learning_rate=args.lr, dataloader_drop_last=True,
    lr_scheduler_type="constant",  # so that more epochs can be added later
    save_strategy="epoch" if args.checkpoints else "no", report_to="none",
    disable_tqdm=True), train_dataset=data)
gradwire.hf.attach(trainer, os.getenv("SYNC", "gtopk:0.01"))
trainer.train(args.checkpoints and get_last_checkpoint(args.checkpoints))
loss = trainer.evaluate(data[:64])["eval_loss"]
if trainer.is_world_process_zero():
    print(f"loss {loss:.4f}")
torch.distributed.destroy_process_group()
