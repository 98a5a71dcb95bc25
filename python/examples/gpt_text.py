#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small GPT on the bytes of a text, with AdamW and DiLoCo.

    torchrun --nproc_per_node 4 python/examples/gpt_text.py

The first 40 steps are dense; then workers meet every 30 steps. With --checkpoints a run that
was stopped goes on where it was, bit for bit. The model needs no DistributedDataParallel;
--ddp has it all the same.
"""
import argparse
import hashlib
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
import gradwire

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--steps", type=int, default=400)
parser.add_argument("--batch", type=int, default=8, help="per worker")
parser.add_argument("--lr", type=float, default=2e-3)
parser.add_argument("--sync", default="diloco:30,momentum=0.6,start=40", help="the spec")
parser.add_argument("--text", help="a file to learn from; the Python scripts here otherwise")
parser.add_argument("--ddp", action="store_true", help="train in DistributedDataParallel")
parser.add_argument("--checkpoints", help="directory to save to every 50 steps and at the end, and to resume from")
args = parser.parse_args()

PIECE, WIDTH, LAYERS, HEADS, EVERY, WARM = 64, 64, 2, 4, 50, 20


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.bytes, self.places = nn.Embedding(256, WIDTH), nn.Embedding(PIECE, WIDTH)
        self.blocks = nn.Sequential(*(nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True) for _ in range(LAYERS)))
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 256)
        self.register_buffer("mask", torch.full((PIECE, PIECE), float("-inf")).triu(1), persistent=False)

    def forward(self, x):
        h = self.bytes(x) + self.places.weight
        for block in self.blocks:
            h = block(h, src_mask=self.mask)
        return self.out(self.norm(h))


def loss_of(model, pieces):
    return cross_entropy(model(pieces[:, :-1]).flatten(0, 1), pieces[:, 1:].flatten())


dist.init_process_group("gloo")
rank, workers = dist.get_rank(), dist.get_world_size()
here = Path(__file__).resolve().parent
text = Path(args.text).read_bytes() if args.text else b"".join(
    script.read_bytes() for script in sorted(here.glob("*.py")))
text = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
pieces = text.unfold(0, PIECE + 1, PIECE)
train, test = pieces[:-len(pieces) // 10], pieces[-len(pieces) // 10:]

torch.manual_seed(1)
net = GPT()
model = DistributedDataParallel(net) if args.ddp else net
optimizer = torch.optim.AdamW(net.parameters(), lr=args.lr, betas=(0.9, 0.95), weight_decay=0.1)
handle = gradwire.attach(model, args.sync, optimizer)
saved = args.checkpoints and Path(args.checkpoints) / f"checkpoint-{rank}.pt"
step = 0
if saved and saved.exists():
    state = torch.load(saved)
    net.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    handle.load_state_dict(state["gradwire"])
    step = state["step"]
while step < args.steps:
    drawn = torch.Generator().manual_seed(step * workers + rank)
    batch = train[torch.randint(len(train), (args.batch,), generator=drawn)]
    optimizer.param_groups[0]["lr"] = args.lr * min(1, (step + 1) / WARM)
    optimizer.zero_grad()
    loss = loss_of(model, batch)
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    step += 1
    if saved and (step % EVERY == 0 or step == args.steps):
        saved.parent.mkdir(parents=True, exist_ok=True)
        torch.save({"step": step, "model": net.state_dict(), "optimizer": optimizer.state_dict(),
                    "gradwire": handle.state_dict()}, saved)
    if rank == 0 and step % EVERY == 0:
        print(f"step {step}: loss {loss.item():.3f}", flush=True)

handle.finish()
if rank == 0:
    bits = b"".join(p.detach().numpy().tobytes() for p in net.parameters())
    print(f"sent {handle.stats()['bytes_sent'] / 1e6:.2f} MB")
    print(f"model {hashlib.sha256(bits).hexdigest()[:16]}")
    with torch.no_grad():
        print(f"loss {loss_of(net, test).item():.4f}")
dist.destroy_process_group()
