#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gradwire.lightning.Sync with Lightning's Trainer: plain results, checkpoints, refusals."""
import os

import torch_crew

torch_crew.skip_without_torch2("lightning")
import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader

import gradwire
import torch_adapters


class Module(lightning.LightningModule):
    def __init__(self, setting):
        super().__init__()
        self.net, self.setting = torch_adapters.Net(), setting

    def training_step(self, batch, _):
        x, y = batch
        return nn.functional.cross_entropy(self.net(x), y)

    def configure_optimizers(self):
        return torch_adapters.optimizer_of(self.setting, self.parameters())


def trainer_of(callbacks, **options):
    quiet = dict(logger=False, enable_progress_bar=False, enable_model_summary=False)
    return lightning.Trainer(accelerator="cpu", devices=torch.distributed.get_world_size(),
                             callbacks=callbacks, **{"strategy": "ddp", **quiet, **options})


def data():
    return DataLoader(torch_adapters.dataset(), torch_adapters.BATCH, shuffle=True)


def train(folder, setting, epochs, spec):
    sync = gradwire.lightning.Sync(spec) if spec else None
    module, last = Module(setting), os.path.join(folder, "last.ckpt")
    trainer = trainer_of([ModelCheckpoint(folder, save_last=True)] + ([sync] if sync else []),
                         max_epochs=epochs)
    trainer.fit(module, data(), ckpt_path=last if os.path.exists(last) else None)
    return sync and sync.handle, module.net


def refuses(rank, workers):
    class Two(Module):
        def configure_optimizers(self):
            self.automatic_optimization = False
            return [torch.optim.SGD(self.parameters(), 0.1) for _ in range(2)]

    trainer = trainer_of([gradwire.lightning.Sync("dense")], max_epochs=1,
                         enable_checkpointing=False)
    torch_crew.raises(ValueError, "exactly one optimizer, not 2",
                      lambda: trainer.fit(Two("sgd"), data()))


def skips_with_closures(rank, workers):
    """Lightning computes gradients inside the optimizer's step: the right step is left
    out, and AdamW's decay is scaled in the right steps."""
    class Poisoned(Module):
        def training_step(self, batch, index):
            return super().training_step(batch, index) * (float("inf") if index == 1 else 1)

        def on_train_batch_end(self, outputs, batch, index):
            seen.append(torch_adapters.numbers(self.net))

    seen = []
    trainer = trainer_of([gradwire.lightning.Sync("gtopk:0.5", nonfinite="skip")],
                         limit_train_batches=3, max_epochs=1, enable_checkpointing=False)
    trainer.fit(Poisoned("momentum"), data())
    assert torch.equal(seen[0], seen[1]) and not torch.equal(seen[1], seen[2])
    assert torch.isfinite(seen[2]).all()


if __name__ == "__main__":
    more = [torch_adapters.another_number(train), refuses, skips_with_closures]
    torch_crew.main(torch_adapters.cases(train) + more, [2, 4])
