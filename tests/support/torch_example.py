#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs an example of python/examples under torchrun, on data that it learns in seconds.

    torch_example.py python/examples/mnist_ddp.py 4

Of the options in SMALL an example gets those that its text names.
"""
import ast
import gzip
import os
import random
import subprocess
import sys
import tempfile
import time

from torch_crew import skip_without

SMALL = {"--epochs": "2", "--steps": "20", "--batch": "16", "--least": "1", "--longest": "8",
         "--embedding": "24", "--hidden": "24"}
# What PyTorch 2.13 says when it aborts at the end of a process because one of its threads
# still runs: now and then on a busy machine, also in the examples without gradwire.
ABORTED = "terminate called without an active exception"
WORDS = "red green blue one two three house tree cat dog".split()
TEST = "test_2016_flickr"


def write_idx(path, array):
    import numpy as np
    with open(path, "wb") as f:
        f.write(bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes())
        f.write(array.tobytes())


def make_images(directory):
    """Images that are bright in the tenth that their label says."""
    import numpy as np
    rng = np.random.default_rng(1)
    for part, n in (("train", 640), ("t10k", 300)):
        labels = rng.integers(0, 10, n).astype(np.uint8)
        images = rng.integers(0, 60, (n, 28, 28)).astype(np.uint8)
        for image, label in zip(images, labels.tolist()):
            image.reshape(-1)[78 * label:78 * label + 78] += 150
        write_idx(os.path.join(directory, f"{part}-images-idx3-ubyte"), images)
        write_idx(os.path.join(directory, f"{part}-labels-idx1-ubyte"), labels)


def make_corpus(directory, train=400, test=40):
    """A translation that replaces every word by its partner."""
    rng = random.Random(1)
    for part, n, opener, end in (("train", train, gzip.open, ".gz"), (TEST, test, open, "")):
        lines = [rng.choices(WORDS, k=rng.randint(2, 6)) for _ in range(n)]
        with opener(os.path.join(directory, f"{part}.en{end}"), "wt") as f:
            f.writelines(" ".join(words) + "\n" for words in lines)
        with opener(os.path.join(directory, f"{part}.de{end}"), "wt") as f:
            f.writelines(" ".join(w[::-1] for w in words) + "\n" for words in lines)


def run(script, workers, directory, *arguments, python=sys.executable, env=os.environ):
    """What the script prints, and how long it took. Redirecting is what lets the torchrun of
    PyTorch 1.13 run on Python 3.11; the port is any that is free."""
    command = [python, "-m", "torch.distributed.run", "--nproc_per_node",
               str(workers), "--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0",
               "--redirects", "1", "--tee", "1", "--log_dir", directory, script, *arguments]
    env = dict(env, OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
    for _ in range(3):
        begin = time.monotonic()
        out = subprocess.run(command, env=env, cwd=directory, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
        print(out.stdout)
        print(f"{os.path.basename(script)}, {workers} processes: {time.monotonic() - begin:.1f} s",
              flush=True)
        if out.returncode == 0 or ABORTED not in out.stdout:
            break
    assert out.returncode == 0, f"{script} ended with {out.returncode}"
    return out.stdout


def imported(tree):
    """The modules that a script names at its top."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module.split(".")[0]


def main(script, workers):
    with open(script) as f:
        text = f.read()
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    skip_without("numpy", *imported(ast.parse(text)))
    with tempfile.TemporaryDirectory() as directory:
        make_images(directory)
        make_corpus(directory)
        small = dict(SMALL, **{"--data-dir": directory})
        named = [word for option in small if f'"{option}"' in text
                 for word in (option, small[option])]
        run(os.path.abspath(script), workers, directory, *named)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
