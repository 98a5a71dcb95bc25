#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""demo_torch.py - demo against DeMo's formulas in PyTorch, on the same gradients.

    bench/peers/demo_torch.py [STEPS] [DENSITY]

One worker hands random gradients to gradwire, step by step. The other side is DeMo
(Peng et al. 2024) by its formulas, with tiles cut as its authors' code cuts them: sides
are the largest divisor up to 64, the basis is the DCT-II of the unit matrix, tiles are
multiplied with it on both sides, the largest coefficients of each are sent and leave
the momentum. Two things are compared: the coefficients that stay behind, which
gradwire has in its saved residual, and the mean that is transformed back. The largest
difference, relative to the largest entry, must be at most 1e-6. The momentum of the
formulas is taken over from gradwire in each step, so that roundings do not add up. The
exit status is 77, with the reason, where torch or the gradwire package is missing."""
import math
import sys

LIMIT = 1e-6
SHAPES = [(128, 192), (64,), (200, 784), (10, 64), (3, 50)]
DECAY = 0.999


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


try:
    import numpy as np
    import torch
except ImportError as missing:
    skip(f"this needs PyTorch: {missing}")
try:
    import gradwire
except (ImportError, OSError) as missing:
    skip(f"this needs the gradwire package: {missing}")


def divisor(n):
    return max(d for d in range(1, 65) if n % d == 0)


def basis(n):
    """The DCT-II of each unit vector, orthonormal, by an FFT of n as DeMo has it."""
    x = torch.eye(n, dtype=torch.float64)
    turned = torch.cat([x[:, ::2], x[:, 1::2].flip([1])], dim=1)
    spectrum = torch.fft.fft(turned, dim=1)
    angle = -torch.arange(n, dtype=torch.float64) * math.pi / (2 * n)
    y = spectrum.real * torch.cos(angle) - spectrum.imag * torch.sin(angle)
    y[:, 0] *= math.sqrt(1 / n)
    y[:, 1:] *= math.sqrt(2 / n)
    return y.float()


def tiles(t):
    """A tensor as tiles: y rows of x tiles of h x w."""
    rows, cols = t.shape if t.dim() == 2 else (1, t.shape[0])
    h, w = divisor(rows), divisor(cols)
    return t.reshape(rows // h, h, cols // w, w).transpose(1, 2)


def whole(tiled, shape):
    return tiled.transpose(1, 2).reshape(shape)


def coefficients(t):
    x = tiles(t)
    return basis(x.shape[2]).T @ x @ basis(x.shape[3])


def kept(c, density):
    """The largest of each tile, all others 0."""
    flat = c.reshape(c.shape[0], c.shape[1], -1)
    k = max(1, int(density * flat.shape[2]))
    places = flat.abs().topk(k, dim=2).indices
    return torch.zeros_like(flat).scatter(2, places, flat.gather(2, places)).reshape(c.shape)


def back(c, shape):
    return whole(basis(c.shape[2]) @ c @ basis(c.shape[3]).T, shape)


def in_order(c):
    """As gradwire numbers them: by columns in a tile."""
    return c.transpose(2, 3).reshape(-1).numpy()


def from_order(flat, like):
    a, b, h, w = like.shape
    return torch.from_numpy(np.array(flat)).reshape(a, b, w, h).transpose(2, 3)


def gradient(step):
    rng = np.random.default_rng([7, step])
    return [rng.standard_normal(s).astype(np.float32) for s in SHAPES]


def relative(got, want):
    return float(np.max(np.abs(got - want)) / np.max(np.abs(want)))


def one_step(sync, g, density):
    """The largest differences of a step: of coefficients, and of the result."""
    before = sync.state_dict()["residual"]
    flat = np.concatenate([x.ravel() for x in g])
    sync.gradient(flat)
    after, at, worst = sync.state_dict()["residual"], 0, [0.0, 0.0]
    for i, x in enumerate(g):
        fresh = coefficients(torch.from_numpy(x))
        total = from_order(before[f"t{i}"], fresh) * DECAY + fresh
        sent = kept(total, density)
        left, result = in_order(total - sent), back(sent, x.shape).numpy()
        scale = float(total.abs().max())
        worst[0] = max(worst[0], float(np.max(np.abs(np.ravel(after[f"t{i}"]) - left))) / scale)
        worst[1] = max(worst[1], relative(flat[at:at + x.size].reshape(x.shape), result))
        at += x.size
    return worst


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    density = float(sys.argv[2]) if len(sys.argv) > 2 else 1 / 128
    comm = gradwire.Comm.from_sockets([None], 0)
    sync = gradwire.Sync([(f"t{i}", s) for i, s in enumerate(SHAPES)],
                         f"demo:{density:.9g},{DECAY},update=mean", comm)
    sync.start(np.zeros(sum(int(np.prod(s)) for s in SHAPES), np.float32))
    worst = [0.0, 0.0]
    for step in range(steps):
        worst = [max(pair) for pair in zip(worst, one_step(sync, gradient(step), density))]
    print(f"demo, {steps} steps, torch {torch.__version__}: largest relative difference of coefficients "
          f"{worst[0]:.2e}, of results {worst[1]:.2e} (limit {LIMIT:g})")
    return 0 if max(worst) <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
