#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The source archive of the Python package builds without a network, by a C compiler and
nothing else; the package is used far from the source tree, and what it imports is little."""
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile

from source_copy import copy_source
from torch_crew import skip_without

skip_without("numpy", "pip", "setuptools", "wheel")

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
# Loading either takes longer than all else that starting a small program needs.
FEW = """
import gradwire
assert not {"numpy", "torch"} & set(sys.modules), "importing gradwire imports more than itself"
assert "Sync" in dir(gradwire) + gradwire.__all__ and gradwire.Sync
"""
# The library of groups and the package have one libgradwire.so, or the message would be lost.
JOIN = """
import gradwire
try:
    gradwire.join("tcp://127.0.0.1:1", key="a key for this very test", timeout=1)
except (ImportError, gradwire.PeerError) as error:
    print(error)
"""
PACK = """
from setuptools import build_meta
print(build_meta.build_sdist("packed"))
"""


def clean():
    """The environment of somebody who knows nothing of this source tree."""
    return {k: v for k, v in os.environ.items()
            if k not in ("PYTHONPATH", "GRADWIRE_BUILD", "GRADWIRE_LIBRARY")}


def run(*command, fails=0, path=None, **settings):
    env = dict(clean(), **({"PATH": path} if path else {}))
    result = subprocess.run(command, env=env, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, **settings)
    if result.returncode != fails:
        print(result.stdout)
        sys.exit(f"{' '.join(command[:5])} ... ended with {result.returncode}")
    return result.stdout


def only_a_compiler(directory):
    """A folder of programs for PATH."""
    os.mkdir(directory)
    for tool in ("cc", "as", "ld"):
        os.symlink(shutil.which(tool), os.path.join(directory, tool))
    return directory


with tempfile.TemporaryDirectory() as directory:
    source, target = os.path.join(directory, "source"), os.path.join(directory, "installed")
    os.mkdir(source)
    copy_source(source)
    packed = os.path.join(source, "packed", run(
        sys.executable, "-c", PACK, cwd=source).split()[-1])
    packed = shutil.move(packed, directory)
    shutil.rmtree(source)
    with tarfile.open(packed) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"CMakeLists.txt", "cmake/GradwireTrain.cmake", "cli/main.c", "report/package.json",
            "include/gradwire.h"} <= names, names
    run(sys.executable, "-m", "pip", "install", "--no-build-isolation", "--no-deps",
        "--no-index", "--disable-pip-version-check", "--root-user-action=ignore",
        "--target", target, packed, cwd=directory,
        path=only_a_compiler(os.path.join(directory, "tools")))
    for program in (USE, FEW):
        there = "import sys; sys.path.insert(0, sys.argv[1]);" + program
        print(run(sys.executable, "-c", there, target, cwd="/"))
    files = set(os.listdir(os.path.join(target, "gradwire")))
    assert {"libgradwire.so", "py.typed", "torch_hook.py"} <= files, files
    joined = run(sys.executable, "-c", f"import sys; sys.path.insert(0, {target!r});" + JOIN, cwd="/")
    assert ("nobody answers" if "libgradwire-group.so" in files else "libssl-dev") in joined, joined
    has_openssl = subprocess.run(["cc", "-E", "-include", "openssl/ssl.h", "-x", "c", os.devnull],
                                 capture_output=True).returncode == 0
    assert has_openssl == ("libgradwire-group.so" in files), files
    said = run(sys.executable, "-c", f"import sys; sys.path.insert(0, {target!r});"
               "from gradwire._library import main; main()", fails=1, cwd="/")
    assert "no command (CMake was missing)" in said, said
