# SPDX-License-Identifier: Apache-2.0
"""The residual on the model's own device, and everything that happens there.

    device    residual += gradient;  its k largest entries   ----> host: the exchange
              residual += what is kept                       <----
              gradient = the result's entries, else 0        <----

So only entries cross between the device and the host, 8 bytes each, and not the vector.
All of it is plain torch operations, which every kind of device has; Border is the one
place where anything crosses, and counts it. The choice is that of the library's own
kernels, and so are all bits (gw_sync_entries() in gradwire.h).
"""
from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch

from ..comm import Comm
from ..sync import LayoutLike, Part, Sync

_SIGN, _NAN = 0x7fffffff, 0x7f800001  # bits of a magnitude; what every NaN counts as
_MOST = 2**31 - 1  # floats of which torch can hold the positions in 32 bits


class Place(NamedTuple):
    """A stretch of the gradient on the device, one-dimensional, and where in the vector
    it begins."""
    begin: int
    at: torch.Tensor


class Border:
    """Between a device and the host."""

    def __init__(self, device: torch.device):
        self._device = device
        self.to_host_bytes = 0
        self.to_device_bytes = 0

    def to_host(self, tensor: torch.Tensor) -> np.ndarray:
        self.to_host_bytes += tensor.numel() * tensor.element_size()
        return tensor.cpu().numpy()

    def to_device(self, array: np.ndarray) -> torch.Tensor:
        self.to_device_bytes += array.nbytes
        return torch.from_numpy(array).to(self._device)


# ---- what happens on the device --------------------------------------------------


def largest(vector: torch.Tensor, k: int) -> torch.Tensor:
    """The positions of the k entries of the largest magnitude, ascending; fewer if fewer
    are not 0. Of equal magnitudes the lowest positions go first, and every NaN is larger
    than infinity."""
    key = vector.view(torch.int32).bitwise_and(_SIGN).clamp_(max=_NAN)
    least = torch.topk(key, k, sorted=False).values.min().clamp(min=1)
    above = (key > least).nonzero().flatten()
    ties = (key == least).nonzero().flatten()[:k - above.numel()]
    return torch.cat([above, ties]).sort().values


def first_nonfinite(places: Sequence[Place], border: Border) -> Optional[int]:
    """Where in the vector the first NaN or infinity is. A byte for each place crosses,
    and 8 more if there is one."""
    good = border.to_host(torch.stack([torch.isfinite(p.at).all() for p in places]))
    bad = [p for p, fine in zip(places, good) if not fine]
    if not bad:
        return None
    first = min(bad, key=lambda p: p.begin)
    return first.begin + int(border.to_host(
        torch.isfinite(first.at).logical_not().nonzero()[0, 0]))


def put(places: Sequence[Place], index: np.ndarray, value: np.ndarray,
        border: Border) -> None:
    """Replaces the places with these entries of the vector, whose positions ascend, and
    zeros."""
    at, values = border.to_device(index.view(np.int32)).long(), border.to_device(value)
    for place in places:
        begin, end = np.searchsorted(index, [place.begin, place.begin + place.at.numel()])
        place.at.zero_()
        place.at.index_copy_(0, at[begin:end] - place.begin,
                             values[begin:end].to(place.at.dtype))


def add(vector: torch.Tensor, index: np.ndarray, value: np.ndarray, border: Border) -> None:
    """Adds entries one after the other. Where a position comes again, the next addition
    begins, so that sums round as they do on the host."""
    at, values = border.to_device(index.view(np.int32)).long(), border.to_device(value)
    again = (np.flatnonzero(index[1:] <= index[:-1]) + 1).tolist()
    for begin, end in zip([0, *again], [*again, len(index)]):
        vector.index_add_(0, at[begin:end], values[begin:end])


# ---- the sync --------------------------------------------------------------------


class DeviceSync(Sync):
    """A Sync whose residual is on a device, if its spec can do with that (`residual` is
    None if not). The library's own residual is not used."""

    def __init__(self, layout: LayoutLike, spec: str, comm: Comm, device: torch.device, *,
                 nonfinite: str = "stop", seed: int = 0):
        self.residual: Optional[torch.Tensor] = None
        super().__init__(layout, spec, comm, nonfinite=nonfinite, seed=seed)
        self.border = Border(device)
        self._looks = nonfinite != "ignore"
        if self.takes_entries and self.floats <= _MOST:
            self.residual = torch.zeros(self.floats, device=device)

    @property
    def by_entries(self) -> bool:
        """Whether the next step is one of entries."""
        return self.residual is not None and self.entries_due > 0

    @torch.no_grad()
    def step(self, places: Sequence[Place]) -> bool:
        """Does what gradient() does for a vector that lies in these places."""
        index, value = self._choose(places)
        assert self.residual is not None
        residual, border = self.residual, self.border
        result = self.entries(index, value, lambda at, kept: add(residual, at, kept, border))
        if result is None:
            return False
        put(places, *result, border)
        return True

    def _choose(self, places: Sequence[Place]) -> Tuple[np.ndarray, np.ndarray]:
        """What this worker sends: the first bad number alone, or the largest entries,
        which leave the residual."""
        assert self.residual is not None
        bad = first_nonfinite(places, self.border) if self._looks else None
        if bad is not None:
            return np.array([bad], np.uint32), np.array([np.nan], np.float32)
        for place in places:
            self.residual[place.begin:place.begin + place.at.numel()].add_(place.at)
        at = largest(self.residual, self.entries_due)
        index = self.border.to_host(at.int()).view(np.uint32)
        value = self.border.to_host(self.residual[at])
        self.residual.index_fill_(0, at, 0)
        return index, value

    # ---- what there is to know, and states -----------------------------------------

    def residual_norm(self) -> float:
        if self.residual is None:
            return super().residual_norm()
        return float(torch.linalg.vector_norm(self.residual, dtype=torch.float64))

    def state_dict(self) -> Dict[str, Any]:
        held = super().state_dict()
        if self.residual is not None:
            vector = self.residual.cpu().numpy().copy()
            held["residual"] = {p.name: vector[p.offset:p.offset + p.size].reshape(p.shape)
                                for p in self.parts}
        return held

    def _replace(self, parts: List[Part], load: List[Tuple[int, int, np.ndarray]]) -> None:
        super()._replace(parts, load)
        if self.residual is None:
            return
        held = super().state_dict()["residual"]
        vector = np.concatenate([np.ravel(held[p.name]) for p in self.parts])
        self.residual.copy_(torch.from_numpy(vector))
