#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Examples whose workers save files of their own: what a resumed run saves at its end has
the bits of what the run that was not stopped saved. One worker was stopped before it had
saved the last epoch, while another had."""
import os
import tempfile

import torch_crew

torch_crew.skip_without("numpy", "torch")
import torch
import torch_example

HAS_FSDP2 = torch_crew.is_at_least("2.6")
if HAS_FSDP2:
    import torch.distributed.tensor  # in states of FSDP2

EXAMPLES = os.path.join(os.environ["GRADWIRE_SOURCE"], "python", "examples")
WORKERS = 2


def bits(value):
    """All numbers in a state as bytes, except for what tells how it was."""
    if isinstance(value, dict):
        return {key: bits(part) for key, part in value.items() if key != "stats"}
    tensor = value.to_local() if hasattr(value, "to_local") else value
    return tensor.numpy().tobytes() if isinstance(tensor, torch.Tensor) else value


def train(script, directory):
    """What each worker saves after the second epoch."""
    torch_example.run(os.path.join(EXAMPLES, script), WORKERS, directory, "--epochs", "2",
                      "--batch", "16", "--limit", "160", "--data-dir", directory,
                      "--checkpoints", os.path.join(directory, "saved"))
    paths = [os.path.join(directory, "saved", "epoch2", f"worker{rank}.pt")
             for rank in range(WORKERS)]
    return [bits(torch.load(path, **({"weights_only": True} if HAS_FSDP2 else {})))
            for path in paths]


def resumes(script):
    with tempfile.TemporaryDirectory() as directory:
        torch_example.make_images(directory)
        whole = train(script, directory)
        os.remove(os.path.join(directory, "saved", "epoch2", "worker1.pt"))
        again = train(script, directory)
        assert whole == again, script
        residuals = [worker["gradwire"]["residual"] for worker in whole]
        assert residuals[0] != residuals[1], "no worker has a residual of its own"


if __name__ == "__main__":
    resumes("mnist_ddp.py")
    for name in ("compile_ddp.py", "plain_module.py", "fsdp2_replicas.py") if HAS_FSDP2 else ():
        resumes(name)
