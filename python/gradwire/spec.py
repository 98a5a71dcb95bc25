# SPDX-License-Identifier: Apache-2.0
"""Questions about a spec that need no workers."""
from __future__ import annotations

import ctypes
import re

from ._api import check, lib
from .errors import SpecError

# Recipes that exchange models, after the optimizer's step.
MODEL_RECIPES = frozenset({"local", "oneshot", "spa", "pqasgd"})
# Those that keep what they do not send of a gradient.
DELAYING_RECIPES = frozenset({"topk", "gtopk", "drop"})


def check_spec(spec: str) -> str:
    """The spec with every default written out; SpecError says which word is wrong."""
    if not isinstance(spec, str):
        raise TypeError(f"a spec is text such as 'gtopk:0.001', not {type(spec).__name__}")
    canonical = ctypes.create_string_buffer(256)
    check(lib.gw_spec_check(spec.encode(), canonical, len(canonical)))
    return canonical.value.decode()


def is_spec(spec: str) -> bool:
    try:
        check_spec(spec)
    except SpecError:
        return False
    return True


def needs_optimizer(spec: str) -> bool:
    """Whether models are exchanged, for which the optimizer's step must be known."""
    canonical = check_spec(spec)
    name = re.split("[:+,]", canonical, maxsplit=1)[0]
    resync = re.search(r"resync=(\d+)", canonical)
    return name in MODEL_RECIPES or (resync is not None and int(resync.group(1)) > 0)


def delays(canonical: str) -> bool:
    """Whether entries of a gradient may be sent many steps after they arose, and the spec
    has no momentum of its own that knows of it."""
    first = canonical.split("+")[0]
    name, _, settings = first.partition(":")
    everything = {"density=1", "rate=0", "residual=off"} & set(settings.split(","))
    return name in DELAYING_RECIPES and not everything and "+momentum:" not in canonical
