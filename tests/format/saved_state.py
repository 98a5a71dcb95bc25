# SPDX-License-Identifier: Apache-2.0
"""saved_state.py - the state of a sync, as docs/format-files.md has it."""
from bytes_and_checks import Parts, fnv1a, require

VECTORS = {0: "residual", 1: "velocity", 2: "reference", 3: "mean", 4: "rate", 5: "scale",
           8: "factor", 9: "last", 10: "estimate", 11: "pending", 12: "waiting", 13: "before"}
COUNTERS = ("steps", "skipped", "bytes_sent", "bytes_received", "messages_sent",
            "messages_received")


def read_state(data, quick=False, factor_floats=0):
    """The fields of a state, by name. quick leaves out the check, which takes long here."""
    parts, state = Parts(data), {}
    require(parts.take(8) == b"GWSTATE1", "not a state")
    state["n"], held, state["step"], *state["phase"] = parts.numbers("5Q")
    state.update(zip(COUNTERS, parts.numbers("6Q")))
    state["started"], state["lost"], state["applied"] = parts.numbers("Qdd")
    text = parts.take(256)
    state["spec"] = text.split(b"\0")[0].decode("ascii")
    require(text == state["spec"].encode().ljust(256, b"\0"), "the spec is not filled up with 0")
    require(held & ~sum(1 << bit for bit in VECTORS) == 0, f"vectors {held}")
    for bit, name in VECTORS.items():
        count = {"rate": 1, "scale": 1, "factor": factor_floats, "waiting": 6}.get(name, state["n"])
        state[name] = parts.floats(count) if held >> bit & 1 else None
    check, = parts.numbers("Q")
    parts.end()
    require(quick or check == fnv1a(data[:-8]), "the check of a state does not fit")
    return state
