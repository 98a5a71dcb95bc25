# SPDX-License-Identifier: Apache-2.0
"""A run directory of a training in PyTorch, as `gradwire train` writes one (docs/runs.md),
so that `gradwire report` shows both.

gradwire sees steps, bytes and seconds by itself. The loss and results of evaluations are
what the training loop tells handle.record(). What nobody tells is null.
"""
from __future__ import annotations

import json
import os
import time
from typing import Any, Dict, Optional

from .._api import isa, version

# A line for each so many steps, besides those with results of evaluations.
EVERY = 10

_TOLD = ("epoch", "loss", "test_loss", "test_accuracy", "perplexity")
_NEVER = ("test_accuracy_workers", "test_loss_workers", "perplexity_workers", "drift")


class RunLog:
    def __init__(self, directory: str, handle: Any, about: Dict[str, Any]):
        os.makedirs(directory, exist_ok=True)
        self._directory = directory
        self._handle = handle
        self._about = about
        self._begin = time.monotonic()
        self._losses: list[float] = []
        self._last: Dict[str, Any] = dict.fromkeys(_TOLD)
        self._lines = open(os.path.join(directory, "metrics.jsonl"), "w")
        self._logged = 0  # the step of the last line

    def record(self, figures: Dict[str, Any]) -> None:
        """What the training loop knows. Results of an evaluation make a line at once."""
        for name, value in figures.items():
            if name not in _TOLD:
                raise TypeError(f"record() has no '{name}'; it has " + ", ".join(_TOLD))
            if value is not None:
                self._last[name] = float(value)
        if figures.get("loss") is not None:
            self._losses.append(float(figures["loss"]))
        if any(figures.get(name) is not None for name in _TOLD[2:]):
            self._write(figures)

    def after_step(self, rate: float) -> None:
        self._about["lr_now"] = rate
        if self._handle.stats()["steps"] >= self._logged + EVERY:
            self._write({})

    def _figures(self) -> Dict[str, Any]:
        stats = self._handle.stats()
        seconds = time.monotonic() - self._begin
        parts = {f"{part}_s": stats[f"{part}_seconds"] for part in ("encode", "wait", "decode")}
        sync = sum(parts.values())
        sent = 8 * stats["bytes_sent"] / max(1, stats["steps"] * self._about["params"])
        return {"seconds": seconds, "compute_s": max(0.0, seconds - sync), "sync_s": sync,
                "eval_s": 0, **parts, "bytes_sent": stats["bytes_sent"],
                "messages_sent": stats["messages_sent"], "bits_per_param": sent,
                "residual_norm": self._handle.health()["residual_norm"],
                "skipped": stats["skipped"], "warning": self._handle.health()["warning"] or None}

    def _write(self, results: Dict[str, Any]) -> None:
        step = self._handle.stats()["steps"]
        loss = sum(self._losses) / len(self._losses) if self._losses else None
        tested = {name: self._last[name] if results.get(name) is not None else None
                  for name in _TOLD[2:]}
        line = {"step": step, "epoch": self._last["epoch"], "loss": loss,
                "lr": self._about.get("lr_now"), **self._figures(),
                "evaluated": "test" if any(v is not None for v in tested.values()) else None,
                **tested, **dict.fromkeys(_NEVER)}
        self._lines.write(json.dumps(line) + "\n")
        self._lines.flush()
        self._logged, self._losses = step, []

    def end(self, stopped: bool = False) -> None:
        """Writes the summary, again after more steps."""
        stats, figures = self._handle.stats(), self._figures()
        if stats["steps"] > self._logged:
            self._write({})
        about = {k: v for k, v in self._about.items() if k != "lr_now"}
        summary = {**about, "steps": stats["steps"], "epochs": self._last["epoch"],
                   "augment": None, "link": None, "test_samples": None, "isa": isa(),
                   "wall_s": figures.pop("seconds"), **figures,
                   "bytes_received": stats["bytes_received"], "mass_lost": None,
                   "train_loss": self._last["loss"],
                   **{name: self._last[name] for name in _TOLD[2:]},
                   **dict.fromkeys(_NEVER), "stopped": stopped, "model_hash": None,
                   "version": version()}
        path = os.path.join(self._directory, "summary.json")
        with open(path + ".new", "w") as f:
            json.dump(summary, f, indent=2)
            f.write("\n")
        os.replace(path + ".new", path)

    def close(self) -> None:
        self._lines.close()


def about_of(sync: Any, asked: str, model: Any, optimizer: Any, seed: int) -> Dict[str, Any]:
    """What is known of a training when it begins."""
    values: Dict[str, Any] = optimizer.param_groups[0] if optimizer is not None else {}
    advised: Optional[str] = sync.asked if sync.asked != asked else None
    return {"model": type(model).__name__, "data": "pytorch", "sync": sync.spec,
            "sync_asked": asked, "sync_advised": advised, "workers": sync.comm.workers,
            "params": sync.floats, "seed": seed, "batch": None,
            "lr": _number(values.get("lr")), "momentum": _number(values.get("momentum")),
            "weight_decay": _number(values.get("weight_decay")),
            "nesterov": bool(values.get("nesterov", False)),
            "optimizer": type(optimizer).__name__.lower() if optimizer is not None else None,
            "transport": sync.comm.transport}


def _number(value: Any) -> Optional[float]:
    return None if value is None else float(value)
