#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The examples run under torchrun on two processes, and what gradwire adds to plain DDP
is five lines."""
import difflib
import os
import socket
import subprocess
import sys
import tempfile

from torch_crew import skip_without

skip_without("numpy", "torch")
import torch_example

EXAMPLES = os.path.join(os.environ["GRADWIRE_SOURCE"], "python", "examples")


def run(script, data, *arguments):
    """How good the model is that the script has trained."""
    out = torch_example.run(os.path.join(EXAMPLES, script), 2, data, "--data-dir", data,
                            "--epochs", "2", "--batch", "16", *arguments)
    return float(out.split("accuracy ")[1].split()[0])


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
        torch_example.make_images(data)
        plain = run("plain_ddp.py", data)
        assert plain > 0.9, plain
        sparse = run("mnist_ddp.py", data, "--sync", "gtopk:0.1")
        assert sparse > 0.9, sparse
        alone = run("plain_module.py", data, "--sync", "gtopk:0.1", "--accumulate", "2",
                    "--lr", "0.2")
        assert alone > 0.9, alone


def test_without_torch_distributed():
    """Two processes that meet at a port."""
    with tempfile.TemporaryDirectory() as data, socket.socket() as finder:
        torch_example.make_images(data)
        finder.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{finder.getsockname()[1]}"
        finder.close()
        command = [sys.executable, os.path.join(EXAMPLES, "plain_module.py"), "--data-dir",
                   data, "--meet", where, "--batch", "16", "--epochs", "2"]
        workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(
            os.environ, RANK=str(r), WORLD_SIZE="2", GRADWIRE_SECRET="not so secret",
            OMP_NUM_THREADS="1")) for r in range(2)]
        said = [w.communicate()[0] for w in workers]
        print(said[0])
        assert [w.returncode for w in workers] == [0, 0]
        assert float(said[0].split("accuracy ")[1]) > 0.9


if __name__ == "__main__":
    test_five_lines()
    test_they_run()
    test_without_torch_distributed()
