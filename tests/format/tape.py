# SPDX-License-Identifier: Apache-2.0
"""tape.py - builds and runs tests/wire/capture_driver.c, and reads what it wrote down."""
import collections
import os
import pathlib
import re
import struct
import subprocess

import numpy as np

import frames
from bytes_and_checks import require

TEXT, MESSAGE, STREAM, VECTOR, STATE, STATUS = range(1, 7)
NAMES = ("begin", "start", "gradient", "update", "before", "after", "last", "finish", "made")


class Run:
    """What was written down about a run."""

    def __init__(self, data):
        self.streams, self.words = {}, collections.defaultdict(list)
        messages = []
        self.vectors = collections.defaultdict(dict)  # [name, step][worker]
        self.states = collections.defaultdict(dict)   # [step][worker]
        self.statuses = collections.defaultdict(dict)  # [name, step][worker]
        for kind, a, b, c, content in records(data):
            if kind == TEXT:
                for line in content.decode().splitlines():
                    self.words[line.split(" ", 1)[0]].append(line.split(" ", 1)[1])
            elif kind == MESSAGE:
                messages.append((a, b, content))
            elif kind == STREAM:
                self.streams[a, b] = content
            elif kind == VECTOR:
                self.vectors[NAMES[c], b][a] = np.frombuffer(content, "<f4")
            elif kind == STATE:
                self.states[b][a] = content
            else:
                self.statuses[NAMES[c], b][a] = content.decode()
        self.messages = self.find_messages(messages)

    def word(self, name):
        return self.words[name][0]

    def number(self, name):
        return int(self.word(name))

    def find_messages(self, messages):
        if self.streams:
            self.ends = {pair: frames.read_stream(data) for pair, data in self.streams.items()}
            return [(*pair, body) for pair, end in self.ends.items() for body in end.messages]
        if self.number("link"):
            return without_link(messages)
        return messages

    def tensors(self):
        lines = [line.split() for line in self.words["tensor"]]
        return [(name, int(rows), int(cols)) for name, rows, cols in lines]


def records(data):
    at, head = 0, struct.Struct("<4IQ")
    while at < len(data):
        *numbers, length = head.unpack_from(data, at)
        at += head.size
        yield (*numbers, data[at:at + length])
        at += length


def without_link(messages):
    """Before each message of an emulated link there is one that says when it starts."""
    heads, bodies = {}, []
    for sender, receiver, data in messages:
        if (sender, receiver) not in heads:
            require(len(data) == 16, "not the beginning of a message of a link")
            heads[sender, receiver] = struct.unpack("<dQ", data)
        else:
            start, length = heads.pop((sender, receiver))
            require(length == len(data) and start > 0, "a link announces another message")
            bodies.append((sender, receiver, data))
    require(not heads, "a message was announced and never sent")
    return bodies


# ---- the driver -----------------------------------------------------------------

def cached(build, name, fallback):
    """A setting of the build directory."""
    text = (pathlib.Path(build) / "CMakeCache.txt").read_text()
    found = re.search(rf"^{name}:\w+=(.+)$", text, re.MULTILINE)
    return found.group(1) if found else fallback


def build_driver(source, build, out):
    """Compiles the driver as the library was compiled, and returns its path."""
    command = [cached(build, "CMAKE_C_COMPILER", "cc"), "-std=gnu11", "-O2", "-ffp-contract=off",
               f"-I{source}/include", f"-I{source}/src", f"-I{source}/tests/support",
               f"{source}/tests/wire/capture_driver.c", f"{source}/tests/wire/capture_wires.c",
               f"{build}/libgradwire.a", "-lm", "-lpthread", "-o", str(out)]
    sanitizers = cached(build, "GRADWIRE_SANITIZE", "")
    if sanitizers:
        command.append(f"-fsanitize={sanitizers}")
    subprocess.run(command, check=True)
    return out


def capture(driver, spec, workers, steps, seed, model, words=()):
    path = f"{driver}.{os.getpid()}.tape"
    command = [str(driver), spec, str(workers), str(steps), str(seed), path, model, *words]
    ran = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=120)
    if ran.returncode != 0:
        raise RuntimeError(ran.stderr.strip() or f"exit status {ran.returncode}")
    data = pathlib.Path(path).read_bytes()
    os.unlink(path)
    return Run(data)
