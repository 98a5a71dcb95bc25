# SPDX-License-Identifier: Apache-2.0
"""recording.py - builds and runs tests/sync/oracle_driver.c, reads what it wrote, and
knows the gradients that it makes up."""
import functools
import os
import pathlib
import re
import subprocess

import numpy as np

START, CURVE, HOME, NOISE = range(4)  # What a random number is for, as in the driver.
RATE = np.float32(0.05)
MAGIC = 0x524F5747
ABSENT = 3


class Absent(Exception):
    """The library does not have the spec."""


class Layout:
    """The tensors of a model, one after the other in a flat vector."""

    def __init__(self, shapes):
        self.shapes = [(int(rows), int(cols)) for rows, cols in shapes]
        sizes = [rows * cols for rows, cols in self.shapes]
        ends = np.cumsum(sizes)
        self.slices = [slice(int(e - s), int(e)) for e, s in zip(ends, sizes)]
        self.n = int(ends[-1])

    def columns(self):
        """A number for every coordinate, the same for those of one matrix column."""
        first, numbers = 0, []
        for rows, cols in self.shapes:
            numbers.append(np.tile(first + np.arange(cols), rows))
            first += cols
        return np.concatenate(numbers)


class Recording:
    """What a run of the driver did: arrays of steps x workers x floats."""

    def __init__(self, blob):
        magic, self.workers, self.steps, tensors = np.frombuffer(blob, "<u4", 4).tolist()
        if magic != MAGIC:
            raise ValueError("not a recording")
        self.layout = Layout(np.frombuffer(blob, "<u4", 2 * tensors, 16).reshape(-1, 2))
        n, at = self.layout.n, 16 + 8 * tensors
        self.start = np.frombuffer(blob, "<f4", n, at)
        record = np.dtype([("bytes", "<u8", 2), ("vectors", "<f4", (4, n))])
        records = np.frombuffer(blob, record, self.steps * self.workers, at + 4 * n)
        at += 4 * n + records.nbytes
        records = records.reshape(self.steps, self.workers)
        finish = np.frombuffer(blob, [("bytes", "<u8"), ("model", "<f4", n)], -1, at)
        self.finish, self.finish_bytes = finish["model"], finish["bytes"]
        self.gradient_bytes = records["bytes"][:, :, 0]
        self.model_bytes = records["bytes"][:, :, 1]
        vectors = records["vectors"]
        self.gradient, self.update = vectors[:, :, 0], vectors[:, :, 1]
        self.before, self.after = vectors[:, :, 2], vectors[:, :, 3]


def cached(build, name, fallback):
    """A setting of the build directory."""
    text = (pathlib.Path(build) / "CMakeCache.txt").read_text()
    found = re.search(rf"^{name}:\w+=(.+)$", text, re.MULTILINE)
    return found.group(1) if found else fallback


def build_driver(source, build, out):
    """Compiles the driver as the library was compiled, and returns its path."""
    command = [cached(build, "CMAKE_C_COMPILER", "cc"), "-std=gnu11", "-O2",
               "-ffp-contract=off", f"-I{source}/include",
               f"{source}/tests/sync/oracle_driver.c", f"{build}/libgradwire.a",
               "-lm", "-lpthread", "-o", str(out)]
    sanitizers = cached(build, "GRADWIRE_SANITIZE", "")
    if sanitizers:
        command.append(f"-fsanitize={sanitizers}")
    subprocess.run(command, check=True)
    return out


def record(driver, spec, workers, steps, seed=1, model="small", words=()):
    """Runs spec and returns the recording. Raises Absent, or RuntimeError with what
    the driver said."""
    path = f"{driver}.{os.getpid()}.bin"
    command = [str(driver), spec, str(workers), str(steps), str(seed), path, model, *words]
    ran = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=120)
    if ran.returncode == ABSENT:
        raise Absent(ran.stderr.strip())
    if ran.returncode != 0:
        raise RuntimeError(ran.stderr.strip() or f"exit status {ran.returncode}")
    recording = Recording(pathlib.Path(path).read_bytes())
    os.unlink(path)
    return recording


def mix(x):
    """The driver's mixer, on arrays of 32-bit integers."""
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))


@functools.lru_cache(maxsize=256)
def unit(n, *key):
    """n floats from 0 to below 1; key is the seed, the use, the worker, the step."""
    word = np.zeros(1, np.uint32)
    for part in key:
        word = mix(word + np.uint32(part))
    bits = mix(mix(np.arange(n, dtype=np.uint32) + word) + word) >> np.uint32(8)
    return bits.astype(np.float32) * np.float32(2.0**-24)


def start_of(n, seed):
    """The model that all workers begin with."""
    return unit(n, seed, START, 0, 0) - np.float32(0.5)


def gradient_of(x, seed, worker, step, words=(), start=None):
    """The gradient that the driver computes at the model x, bit for bit."""
    n, f = len(x), np.float32
    fixed = "fixed" in words
    c = unit(n, seed, CURVE, worker, 0)
    e = unit(n, seed, NOISE, worker, 0 if fixed else step) - f(0.5)
    a = f(0.1) + f(0.9) * (c * c * c)
    from_home = (start if fixed else x) - (unit(n, seed, HOME, worker, 0) - f(0.5))
    g = a * from_home + f(4.0) * (e * e * e)
    if "grid" in words:
        g = np.floor(g * f(8.0)) * f(0.125)
    g[5::16] = 0
    if "few" in words:
        g[np.arange(n) % 64 // 2 != 3 + worker // 2] = 0
    if any(w.startswith("drain=") and step >= int(w[6:]) for w in words):
        g[:] = 0
    return g
