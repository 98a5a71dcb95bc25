#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""README's lines for PyTorch, run as they are printed in a copy of the source tree, and the
same lines on the pages that repeat them.

What differs from a reader's machine: the lines that begin with sudo are left out, the new
environment sees this one's PyTorch instead of downloading it, and the images are small."""
import os
import re
import subprocess
import sys
import sysconfig
import tempfile

import torch_crew

torch_crew.skip_without_torch2("pip", "setuptools")
import torch_example
from source_copy import copy_source

SOURCE = os.environ["GRADWIRE_SOURCE"]
NO_INDEX = re.compile("No matching distribution found for (setuptools|wheel)")
# torchrun without port 29500, which another test may use; its options come from PET_NAME, too.
QUIET = {"PET_RDZV_BACKEND": "c10d", "PET_RDZV_ENDPOINT": "localhost:0", "GLOO_SOCKET_IFNAME": "lo",
         "OMP_NUM_THREADS": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1",
         "GRADWIRE_COMMAND": "off"}  # test_torch2_wheel.py builds and runs the command


def lines_of(page, heading):
    """The lines of the first block of shell below a heading, without their comments."""
    with open(os.path.join(SOURCE, page), encoding="utf-8") as f:
        section = f.read().split(f"\n## {heading}\n")[1]
    block = re.search(r"```sh\n(.*?)```", section, flags=re.S)[1]
    return [re.sub(r"\s+# .*", "", line) for line in block.splitlines()]


def test_same_lines():
    readme = lines_of("README.md", "Use it in PyTorch")
    assert [line.split()[0] for line in readme] == ["sudo", "python3", ".venv/bin/pip",
                                                    ".venv/bin/torchrun"], readme
    assert lines_of("docs/pytorch.md", "Install") == readme
    two_pcs = lines_of("docs/two-pcs.md", "Install on both")
    assert set(readme[1:3]) <= set(two_pcs), two_pcs
    packages = set(readme[0].split()) - {"sudo", "apt-get", "install"}
    assert {"build-essential", "python3-venv"} < packages <= set(two_pcs[0].split()), packages
    return readme[1:]


def run(line, directory, env):
    done = subprocess.run(["sh", "-c", line], cwd=directory, env=env, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(f"$ {line}\n{done.stdout}", flush=True)
    if done.returncode and NO_INDEX.search(done.stdout):
        print("skipped: pip finds no setuptools or wheel to build with, perhaps for want of a network")
        sys.exit(77)
    assert done.returncode == 0, f"'{line}' ended with {done.returncode}"
    return done.stdout


def lend_torch(venv):
    """As if `pip install torch` had been there already."""
    site, = (os.path.join(venv, "lib", name, "site-packages")
             for name in os.listdir(os.path.join(venv, "lib")))
    with open(os.path.join(site, "shared.pth"), "w") as f:
        f.write(sysconfig.get_path("purelib") + "\n")
    torchrun = os.path.join(venv, "bin", "torchrun")
    with open(torchrun, "w") as f:
        f.write('#!/bin/sh\nexec "${0%torchrun}python" -m torch.distributed.run "$@"\n')
    os.chmod(torchrun, 0o755)


def test_they_run(make_venv, install, train):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("GRADWIRE", "PYTHON"))}
    env["PATH"] = os.path.dirname(sys.executable) + os.pathsep + env["PATH"]
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryDirectory() as data:
        copy_source(directory)
        torch_example.make_images(data)
        env.update(QUIET, GRADWIRE_DATA=data)
        run(make_venv, directory, env)
        lend_torch(os.path.join(directory, ".venv"))
        assert re.search("Successfully installed .*gradwire", run(install, directory, env))
        assert re.search(r"sent [\d.]+ MB\n.*accuracy", run(train, directory, env))


if __name__ == "__main__":
    test_they_run(*test_same_lines())
