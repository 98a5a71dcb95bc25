#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`pip install ./python` into a directory, and the package used from there: with the
library that pip built, far from the source tree."""
import os
import shutil
import subprocess
import sys
import tempfile

from torch_crew import skip_without

skip_without("numpy", "pip", "setuptools", "wheel")
SOURCE = os.environ["GRADWIRE_SOURCE"]

USE = """
import gradwire, numpy, os, sys
from gradwire import _library
assert gradwire.__file__.startswith(sys.argv[1]), gradwire.__file__
assert str(_library.candidates()[0]).startswith(sys.argv[1])
with gradwire.LocalGroup(1).join(0) as comm:
    g = numpy.arange(5, dtype=numpy.float32)
    assert gradwire.Sync(5, "dense", comm).gradient(g)
    assert g.tolist() == [0, 1, 2, 3, 4]
print(gradwire.__version__, gradwire.isa())
"""


def clean():
    """The environment of somebody who knows nothing of this source tree."""
    return {k: v for k, v in os.environ.items()
            if k not in ("PYTHONPATH", "GRADWIRE_BUILD", "GRADWIRE_LIBRARY")}


def run(*command, **settings):
    result = subprocess.run(command, env=clean(), stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, **settings)
    if result.returncode != 0:
        print(result.stdout)
        sys.exit(f"{' '.join(command[:5])} ... ended with {result.returncode}")
    return result.stdout


with tempfile.TemporaryDirectory() as directory:
    # A copy, so that nothing is left in the tree and tests can run side by side.
    for part in ("python", "include", "src"):
        shutil.copytree(os.path.join(SOURCE, part), os.path.join(directory, part),
                        ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    target = os.path.join(directory, "installed")
    run(sys.executable, "-m", "pip", "install", "--no-build-isolation", "--no-deps",
        "--no-index", "--disable-pip-version-check", "--root-user-action=ignore",
        "--target", target, "./python", cwd=directory)
    shutil.rmtree(os.path.join(directory, "src"))
    env_use = "import sys; sys.path.insert(0, sys.argv[1]);" + USE
    print(run(sys.executable, "-c", env_use, target, cwd="/"))
    files = set(os.listdir(os.path.join(target, "gradwire")))
    assert {"libgradwire.so", "py.typed", "torch_hook.py"} <= files, files
