#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gradwire.accelerate.attach() after prepare(): plain results and checkpoints."""
import os

import torch_crew

torch_crew.skip_without_torch2("accelerate")
import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from torch import nn
from torch.utils.data import DataLoader

import gradwire
import torch_adapters


def prepared(setting, **options):
    # Without a seed of its own, Accelerate's sampler shuffles a resumed epoch otherwise.
    seeded = DataLoaderConfiguration(use_seedable_sampler=True)
    accelerator = Accelerator(cpu=True, dataloader_config=seeded, **options)
    net = torch_adapters.Net()
    torch.manual_seed(3)
    data = DataLoader(torch_adapters.dataset(), torch_adapters.BATCH, shuffle=True)
    return accelerator, net, *accelerator.prepare(
        net, torch_adapters.optimizer_of(setting, net.parameters()), data)


def train_epoch(accelerator, model, optimizer, data):
    for x, y in data:
        with accelerator.accumulate(model):
            optimizer.zero_grad()
            accelerator.backward(nn.functional.cross_entropy(model(x), y))
            optimizer.step()


def train(folder, setting, epochs, spec):
    accelerator, net, model, optimizer, data = prepared(setting)
    handle = None
    if spec is not None:
        handle = gradwire.accelerate.attach(accelerator, model, spec, optimizer)
    begin = len(os.listdir(folder))
    if begin:
        accelerator.load_state(os.path.join(folder, str(begin)))
    for epoch in range(begin, epochs):
        data.set_epoch(epoch)
        train_epoch(accelerator, model, optimizer, data)
        accelerator.wait_for_everyone()
        accelerator.save_state(os.path.join(folder, str(epoch + 1)))
        accelerator.wait_for_everyone()
    return handle, net


def unwraps(rank, workers):
    """gradwire.attach() itself takes what prepare() returns."""
    accelerator, net, model, optimizer, data = prepared("momentum",
                                                        gradient_accumulation_steps=2)
    handle = gradwire.attach(model, "gtopk:0.05", optimizer)
    train_epoch(accelerator, model, optimizer, data)
    steps = torch_adapters.SAMPLES // torch_adapters.BATCH // workers
    assert handle.stats()["steps"] == (steps + 1) // 2
    assert "momentum" in handle.spec and not any(
        "momentum_buffer" in state for state in optimizer.state_dict()["state"].values())
    handle.detach()


if __name__ == "__main__":
    more = [torch_adapters.another_number(train), unwraps]
    torch_crew.main(torch_adapters.cases(train) + more, [2, 4])
