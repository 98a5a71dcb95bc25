# SPDX-License-Identifier: Apache-2.0
"""States as bytes, for workers that join: what state_dict() of an optimizer returns, and
the like. Nothing that comes from another worker is unpickled.

    u64 length of the head, little-endian
    head   JSON: numbers, texts and None as they are, everything else as [kind, content]
    bytes of the tensors, in the order of the head
"""
from __future__ import annotations

import json
import struct
from typing import Any, List

import torch

from ..errors import DataError

_LENGTH = struct.Struct("<Q")
_KINDS = {str(kind): kind for kind in (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32,
    torch.int16, torch.int8, torch.uint8, torch.bool)}


def pack(value: Any) -> bytes:
    """Raises TypeError for what is neither a number, a text, a tensor, nor made of them."""
    tensors: List[bytes] = []
    head = json.dumps(_outline(value, tensors)).encode()
    return b"".join((_LENGTH.pack(len(head)), head, *tensors))


def _outline(value: Any, tensors: List[bytes]) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, torch.Tensor) and str(value.dtype) in _KINDS:
        flat = value.detach().cpu().contiguous().reshape(-1)
        tensors.append(flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b"")
        return ["tensor", [str(value.dtype), list(value.shape)]]
    if isinstance(value, dict):
        return ["dict", [[_outline(k, tensors), _outline(v, tensors)] for k, v in value.items()]]
    if isinstance(value, (list, tuple)):
        return ["list" if isinstance(value, list) else "tuple",
                [_outline(v, tensors) for v in value]]
    raise TypeError(f"a state has a {type(value).__name__}, which cannot be given to workers "
                    "that join")


def unpack(data: bytes) -> Any:
    """Raises DataError if these are not the bytes of a state."""
    try:
        length, = _LENGTH.unpack_from(data)
        reader = _Reader(data, _LENGTH.size + length)
        value = reader.value(json.loads(data[_LENGTH.size:_LENGTH.size + length]))
    except (struct.error, ValueError, TypeError, KeyError, RecursionError) as error:
        raise DataError(f"the state that came from another worker cannot be read: {error}") from None
    if reader.at != len(data):
        raise DataError(f"the state that came from another worker has {len(data)} bytes, "
                        f"expected {reader.at}")
    return value


class _Reader:
    def __init__(self, data: bytes, at: int):
        self._data = data
        self.at = at

    def value(self, outline: Any) -> Any:
        if not isinstance(outline, list):
            return outline
        kind, content = outline
        if kind == "tensor":
            return self._tensor(_KINDS[content[0]], content[1])
        if kind == "dict":
            return {self.value(k): self.value(v) for k, v in content}
        values = [self.value(v) for v in content]
        return {"list": values, "tuple": tuple(values)}[kind]

    def _tensor(self, kind: torch.dtype, shape: List[int]) -> torch.Tensor:
        count = 1
        for n in shape:
            if type(n) is not int or n < 0:
                raise ValueError(f"a tensor has the shape {shape}")
            count *= n
        length = count * torch.empty(0, dtype=kind).element_size()
        if self.at + length > len(self._data):
            raise ValueError("it is too short for its tensors")
        begin, self.at = self.at, self.at + length
        if count == 0:
            return torch.empty(shape, dtype=kind)
        return torch.frombuffer(bytearray(self._data[begin:self.at]), dtype=kind).reshape(shape)
