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

import torch_crew
import torch_replay

# The jobs of a test, of 2 and of 4 workers, have one folder in common.
if not torch_crew.is_worker():
    in_common = tempfile.TemporaryDirectory()
    os.environ["ADAPTERS_IN_COMMON"] = in_common.name

SAMPLES, BATCH = 80, 4  # 10 steps in an epoch on 2 workers, 5 on 4
# How far plain DDP may be, as a part of the largest number: it divides before it sums.
FAR = 1e-6

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.05),
    "momentum": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, weight_decay=0.01),
    "adamw": lambda p: torch.optim.AdamW(p, 0.01),
}
# Specs that send everything: as such, as a sparse method with nothing to leave out, and in
# a warm-up that does not end.
OFF = ("dense", "topk:1", "topk:0.01,warmup=1000")
# For each memory that a checkpoint can have: velocity and residual, moments of each
# worker's own optimizer, models that differ when the checkpoint is saved.
RESUMED = {"momentum": "gtopk:0.05,warmup=2", "adamw": "update:start=2,scale=1.4+gtopk:0.05",
           "sgd": "local:4"}
# As the user wrote it, and with the optimizer's momentum moved into it.
BITS = {"sgd": "topk:0.01", "momentum": "topk:0.01,warmup=2"}


class Net(nn.Sequential):
    def __init__(self):
        torch.manual_seed(1)
        super().__init__(nn.Linear(20, 300), nn.Tanh(), nn.Linear(300, 300), nn.Tanh(),
                         nn.Linear(300, 5))
        if recording is not None:
            recording.watch(self)

    def forward(self, x):
        """Its own, since torch.compile() leaves those of torch.nn alone inside DDP."""
        return super().forward(x)


# Of the networks that are made; None while nothing is recorded.
recording = None


def dataset():
    g = torch.Generator().manual_seed(2)
    return TensorDataset(torch.randn(SAMPLES, 20, generator=g),
                         torch.randint(5, (SAMPLES,), generator=g))


def optimizer_of(setting, parameters):
    return OPTIMIZERS[setting](parameters)


def numbers(net):
    """What this worker has of the network: of a sharded one, its shards."""
    return torch.cat([local(p.detach()).reshape(-1) for p in net.parameters()])


def local(tensor):
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


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
    plain = numbers(plain)
    for spec in OFF:
        handle, ours = train(folder(), "momentum", 2, spec)
        assert handle.stats()["steps"] == 2 * SAMPLES // BATCH // dist.get_world_size()
        far = float((plain - numbers(ours)).abs().max() / plain.abs().max())
        assert far <= FAR, f"{spec}: the models are {far} of the largest number apart"
        handle.detach()


def everybody(mine):
    """What all workers have, in the order of ranks."""
    found = [None] * dist.get_world_size()
    dist.all_gather_object(found, mine)
    return found


def check_bits(train, setting, peers):
    """The model and the residual have the bits of the library alone on the gradients of
    the same workers."""
    global recording
    recording = torch_replay.Recording()
    try:
        handle, net = train(folder(), setting, 2, BITS[setting])
        mine = recording.end()
    finally:
        recording = None
    recordings = [(r.start, r.steps) for r in everybody(mine)]
    assert len(mine.steps) == handle.stats()["steps"] > 0
    held = {key: unprefixed(value) for key, value in handle.state_dict().items()}
    found = torch_replay.replay([recordings[r] for r in peers], BITS[setting],
                                OPTIMIZERS[setting])[handle.rank]
    assert found.memories["spec"] == held["spec"], held["spec"]
    assert torch.equal(numbers(net), found.numbers), setting
    assert handle.residual_norm() > 0
    check_memories(held, found.memories)
    handle.detach()


def unprefixed(memory):
    """With the names that parameters have in the network itself."""
    return memory if not isinstance(memory, dict) else {
        name.replace("net.", ""): value for name, value in memory.items()}


def check_memories(a, b):
    """What one worker remembers is the same in both."""
    memories = [key for key, value in a.items() if isinstance(value, dict) and key != "stats"]
    for memory in memories:
        for name, value in a[memory].items():
            assert torch.equal(torch.as_tensor(value), torch.as_tensor(b[memory][name])), (
                f"{memory} of {name}")


def check_resume(train, setting):
    """A run that was stopped and resumed has the bits of the one that was not, on every
    worker, in the model and in what gradwire remembers."""
    spec = RESUMED[setting]
    whole, wanted = train(folder(), setting, 3, spec)
    place = folder()
    first, _ = train(place, setting, 2, spec)
    first.detach()
    second, found = train(place, setting, 3, spec)
    assert second.stats()["steps"] == whole.stats()["steps"]
    assert sent(second) < sent(whole), "it began anew"
    far = float((numbers(found) - numbers(wanted)).abs().max())
    assert far == 0, f"{setting}: the models are {far} apart"
    check_memories(whole.state_dict(), second.state_dict())
    whole.detach()
    second.detach()


def another_number(train):
    """The case in which four workers resume what two have saved, with models that differ:
    nobody begins anew, and one model comes out. test_python_worker_state.py looks at the
    numbers."""
    def resumed_by_others(rank, workers):
        place, before = os.environ["ADAPTERS_IN_COMMON"], 2 * SAMPLES // BATCH // 2
        handle, net = train(place, "sgd", 2 if workers == 2 else 3, RESUMED["sgd"])
        steps = handle.stats()["steps"]
        assert steps == before if workers == 2 else steps >= before, steps
        handle.detach()
        assert all(torch.equal(numbers(net), other) for other in everybody(numbers(net)))

    return resumed_by_others


def all_of(rank, workers):
    return range(workers)


def cases(train, peers=all_of):
    """The cases for torch_crew.main(). peers() are the ranks that exchange with a rank, and
    itself."""
    def equals_plain(rank, workers):
        check_plain(train)

    def resumes(rank, workers):
        for setting in RESUMED if workers == 2 else ("adamw",):
            check_resume(train, setting)

    def bits_of_the_library(rank, workers):
        for setting in BITS:
            check_bits(train, setting, peers(rank, workers))

    return [equals_plain, bits_of_the_library, resumes]
