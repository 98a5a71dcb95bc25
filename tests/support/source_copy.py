# SPDX-License-Identifier: Apache-2.0
"""A copy of what the Python package is built from, so that nothing is left in the source
tree and tests can run side by side."""
import os
import shutil

FOLDERS = ("python", "include", "src", "train", "cli", "bench", "group", "sim", "cmake", "report")
FILES = ("pyproject.toml", "setup.py", "MANIFEST.in", "CMakeLists.txt", "README.md", "CHANGELOG.md",
         "LICENSE")


def copy_source(directory):
    source = os.environ["GRADWIRE_SOURCE"]
    for part in FOLDERS:
        shutil.copytree(os.path.join(source, part), os.path.join(directory, part),
                        ignore=shutil.ignore_patterns("__pycache__", "node_modules", "*.egg-info"))
    for part in FILES:
        shutil.copy(os.path.join(source, part), directory)
