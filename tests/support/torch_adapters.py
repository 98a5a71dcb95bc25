# SPDX-License-Identifier: Apache-2.0
"""What the tests of gradwire's adapters share: a small training that each framework does,
and what is expected of it.

A framework gives train(folder, setting, epochs, spec): it trains the network for so many
epochs, saves a checkpoint in the folder after each, and resumes from the last one there.
It returns the handle, or None without a spec, and the network."""
import os
import tempfile

# Accelerate looks for these, as torchrun sets them, though the group is there already.
os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
os.environ.setdefault("MASTER_PORT", "1")
os.environ.setdefault("LOCAL_WORLD_SIZE", os.environ.get("WORLD_SIZE", "1"))

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import TensorDataset

SAMPLES, BATCH = 80, 4  # 10 steps in an epoch on 2 workers, 5 on 4
# How far plain DDP may be: it divides before it sums.
FAR = 1e-6

# Each memory that a checkpoint can have: velocity and residual, moments of each worker's own
# optimizer, models that differ when the checkpoint is saved.
SETTINGS = {
    "momentum": ("gtopk:0.05,warmup=2", lambda p: torch.optim.SGD(p, 0.05, momentum=0.9)),
    "moments": ("update:start=2,scale=1.4+gtopk:0.05", lambda p: torch.optim.AdamW(p, 0.01)),
    "models": ("local:4", lambda p: torch.optim.SGD(p, 0.05)),
}


class Net(nn.Sequential):
    def __init__(self):
        torch.manual_seed(1)
        super().__init__(nn.Linear(20, 300), nn.Tanh(), nn.Linear(300, 300), nn.Tanh(),
                         nn.Linear(300, 5))


def dataset():
    g = torch.Generator().manual_seed(2)
    return TensorDataset(torch.randn(SAMPLES, 20, generator=g),
                         torch.randint(5, (SAMPLES,), generator=g))


def optimizer_of(setting, parameters):
    return SETTINGS[setting][1](parameters)


def numbers(net):
    return torch.cat([p.detach().reshape(-1) for p in net.parameters()])


def sent(handle):
    """Messages of this process, without those of the run that it resumed."""
    return handle._open().comm.traffic()["messages_sent"]


def folder():
    """The same new folder for all workers of this job."""
    made = [tempfile.mkdtemp(dir=os.environ["CREW_DIRECTORY"])]
    dist.broadcast_object_list(made, 0)
    return made[0]


def check_plain(train):
    """A spec that changes nothing gives what the framework gives without gradwire."""
    _, plain = train(folder(), "momentum", 2, None)
    handle, ours = train(folder(), "momentum", 2, "dense")
    assert handle.stats()["steps"] == 2 * SAMPLES // BATCH // dist.get_world_size()
    assert float((numbers(plain) - numbers(ours)).abs().max()) <= FAR
    handle.detach()


def check_resume(train, setting):
    """A run that was stopped and resumed has the bits of the one that was not, on every
    worker, in the model and in what gradwire remembers."""
    spec = SETTINGS[setting][0]
    whole, wanted = train(folder(), setting, 3, spec)
    place = folder()
    first, _ = train(place, setting, 2, spec)
    first.detach()
    second, found = train(place, setting, 3, spec)
    assert second.stats()["steps"] == whole.stats()["steps"]
    assert sent(second) < sent(whole), "it began anew"
    far = float((numbers(found) - numbers(wanted)).abs().max())
    assert far == 0, f"{setting}: the models are {far} apart"
    a, b = whole.state_dict(), second.state_dict()
    for memory, values in a.items():
        for name, value in values.items() if isinstance(values, dict) else ():
            assert torch.equal(torch.as_tensor(value), torch.as_tensor(b[memory][name])), (
                f"{memory} of {name}")
    whole.detach()
    second.detach()


def cases(train):
    """The cases for torch_crew.main()."""
    def equals_plain(rank, workers):
        check_plain(train)

    def resumes(rank, workers):
        for setting in SETTINGS if workers == 2 else ("moments",):
            check_resume(train, setting)

    return [equals_plain, resumes]
