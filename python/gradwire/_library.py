# SPDX-License-Identifier: Apache-2.0
"""Finds and loads libgradwire.so, and starts the command of the package.

It looks for these files, in this order: the one that GRADWIRE_LIBRARY names; the one
that `pip install` put into the package; the one in the build directory GRADWIRE_BUILD;
the one that `make` built in the source tree of this file. If a variable names a file
that is missing, that is an error.
"""
from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import List, Optional

NAME = "libgradwire.so"


def candidates() -> List[Path]:
    named = os.environ.get("GRADWIRE_LIBRARY")
    if named:
        return [Path(named)]
    here = Path(__file__).resolve().parent
    found = [here / NAME]
    build = os.environ.get("GRADWIRE_BUILD")
    if build:
        found.append(Path(build) / NAME)
    return found + [here.parent.parent / "build" / NAME]


def load() -> ctypes.CDLL:
    tried = candidates()
    for path in tried:
        if path.exists():
            return ctypes.CDLL(str(path))
    raise ImportError(
        f"there is no {NAME} at " + " or ".join(map(str, tried)) +
        "; install with `pip install .`, or run make and set GRADWIRE_LIBRARY")


def beside(name: str) -> Optional[Path]:
    """Another library of gradwire's, where libgradwire.so is."""
    for path in candidates():
        if path.exists():
            there = path.parent / name
            return there if there.exists() else None
    return None


def main() -> None:
    """The command `gradwire` of an installed package: becomes the program that was built
    with it, or says why there is none."""
    here = Path(__file__).resolve().parent
    program = here / "bin" / "gradwire"
    if program.exists():
        os.execv(program, ["gradwire", *sys.argv[1:]])
    try:
        reason = (here / "no_command.txt").read_text().strip()
    except OSError:
        reason = "it is not an installed package"
    sys.exit(f"gradwire: this Python package has no command ({reason}); the Debian packages "
             "libdnnl-dev and zlib1g-dev, and cmake, are what building it needs")
