# SPDX-License-Identifier: Apache-2.0
"""Builds libgradwire.so with the C compiler and puts it into the package.

Any compiler does: kernels for newer CPUs are chosen when the library runs. The wheel
is for one platform and for every Python, because the package has no extension of
Python's.
"""
import os
import re
import shlex
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from wheel.bdist_wheel import bdist_wheel

ROOT = Path(__file__).resolve().parent.parent
FLAGS = ["-std=gnu11", "-O2", "-DNDEBUG", "-ffp-contract=off", "-fPIC", "-shared",
         "-fvisibility=hidden"]


def version():
    header = ROOT / "include" / "gradwire.h"
    if not header.exists():
        raise SystemExit(f"{header} is missing: install from the source tree, with "
                         "`pip install ./python`")
    numbers = re.findall(r"#define GW_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)",
                         header.read_text())
    return ".".join(numbers)


class BuildWithLibrary(build_py):
    def run(self):
        super().run()
        target = Path(self.build_lib) / "gradwire" / "libgradwire.so"
        target.parent.mkdir(parents=True, exist_ok=True)
        sources = sorted(str(f) for f in (ROOT / "src").rglob("*.c"))
        command = [*shlex.split(os.environ.get("CC", "cc")), *FLAGS,
                   f"-I{ROOT / 'include'}", f"-I{ROOT / 'src'}", *sources,
                   "-o", str(target), "-lm", "-pthread"]
        try:
            subprocess.run(command, check=True)
        except FileNotFoundError:
            raise SystemExit(f"there is no C compiler '{command[0]}': install one, or "
                             "name it in CC") from None


class WheelForPlatform(bdist_wheel):
    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


setup(version=version(),
      cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": WheelForPlatform})
