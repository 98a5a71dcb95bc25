# SPDX-License-Identifier: Apache-2.0
"""checkpoint_file.py - a checkpoint of `gradwire train`, as docs/format-files.md has it."""
import struct

import numpy as np

from bytes_and_checks import Parts, require, section_check
from saved_state import read_state

JOB = ("steps", "epoch_steps", "workers", "models", "floats", "slots", "stats", "carry", "metrics")
WORK = ("applied", "evaluated_at", "skipped", "lr", "loss_sum", "loss_count", "epoch_sum",
        "epoch_count", "loss", "accuracy", "workers_accuracy", "drift", "perplexity", "seconds",
        "computing", "syncing", "evaluating", "encoding", "waiting", "decoding", "workers_loss")


def read_sections(data):
    """Kind, worker and content of each section, in their order, without the last."""
    parts, sections, checks = Parts(data), [], []
    require(parts.take(8) == b"GWCHECK1", "not a checkpoint")
    while True:
        begin = parts.at
        kind, worker, length = parts.numbers("4sIQ")
        content = parts.take(length)
        due = section_check(data[begin:parts.at])
        check, = parts.numbers("Q")
        require(check == due, f"the check of section {kind} does not fit")
        if kind == b"END ":
            break
        sections.append((kind.decode(), worker, content))
        checks.append(struct.pack("<Q", check))
    require(worker == 0 and content == struct.pack("<QQ", len(sections),
                                                   section_check(b"".join(checks))),
            "the end of a checkpoint does not fit")
    parts.end()
    return sections


def lines_of(content):
    text = content.decode()
    require(text.endswith("\n"), "the last line does not end")
    return [line.split(" ") for line in text.splitlines()]


def read_settings(content):
    settings = {}
    for name, *value in lines_of(content):
        value = " ".join(value)
        require(settings.setdefault(name, value) == value, f"{name} has two values")
    return settings


class Checkpoint:
    def __init__(self, data):
        sections = read_sections(data)
        self.by_name = {(kind, worker): content for kind, worker, content in sections}
        self.settings = read_settings(self.by_name["SETS", 0])
        self.tensors = [(name, int(rows), int(cols))
                        for name, rows, cols in lines_of(self.by_name["TENS", 0])]
        self.job = dict(zip(JOB, struct.unpack("<9Q", self.by_name["JOB ", 0])))
        workers, models = self.job["workers"], self.job["models"]
        order = [("SETS", 0), ("TENS", 0), ("JOB ", 0)]
        if ("WIND", 0) in self.by_name:
            order.insert(2, ("WIND", 0))
            self.check_windows()
        for kind, count in (("WORK", workers), ("MODL", models), ("SLOT", models),
                            ("KEPT", workers), ("SYNC", workers)):
            order += [(kind, w) for w in range(count)]
        require([(kind, worker) for kind, worker, _ in sections] == order,
                "sections are missing, too many, or out of order")
        self.workers = [self.read_worker(w) for w in range(workers)]
        self.models = [self.vectors("MODL", w, 1)[0] for w in range(models)]
        self.slots = [self.vectors("SLOT", w, self.job["slots"]) for w in range(models)]

    def check_windows(self):
        """A number for each tensor: the width of a convolution's window, else 0."""
        widths = [int(width) for width, in lines_of(self.by_name["WIND", 0])]
        require(len(widths) == len(self.tensors), "WIND does not have a line for each tensor")
        for width, (_, _, cols) in zip(widths, self.tensors):
            require(width == 0 or cols % width ** 2 == 0, f"a window of {width} does not divide {cols}")

    def vectors(self, kind, worker, count):
        n = self.job["floats"]
        parts = Parts(self.by_name[kind, worker])
        result = [parts.floats(n) for _ in range(count)]
        parts.end()
        return result

    def read_worker(self, w):
        parts = Parts(self.by_name["KEPT", w])
        worker = dict(zip(WORK, struct.unpack("<3Q18d", self.by_name["WORK", w])))
        worker["stats"] = parts.floats(self.job["stats"])
        worker["carry"] = parts.floats(self.job["carry"])
        parts.end()
        worker["sync"] = read_state(self.by_name["SYNC", w])
        return worker

    def check(self):
        """What must hold between the sections."""
        sizes = sum(rows * cols for _, rows, cols in self.tensors)
        require(sizes == self.job["floats"], "the tensors are not the model")
        require(self.job["models"] in (1, self.job["workers"]), "so many models")
        for w, worker in enumerate(self.workers):
            sync = worker["sync"]
            require(sync["n"] == sizes and sync["spec"] == self.settings["--sync"],
                    f"the sync of worker {w} is of another job")
            require(sync["step"] == self.job["steps"] and sync["started"] == 1,
                    f"the sync of worker {w} is in another step")
            require(worker["applied"] + worker["skipped"] == self.job["steps"], "steps are missing")
        require(all(np.isfinite(x).all() for x in self.models), "a model is not finite")
