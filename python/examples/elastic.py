#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small CNN on Fashion-MNIST by workers that may die, join and leave while it trains.

    gradwire meet --new-key job.key                             # once
    gradwire meet --key-file job.key                            # on one machine
    python/examples/elastic.py tcp://HOST:7077 --key-file job.key   # each worker, at any time

torch.distributed is not needed. Ctrl-C makes a worker leave; the others go on.
"""
import argparse
import signal

import torch
from torch.nn.functional import cross_entropy
import gradwire

from images import accuracy, load, network

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("meeting", help="tcp://HOST:PORT or etcd://HOST:PORT/JOB")
parser.add_argument("--key-file", help="the job's key; by default GRADWIRE_KEY has it")
parser.add_argument("--workers", type=int, nargs=2, default=(2, 8), metavar=("MIN", "MAX"))
parser.add_argument("--steps", type=int, default=1000)
parser.add_argument("--batch", type=int, default=64, help="per worker")
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--sync", default="gtopk:0.01", help="the spec")
parser.add_argument("--data-dir", help="where the IDX files are")
parser.add_argument("--limit", type=int, help="use so many training images")
args = parser.parse_args()

torch.manual_seed(1)
images, labels = load("train", args.data_dir, args.limit)
model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
group = gradwire.join(args.meeting, key_file=args.key_file, workers=tuple(args.workers),
                      tell=lambda line: print(line, flush=True))
asked_to_leave = []


def leave_soon(*_):
    asked_to_leave.append(True)
    group.leaving()  # ends a wait for others that are too few


for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, leave_soon)
handle = gradwire.attach(model, args.sync, optimizer, group=group, shared=[schedule])

try:
    while handle.step < args.steps and not asked_to_leave:
        # Batches follow the step and the rank, which change when workers come and go.
        draw = torch.Generator().manual_seed(handle.step * 1024 + handle.rank)
        batch = torch.randint(len(images), (args.batch,), generator=draw)
        optimizer.zero_grad()
        loss = cross_entropy(model(images[batch]), labels[batch])
        loss.backward()
        optimizer.step()
        schedule.step()
        if handle.step % 100 == 0 and handle.rank == 0:
            print(f"step {handle.step}: loss {loss.item():.3f}, {handle.workers} workers", flush=True)
except gradwire.GradwireError:
    if not asked_to_leave:
        raise

if asked_to_leave:
    handle.leave()
    print("this worker has left the job")
else:
    handle.finish()
    if handle.rank == 0:
        print(f"accuracy {accuracy(model, args.data_dir):.4f}")
    group.leave()
