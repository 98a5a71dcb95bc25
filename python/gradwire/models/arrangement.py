# SPDX-License-Identifier: Apache-2.0
"""Where DDP's buckets lie in the vector that is exchanged.

DDP lays its buckets out anew after the first step, in the order in which backward
makes the gradients. Sparse methods take them as they lie, piece by piece in the order of
the vector. Where buckets are exchanged one by one, the vector follows DDP: each bucket
is one stretch of it, and the first is its end, because that is where an exchange in
parts begins:

    vector   | bucket 2 | bucket 1 | bucket 0 |
"""
from __future__ import annotations

from typing import Dict, List, NamedTuple, Sequence, Tuple

from ..sync import Part

# The names in each bucket, in their order: what tells one layout of DDP's from another.
Shape = Tuple[Tuple[str, ...], ...]


class Run(NamedTuple):
    """A stretch that is contiguous both in a bucket and in the vector."""
    in_bucket: int
    in_vector: int
    size: int


def order_for(shape: Shape) -> List[str]:
    """The order of the vector that suits these buckets."""
    return [name for bucket in reversed(shape) for name in bucket]


def runs_of(names: Sequence[str], parts: Dict[str, Part]) -> List[Run]:
    """How one bucket lies in the vector: one run if the orders agree."""
    runs: List[Run] = []
    at = 0
    for name in names:
        part = parts[name]
        last = runs[-1] if runs else None
        if last is not None and last.in_vector + last.size == part.offset:
            runs[-1] = last._replace(size=last.size + part.size)
        else:
            runs.append(Run(at, part.offset, part.size))
        at += part.size
    return runs
