#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The examples run under torchrun on two processes, and what gradwire adds to plain DDP
is five lines."""
import difflib
import os
import subprocess
import sys
import tempfile

from torch_crew import skip_without

skip_without("numpy", "torch")
import numpy as np

EXAMPLES = os.path.join(os.environ["GRADWIRE_SOURCE"], "python", "examples")


def write_idx(path, array):
    with open(path, "wb") as f:
        f.write(bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes())
        f.write(array.tobytes())


def make_data(directory):
    """Images that are bright in the tenth that their label says."""
    rng = np.random.default_rng(1)
    for part, n in (("train", 640), ("t10k", 300)):
        labels = rng.integers(0, 10, n).astype(np.uint8)
        images = rng.integers(0, 60, (n, 28, 28)).astype(np.uint8)
        for image, label in zip(images, labels):
            image.reshape(-1)[78 * label:78 * label + 78] += 150
        write_idx(os.path.join(directory, f"{part}-images-idx3-ubyte"), images)
        write_idx(os.path.join(directory, f"{part}-labels-idx1-ubyte"), labels)


def run(script, data, *arguments):
    """What the script prints. Redirecting is what lets the torchrun of PyTorch 1.13 run
    on Python 3.11; the port is any that is free."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2",
               "--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0",
               "--redirects", "1", "--tee", "1", "--log_dir", data,
               os.path.join(EXAMPLES, script), "--data-dir", data, "--epochs", "2",
               "--batch", "16", *arguments]
    env = dict(os.environ, OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
    out = subprocess.run(command, env=env, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True)
    print(out.stdout)
    assert out.returncode == 0, f"{script} ended with {out.returncode}"
    return float(out.stdout.split("accuracy ")[1].split()[0])


def code_of(script):
    """Its lines without the text at its top."""
    with open(os.path.join(EXAMPLES, script)) as f:
        return f.read().split('"""')[2].splitlines()


def test_five_lines():
    changes = [line for line in difflib.ndiff(code_of("plain_ddp.py"), code_of("mnist_ddp.py"))
               if line[:2] in ("+ ", "- ")]
    assert len(changes) == 5 and all(line[0] == "+" for line in changes), changes


def test_they_run():
    with tempfile.TemporaryDirectory() as data:
        make_data(data)
        plain = run("plain_ddp.py", data)
        assert plain > 0.9, plain
        sparse = run("mnist_ddp.py", data, "--sync", "gtopk:0.1")
        assert sparse > 0.9, sparse


if __name__ == "__main__":
    test_five_lines()
    test_they_run()
