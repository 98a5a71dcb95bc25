# SPDX-License-Identifier: Apache-2.0
"""What the library alone makes of a training that some framework has done.

A Recording has the gradients of one worker as autograd, or FSDP, has made them, before
anybody exchanges them. replay() puts those of all workers through gradwire.Sync, in
threads of one process and without any of the binding, and takes the optimizer's steps
with what comes out."""
import threading

import numpy as np
import torch

import gradwire


class Recording:
    """The parameters of a worker before its first step, and its gradients in each step."""

    def __init__(self):
        self.start, self.steps, self._hooks = {}, [], []

    def begin(self, parameters):
        self.start = {name: p.detach().clone() for name, p in parameters}

    def watch(self, net):
        """Takes gradients on their way to p.grad. Each comes once in a backward."""
        self.begin(net.named_parameters())
        for name, p in net.named_parameters():
            self._hooks.append(p.register_hook(lambda g, name=name: self._note(name, g)))

    def _note(self, name, gradient):
        if not self.steps or len(self.steps[-1]) == len(self.start):
            self.steps.append({})
        assert name not in self.steps[-1], f"two gradients of {name} in one step"
        self.steps[-1][name] = gradient.detach().clone()

    def note_all(self, gradients):
        self.steps.append({name: g.detach().clone() for name, g in gradients})

    def end(self):
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        return self


class Result:
    """What a worker has at the end."""

    def __init__(self, numbers, memories):
        self.numbers, self.memories = numbers, memories


def replay(recordings, spec, make_optimizer):
    """The results of all workers. Of each there is what its Recording has: (start, steps)."""
    optimizers = []
    for start, _ in recordings:
        parameters = [torch.nn.Parameter(p.clone()) for p in start.values()]
        optimizers.append(make_optimizer(parameters))
    group, results, errors = gradwire.LocalGroup(len(recordings)), {}, []

    def work(rank):
        try:
            with group.join(rank) as comm:
                results[rank] = _train(comm, *recordings[rank], spec, optimizers[rank])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(len(recordings))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return [results[rank] for rank in range(len(recordings))]


def _train(comm, start, steps, spec, optimizer):
    """One worker: SGD, whose momentum and decay are applied before the exchange wherever
    the advice says so."""
    parameters = dict(zip(start, optimizer.param_groups[0]["params"]))
    values = optimizer.param_groups[0]
    rate, decay = values["lr"], values["weight_decay"]
    kind = gradwire.OptimizerKind(momentum=values["momentum"])
    advice = gradwire.advise(spec, kind, comm.workers)
    if advice.takes_momentum:
        values["momentum"] = values["weight_decay"] = 0
    sync = gradwire.Sync({name: tuple(p.shape) for name, p in parameters.items()},
                         advice.spec, comm)
    for gradients in steps:
        if advice.takes_momentum:
            sync.set_rate(rate)
        _exchange(sync, parameters, gradients, decay if advice.takes_momentum else 0)
        optimizer.step()
    numbers = torch.cat([p.detach().reshape(-1) for p in parameters.values()])
    return Result(numbers, sync.state_dict())


def _exchange(sync, parameters, gradients, decay):
    for name, p in parameters.items():
        p.grad = gradients[name].clone()
        if decay:
            p.grad.add_(p.detach(), alpha=decay)
    vector = np.concatenate([p.grad.numpy().reshape(-1) for p in parameters.values()])
    sync.gradient(vector)
    for part in sync.parts:
        p = parameters[part.name]
        p.grad.copy_(torch.from_numpy(vector[part.offset:part.offset + part.size]).view(p.shape))
