# SPDX-License-Identifier: Apache-2.0
"""Trouble that one worker has in attach() is raised on all: nobody waits in vain.

Workers talk through the process group that the model has anyway, or through a comm that
they have already. What travels there is bytes of a bounded length; nothing is unpickled.
"""
from __future__ import annotations

import contextlib
from typing import Any, Iterator, List, Optional

import torch
import torch.distributed as dist

from ..comm import Comm
from ..errors import DataError, GradwireError, PeerError
from ..joining.handshake import clean

_MOST = 1 << 16


class Agreement:
    """`with` it, to catch what is wrong here; then raise_on_all()."""

    def __init__(self, rank: int, workers: int):
        self.rank = rank
        self.workers = workers
        self._trouble: Optional[BaseException] = None

    def exchange(self, mine: bytes) -> List[bytes]:
        """Everybody's bytes, in the order of ranks."""
        raise NotImplementedError

    def __enter__(self) -> Agreement:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        self._trouble = error if isinstance(error, Exception) else None
        return self._trouble is not None

    def raise_on_all(self) -> None:
        mine = "" if self._trouble is None else self._said(self._trouble)
        said = self.exchange(mine.encode(errors="replace")[:_MOST])
        if self._trouble is not None:
            raise self._trouble
        for rank, text in enumerate(said):
            if text:
                raise GradwireError(f"worker {rank} cannot attach: "
                                    f"{clean(text.decode(errors='replace'))}")

    @staticmethod
    def _said(error: BaseException) -> str:
        return " ".join(str(error).split()) or type(error).__name__

    @contextlib.contextmanager
    def telling(self, comm: Comm) -> Iterator[None]:
        """For what is done once there is a comm: trouble is told to those who wait there."""
        try:
            yield
        except Exception as error:
            comm.fail(f"worker {self.rank} cannot attach: {self._said(error)}")
            raise


class CommAgreement(Agreement):
    def __init__(self, comm: Comm):
        super().__init__(comm.rank, comm.workers)
        self._comm = comm

    def exchange(self, mine: bytes) -> List[bytes]:
        return self._comm.allgather(mine, limit=_MOST)


class GroupAgreement(Agreement):
    def __init__(self, group: Any, device: Any):
        super().__init__(dist.get_rank(group), dist.get_world_size(group))
        self.group = group
        self._device = device if dist.get_backend(group) == "nccl" else "cpu"

    def exchange(self, mine: bytes) -> List[bytes]:
        """Everybody's bytes, in the order of ranks."""
        lengths = self._gather(torch.tensor([len(mine)], dtype=torch.int64))
        most = max(int(n) for n in lengths)
        for rank, n in enumerate(lengths):
            if not 0 <= int(n) <= _MOST:
                raise DataError(f"worker {rank} announces {int(n)} bytes, expected at most "
                                f"{_MOST}")
        padded = torch.zeros(max(most, 1), dtype=torch.uint8)
        padded[:len(mine)] = torch.tensor(list(mine), dtype=torch.uint8)
        return [bytes(data[:int(n)].tolist())
                for n, data in zip(lengths, self._gather(padded))]

    def _gather(self, mine: torch.Tensor) -> List[torch.Tensor]:
        mine = mine.to(self._device)
        everybody = [torch.zeros_like(mine) for _ in range(self.workers)]
        try:
            dist.all_gather(everybody, mine, group=self.group)
        except RuntimeError as error:
            raise PeerError("a worker is gone or did not call attach(); the process group "
                            f"reports: {clean(str(error).splitlines()[0])}") from None
        return [tensor.cpu() for tensor in everybody]
