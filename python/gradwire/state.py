# SPDX-License-Identifier: Apache-2.0
"""The bytes of a sync's state (docs/format.md) as a dictionary, and back.

    {"version": 1, "spec": ..., "workers": 4, "step": 100, "phase": [0, 0],
     "started": 1, "stats": {"steps": 100, ...},
     "residual": {"0.weight": array, ...}, ...}

Vectors are kept by the names of the tensors, so that neither ranks nor the order in
which a framework lays out its tensors matter.
"""
from __future__ import annotations

import struct
from typing import Any, Dict, List, Mapping, Sequence, Tuple

import numpy as np

from ._api import check, lib
from .errors import DataError
from .joining.handshake import clean
from .spec import memories

MAGIC = b"GWSTATE1"
WORDS, SPEC_LEN = 15, 256
HEADER = 8 * WORDS + SPEC_LEN
COUNTERS = ("steps", "skipped", "bytes_sent", "bytes_received", "messages_sent",
            "messages_received")
# Sums that are no counts; states of before lack them.
MASSES = ("lost_mass", "applied_mass")


# The length of a memory that depends on the tensors (GW_FLOATS_BY_LAYOUT).
BY_LAYOUT = 2 ** (8 * struct.calcsize("N")) - 1


def _lengths(held: Mapping[str, Tuple[int, int]], n: int, total: int) -> Dict[str, int]:
    """The floats of each memory. One that depends on the tensors has what the others leave
    of the total."""
    known = sum(own or n for _, own in held.values() if own != BY_LAYOUT)
    return {name: total - known if own == BY_LAYOUT else own or n
            for name, (_, own) in held.items()}


def unpack(data: np.ndarray, parts: Sequence[Any], workers: int) -> Dict[str, Any]:
    words = data[:8 * WORDS].view("<u8").tolist()
    spec = data[8 * WORDS:HEADER].tobytes().rstrip(b"\0").decode()
    result: Dict[str, Any] = {
        "version": 1, "spec": spec, "workers": workers, "step": words[3],
        "phase": words[4:6],
        "stats": {**dict(zip(COUNTERS, words[6:12])),
                  **dict(zip(MASSES, data[8 * 13:8 * 15].view("<f8").tolist()))},
        "started": words[12]}
    at, held = HEADER, memories(spec)
    lengths = _lengths(held, words[1], (len(data) - HEADER - 8) // 4)
    for name, (_, own) in held.items():
        vector = data[at:at + 4 * lengths[name]].view("<f4")
        result[name] = vector if own else {
            p.name: vector[p.offset:p.offset + p.size].reshape(p.shape) for p in parts}
        at += vector.nbytes
    return result


def pack(state: Mapping[str, Any], parts: Sequence[Any]) -> np.ndarray:
    n = sum(p.size for p in parts)
    held = {name: m for name, m in memories(state["spec"]).items() if name in state}
    lengths = {name: np.size(state[name]) if own == BY_LAYOUT else own or n
               for name, (_, own) in held.items()}
    data = np.zeros(HEADER + 4 * sum(lengths.values()) + 8, np.uint8)
    words = [int.from_bytes(MAGIC, "little"), n,
             sum(1 << bit for bit, _ in held.values()), state["step"], *state["phase"],
             *(state["stats"][c] for c in COUNTERS), state["started"],
             *np.array([state["stats"].get(m, 0.0) for m in MASSES], "<f8").view("<u8")]
    data[:8 * WORDS] = np.array(words, "<u8").view(np.uint8)
    spec = state["spec"].encode()
    data[8 * WORDS:8 * WORDS + len(spec)] = np.frombuffer(spec, np.uint8)
    at = HEADER
    for name, (_, own) in held.items():
        vector = data[at:at + 4 * lengths[name]].view("<f4")
        if own:
            vector[:] = np.asarray(state[name], np.float32)
        else:
            _fill(vector, state[name], parts, name)
        at += vector.nbytes
    check(lib.gw_state_seal(data.ctypes.data, data.nbytes))
    return data


def _fill(vector: np.ndarray, tensors: Mapping[str, Any], parts: Sequence[Any],
          what: str) -> None:
    names = {p.name for p in parts}
    extra = next((name for name in tensors if name not in names), None)
    if extra is not None:
        raise DataError(f"the saved {what} has '{extra}', but the model does not")
    for p in parts:
        if p.name not in tensors:
            raise DataError(f"the saved {what} does not have '{p.name}'")
        values = np.asarray(tensors[p.name], np.float32)
        if values.size != p.size:
            raise DataError(f"'{p.name}' has {p.size} values, but its saved {what} has "
                            f"{values.size}")
        vector[p.offset:p.offset + p.size] = values.reshape(-1)


def trouble(error: Exception) -> str:
    """Returns what is wrong with a state, in one line."""
    if isinstance(error, DataError):
        return str(error)
    if isinstance(error, KeyError):
        return f"the state lacks {error}"
    return "this is no state that state_dict() has returned: " + " ".join(
        f"{error}".split())


# What workers tell each other before all of them load: u64 step, then what is wrong with
# the own state in at most 400 bytes of UTF-8, or nothing.
_STEP = struct.Struct("<Q")
ANSWER_MAX = _STEP.size + 400


def pack_answer(step: int, problem: str) -> bytes:
    return (_STEP.pack(step) + problem.encode(errors="replace"))[:ANSWER_MAX]


def unpack_answer(data: bytes, rank: int) -> Tuple[int, str]:
    if len(data) < _STEP.size:
        raise DataError(f"worker {rank} sent an invalid answer of {len(data)} bytes")
    step, = _STEP.unpack_from(data)
    return step, clean(data[_STEP.size:].decode(errors="replace"))


def step_of(data: np.ndarray) -> int:
    return int(data[24:32].view("<u8")[0])


def workers_of(states: List[Any]) -> int:
    """Returns how many workers saved these states. Raises DataError if they are not
    states."""
    if not states:
        raise DataError("there is no state to load")
    for i, s in enumerate(states):
        if not isinstance(s, Mapping) or s.get("version") != 1 or "spec" not in s:
            raise DataError(f"state {i} was not returned by state_dict()")
        if s["workers"] != states[0]["workers"] or s["step"] != states[0]["step"]:
            raise DataError(f"state {i} was not saved together with state 0")
    return int(states[0]["workers"])
