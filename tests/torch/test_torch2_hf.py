#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gradwire.hf.attach() with the Trainer of Transformers: plain results and checkpoints."""
import os
import shutil

import torch_crew

torch_crew.skip_without_torch2("transformers", "accelerate")
import torch
from torch import nn
from transformers import Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

import gradwire
import torch_adapters


class Model(nn.Module):
    """The network, with a loss as the Trainer wants it."""

    def __init__(self):
        super().__init__()
        self.net = torch_adapters.Net()

    def forward(self, x, labels):
        y = self.net(x)
        return {"loss": nn.functional.cross_entropy(y, labels), "logits": y}


def trainer_of(folder, setting, epochs, **options):
    model = Model()
    optimizer = torch_adapters.optimizer_of(setting, model.parameters())
    constant = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    arguments = TrainingArguments(
        folder, use_cpu=True, num_train_epochs=epochs, disable_tqdm=True, report_to="none",
        per_device_train_batch_size=torch_adapters.BATCH, max_grad_norm=0,
        **{"save_strategy": "epoch", "logging_strategy": "no", **options})
    data = [{"x": x, "labels": y} for x, y in torch_adapters.dataset()]
    return Trainer(model, arguments, train_dataset=data, optimizers=(optimizer, constant))


def train(folder, setting, epochs, spec):
    trainer = trainer_of(folder, setting, epochs)
    sync = gradwire.hf.attach(trainer, spec) if spec else None
    trainer.train(get_last_checkpoint(folder))
    return sync and sync.handle, trainer.model.net


def resumes_in_the_middle(rank, workers):
    """From the last checkpoint, True, which is in the middle of an epoch."""
    spec = "gtopk:0.05,warmup=2"
    results, place = [], torch_adapters.folder()
    for resume, epochs in ((None, 2), (True, 2)):
        trainer = trainer_of(place, "momentum", epochs, save_strategy="steps", save_steps=3)
        sync = gradwire.hf.attach(trainer, spec)
        trainer.train(resume_from_checkpoint=resume)
        results.append(torch_adapters.numbers(trainer.model.net))
        sync.handle.detach()
        torch.distributed.barrier()
        if rank == 0:  # the others are older than the one to resume from
            for name in os.listdir(place):
                if name != "checkpoint-3":
                    shutil.rmtree(os.path.join(place, name))
        torch.distributed.barrier()
    assert torch.equal(*results)


def misses_files(rank, workers):
    """A checkpoint that was saved without gradwire is refused in one sentence."""
    place = torch_adapters.folder()
    trainer_of(place, "momentum", 1).train()
    trainer = trainer_of(place, "momentum", 2)
    gradwire.hf.attach(trainer, "gtopk:0.05")
    torch_crew.raises(gradwire.DataError, "has no states of gradwire's workers",
                      lambda: trainer.train(resume_from_checkpoint=True))


if __name__ == "__main__":
    more = [torch_adapters.another_number(train), resumes_in_the_middle, misses_files]
    torch_crew.main(torch_adapters.cases(train) + more, [2, 4])
