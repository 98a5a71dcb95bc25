# SPDX-License-Identifier: Apache-2.0
"""The models of gradwire in PyTorch, with parameters in the same order.

bench/peers and tests/train/test_torch_twins.py use them: MODELS maps the name of a model to
a function of (shape of a sample, classes). Every module takes a batch of samples as
rows of floats and gives one row of logits per label."""
import torch
from torch import nn
from torch.nn import functional

import torch_text_models


class Images(nn.Module):
    """Rows become batch x channels x height x width."""

    def __init__(self, shape):
        super().__init__()
        self.shape = shape

    def forward(self, x):
        return x.view(-1, *self.shape)


def dense(widths):
    def make(shape, classes):
        sizes = [shape[0] * shape[1] * shape[2], *widths, classes]
        layers = []
        for before, after in zip(sizes, sizes[1:]):
            layers += [nn.Linear(before, after), nn.ReLU()]
        return nn.Sequential(*layers[:-1])
    return make


def cnn(shape, classes):
    pixels = (shape[1] // 4) * (shape[2] // 4)
    return nn.Sequential(
        Images(shape),
        nn.Conv2d(shape[0], 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * pixels, 128), nn.ReLU(), nn.Linear(128, classes))


class Residual(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.stride, self.new = stride, after - before

    def forward(self, x):
        y = functional.relu(self.bn1(self.conv1(x)), inplace=True)
        y = self.bn2(self.conv2(y))
        if self.stride != 1:
            x = x[:, :, ::self.stride, ::self.stride]
        if self.new:
            x = functional.pad(x, (0, 0, 0, 0, 0, self.new))
        return functional.relu(x + y, inplace=True)


def resnet20(shape, classes):
    layers = [Images(shape), nn.Conv2d(shape[0], 16, 3, 1, 1, bias=False),
              nn.BatchNorm2d(16), nn.ReLU(inplace=True)]
    before = 16
    for after in (16, 32, 64):
        for block in range(3):
            stride = 2 if block == 0 and after > 16 else 1
            layers.append(Residual(before, after, stride))
            before = after
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(64, classes))


def vgg16(shape, classes):
    layers, before = [Images(shape)], shape[0]
    for after, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            layers += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after),
                       nn.ReLU(inplace=True)]
            before = after
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, classes))


MODELS = {
    "softmax": dense([]),
    "fnn3": dense([200, 200]),
    "wide-mlp": dense([4096] * 3),
    "cnn": cnn,
    "resnet20": resnet20,
    "vgg16": vgg16,
    **torch_text_models.MODELS,
}


def load(model, flat):
    """Copies the flat vector of gradwire's parameters into the model."""
    at = 0
    with torch.no_grad():
        for parameter in model.parameters():
            n = parameter.numel()
            parameter.copy_(torch.from_numpy(flat[at:at + n].copy()).view_as(parameter))
            at += n
    if at != len(flat):
        raise ValueError(f"gradwire has {len(flat)} parameters, PyTorch {at}")
