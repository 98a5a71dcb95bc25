# SPDX-License-Identifier: Apache-2.0
"""The language models of gradwire in PyTorch, for torch_models.py.

A sample is a row of T tokens, as floats, and has T labels; shape is (T, 1, 1), classes
the number of words."""
import torch
from torch import nn
from torch.nn import functional


class Lstm(nn.Module):
    """Two layers; h and c go on from batch to batch, without their history."""

    reads_text = True

    def __init__(self, size, steps, classes):
        super().__init__()
        self.labels = steps
        self.embedding = nn.Embedding(classes, size)
        self.lstm = nn.LSTM(size, size, 2, batch_first=True)
        self.projection = nn.Linear(size, classes)
        self.state = None

    def forward(self, x):
        y, state = self.lstm(self.embedding(x.long()), self.state)
        self.state = tuple(s.detach() for s in state)
        return self.projection(y).flatten(0, 1)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, x, mask):
        batch, steps, width = x.shape
        share = width // self.heads
        qkv = self.qkv(self.norm1(x)).view(batch, steps, 3, self.heads, share)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        p = (q @ k.transpose(-1, -2) * share ** -0.5 + mask).softmax(-1)
        x = x + self.out((p @ v).transpose(1, 2).reshape(batch, steps, width))
        return x + self.down(functional.relu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    reads_text = True

    def __init__(self, layers, heads, width, steps, classes):
        super().__init__()
        self.labels = steps
        self.embedding = nn.Embedding(classes, width)
        self.position = nn.Parameter(torch.zeros(steps, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.projection = nn.Linear(width, classes)
        self.register_buffer("mask", torch.full((steps, steps), -torch.inf).triu(1))
        # Parameters of the module itself would come before those of its parts.
        self.order = [self.embedding.weight, self.position,
                      *self.blocks.parameters(), *self.norm.parameters(),
                      *self.projection.parameters()]

    def parameters(self, recurse=True):
        return iter(self.order)

    def forward(self, x):
        y = self.embedding(x.long()) + self.position
        for block in self.blocks:
            y = block(y, self.mask)
        return self.projection(self.norm(y)).flatten(0, 1)


def lstm(size):
    return lambda shape, classes: Lstm(size, shape[0], classes)


def transformer(layers, heads, width):
    return lambda shape, classes: Transformer(layers, heads, width, shape[0], classes)


MODELS = {
    "lstm": lstm(200),
    "lstm:24": lstm(24),
    "transformer": transformer(4, 4, 128),
    "transformer-10m": transformer(6, 6, 384),
    "transformer-30m": transformer(10, 8, 512),
    "transformer:layers=2,heads=3,width=24": transformer(2, 3, 24),
}
