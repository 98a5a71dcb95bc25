# SPDX-License-Identifier: Apache-2.0
"""Questions about a spec that need no workers. The library answers them, so nothing here
knows a method by name.
"""
from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Dict, Optional, Tuple

from . import _api
from ._api import KeyInfo, MemoryInfo, SpecInfo, StageInfo, check, lib


@dataclass(frozen=True)
class Key:
    """An option of a stage. fallback is its default, or None if a value is required."""
    name: str
    fallback: Optional[str]
    range: str
    meaning: str

    @property
    def required(self) -> bool:
        return self.fallback is None


@dataclass(frozen=True)
class Stage:
    """A recipe, or a stage that refines one. In cost, P is the number of workers and n the
    number of parameters."""
    name: str
    summary: str
    example: str
    cost: str
    expect: Optional[str]
    recipe: bool
    keys: Tuple[Key, ...]


@dataclass(frozen=True)
class Description:
    """What a spec does. include/gradwire_spec.h describes each field. The flags are those
    of GW_TRAIT_... with the same names."""
    spec: str
    stages: Tuple[Stage, ...]
    bytes_per_param: float  # kept from step to step
    period: int  # steps between exchanges, 0: none before finish()
    growth: float  # of growing periods, otherwise 0
    fragments: int  # of the model, each exchanged once in a period
    resync: int  # if above 0, whole models are averaged every so many steps, too
    delay: int  # steps that are computed beside an exchange
    sends_gradients: bool
    sends_models: bool
    sends_changes: bool
    keeps_equal: bool
    meets: bool
    drifts: bool
    sparse: bool
    same_coordinates: bool
    coded: bool
    gathers: bool
    overlaps: bool
    needs_model: bool
    residual: bool
    like_momentum: bool
    ends_averaged: bool
    polyak: bool
    outer_step: bool
    late: bool


@dataclass(frozen=True)
class OptimizerKind:
    """What matters about an optimizer: the values of SGD, or that it is adaptive."""
    adaptive: bool = False  # steps depend on the size of gradients so far, or on signs
    momentum: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False
    beta1: float = 0.0  # of the running mean of gradients of Adam and AdamW


@dataclass(frozen=True)
class Advice:
    """The library's advice about a spec and an optimizer."""
    spec: str             # to use; the one that was asked for if all is well
    takes_momentum: bool  # the spec has the optimizer's momentum: step without it
    reason: str           # why the spec is another; "" if it is not
    warning: str          # what it is known to cost all the same; "" if nothing is


TRAITS = {name[len("TRAIT_"):].lower(): bit for name, bit in vars(_api).items()
          if name.startswith("TRAIT_")}


def _encoded(text: str) -> bytes:
    if not isinstance(text, str):
        raise TypeError("the spec must be a string such as 'gtopk:0.001', not "
                        f"{type(text).__name__}")
    return text.encode()


def _text(text: Optional[bytes]) -> str:
    return "" if text is None else text.decode()


def _or_none(text: Optional[bytes]) -> Optional[str]:
    return None if text is None else text.decode()


def check_spec(spec: str) -> str:
    """Returns the spec with all defaults written out. Raises SpecError, which names the
    wrong word."""
    canonical = ctypes.create_string_buffer(256)
    check(lib.gw_spec_check(_encoded(spec), canonical, len(canonical)))
    return canonical.value.decode()


def _key(stage: bytes, i: int) -> Key:
    info = KeyInfo(struct_size=ctypes.sizeof(KeyInfo))
    check(lib.gw_key_describe(stage, i, info))
    return Key(_text(info.name), _or_none(info.fallback), _text(info.range),
               _text(info.meaning))


def describe_stage(name: str) -> Stage:
    """Describes the stage of that name. Raises SpecError, which suggests a similar name."""
    info = StageInfo(struct_size=ctypes.sizeof(StageInfo))
    check(lib.gw_stage_describe(_encoded(name), info))
    return Stage(_text(info.name), _text(info.summary), _text(info.example),
                 _text(info.cost), _or_none(info.expect), bool(info.recipe),
                 tuple(_key(info.name, i) for i in range(info.keys)))


def memories(spec: str) -> Dict[str, Tuple[int, int]]:
    """Returns what a spec keeps from step to step: for each memory its name, its bit in a
    saved state (ascending), and its number of floats, which is 0 if it is as long as the
    model."""
    info = SpecInfo(struct_size=ctypes.sizeof(SpecInfo))
    check(lib.gw_spec_describe(_encoded(spec), info))
    found = {}
    for i in range(info.memories):
        one = MemoryInfo(struct_size=ctypes.sizeof(MemoryInfo))
        check(lib.gw_memory_describe(_encoded(spec), i, one))
        found[_text(one.name)] = one.bit, one.floats
    return found


def describe(spec: str) -> Description:
    """Describes what a spec does, costs and keeps. Raises SpecError, which names the wrong
    word."""
    info = SpecInfo(struct_size=ctypes.sizeof(SpecInfo))
    check(lib.gw_spec_describe(_encoded(spec), info))
    stages = tuple(describe_stage(_text(name)) for name in info.stages if name is not None)
    traits = {name: bool(info.traits & bit) for name, bit in TRAITS.items()}
    return Description(spec=spec, stages=stages, bytes_per_param=info.bytes_per_param,
                       period=info.period, growth=info.growth,
                       fragments=info.fragments, delay=info.delay, resync=info.resync, **traits)


def advise(spec: str, optimizer: OptimizerKind, workers: int, steps: int = 0) -> Advice:
    """Returns the spec that does what `spec` asks for without a loss of accuracy. steps are
    those of the whole training, 0 if that is not known."""
    info = _api.OptimizerInfo(ctypes.sizeof(_api.OptimizerInfo), optimizer.adaptive,
                              optimizer.momentum, optimizer.dampening, optimizer.nesterov,
                              workers, optimizer.beta1, steps)
    advice = _api.Advice(struct_size=ctypes.sizeof(_api.Advice))
    check(lib.gw_spec_advise(_encoded(spec), info, advice))
    return Advice(_text(advice.spec), bool(advice.takes_momentum), _text(advice.reason),
                  _text(advice.warning))


def needs_optimizer(spec: str) -> bool:
    """Returns whether the spec exchanges models, for which attach() must know the
    optimizer."""
    return describe(spec).needs_model
