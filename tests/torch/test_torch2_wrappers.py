#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""attach() itself, on each kind of model that it takes: plain results, the bits of the
library, and checkpoints. The adapters' tests expect the same of the frameworks."""
import os

import torch_crew

torch_crew.skip_without("numpy", "torch")
torch_crew.skip_before("2.6")
import torch
import torch._dynamo.utils
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import gradwire
import torch_adapters


def batches(epoch):
    """Those of this worker in that epoch."""
    rank, workers = dist.get_rank(), dist.get_world_size()
    data = torch_adapters.dataset()
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(epoch))
    for batch in order.split(torch_adapters.BATCH)[rank::workers]:
        yield data[batch]


def backward(model, x, y):
    nn.functional.cross_entropy(model(x), y).backward()


class Way:
    """One kind of model. wrap() makes it of the network; without gradwire, `plain`."""
    options = {}

    def __init__(self, name, wrap, plain=None):
        self.__name__ = name
        self.wrap, self.plain = wrap, plain or wrap

    def network(self, spec):
        net = torch_adapters.Net()
        return net, (self.plain if spec is None else self.wrap)(net)

    def before_step(self, net, x, y):
        """What it takes to record gradients that hooks of autograd do not see."""

    def save(self, path, parts):
        """Every worker a file of its own, as docs/pytorch.md has it."""
        os.makedirs(path, exist_ok=True)
        torch.save([part.state_dict() for part in parts],
                   os.path.join(path, f"{dist.get_rank()}.pt"))

    def load(self, path, parts):
        saved = torch.load(os.path.join(path, f"{dist.get_rank()}.pt"), weights_only=True)
        for part, state in zip(parts, saved):
            part.load_state_dict(state)

    def train(self, folder, setting, epochs, spec):
        net, model = self.network(spec)
        optimizer = torch_adapters.optimizer_of(setting, model.parameters())
        handle = spec and gradwire.attach(model, spec, optimizer, **self.options)
        begin, parts = len(os.listdir(folder)), [net, optimizer] + [handle] * bool(handle)
        if begin:
            self.load(os.path.join(folder, str(begin)), parts)
        for epoch in range(begin, epochs):
            for x, y in batches(epoch):
                self.before_step(net, x, y)
                backward(model, x, y)
                optimizer.step()
                optimizer.zero_grad()
            dist.barrier()  # nobody counts the folders any more
            self.save(os.path.join(folder, str(epoch + 1)), parts)
            dist.barrier()
        if handle:
            handle.finish()
        return handle, net


# ---- FSDP2 ---------------------------------------------------------------------


def sharded(net, mesh):
    for layer in (net[0], net[2], net):
        fully_shard(layer, mesh=mesh)
    return net


class Replicas(Way):
    """Two replicas, each sharded over half of the workers. Plain is FSDP's own all-reduce
    over a mesh of two dimensions; checkpoints are those of torch.distributed.checkpoint."""

    def __init__(self):
        super().__init__("fsdp2", lambda net: sharded(net, self.mesh["shard"]),
                         lambda net: sharded(net, self.mesh))

    def network(self, spec):
        shape = (2, dist.get_world_size() // 2)
        self.mesh = init_device_mesh("cpu", shape, mesh_dim_names=("replicate", "shard"))
        self.options = {"mesh": self.mesh["replicate"]}
        found, torch_adapters.recording = torch_adapters.recording, None
        net, model = super().network(spec)
        if found is not None:  # by a twin, which FSDP reduces in the same way
            self.twin = sharded(torch_adapters.Net(), self.mesh["shard"])
            found.begin(shards(net.named_parameters()))
        torch_adapters.recording = found
        return net, model

    def before_step(self, net, x, y):
        if torch_adapters.recording is None:
            return
        with torch.no_grad():
            for there, here in zip(self.twin.parameters(), net.parameters()):
                there.to_local().copy_(here.to_local())
        self.twin.zero_grad()
        backward(self.twin, x, y)
        torch_adapters.recording.note_all(
            shards((name, p.grad) for name, p in self.twin.named_parameters()))

    def states(self, net, optimizer, handle):
        """Replicas may differ, and so may what workers remember: names of their own. What
        get_state_dict() returns refers to parameters by their names."""
        model, moments = get_state_dict(net, optimizer)
        place = self.mesh.get_local_rank("replicate")
        return {f"net-{place}": model, f"optimizer-{place}": moments,
                f"gradwire-{dist.get_rank()}": handle}

    def save(self, path, parts):
        if len(parts) == 3:  # plain runs are not resumed
            dcp.save(self.states(*parts), checkpoint_id=path)

    def load(self, path, parts):
        states = self.states(*parts)
        dcp.load(states, checkpoint_id=path)
        model, moments = list(states.values())[:2]
        set_state_dict(*parts[:2], model_state_dict=model, optim_state_dict=moments)


def shards(tensors):
    """What this worker has of each; a small one may have nothing here."""
    found = ((name, torch_adapters.local(tensor.detach())) for name, tensor in tensors)
    return [(name, shard) for name, shard in found if shard.numel()]


def same_shards(rank, workers):
    return range(rank % (workers // 2), workers, workers // 2)


# ---- all of them ---------------------------------------------------------------


class Compiled(Way):
    """Of all networks, however many: PyTorch would leave the ninth uncompiled."""

    def __init__(self):
        super().__init__("compile", lambda net: torch.compile(DistributedDataParallel(net),
                                                              backend="aot_eager"))
        torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit

    def train(self, *arguments):
        result = super().train(*arguments)
        assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > 0
        return result


WAYS = [Way("ddp", DistributedDataParallel), Compiled(),
        Way("plain", lambda net: net, DistributedDataParallel), Replicas()]


def cases():
    for way in WAYS:
        peers = same_shards if isinstance(way, Replicas) else torch_adapters.all_of
        for case in torch_adapters.cases(way.train, peers):
            case.__name__ = f"{way.__name__} {case.__name__}"
            yield case


if __name__ == "__main__":
    torch_crew.main(list(cases()), [2, 4])
