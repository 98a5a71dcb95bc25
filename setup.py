# SPDX-License-Identifier: Apache-2.0
"""Builds libgradwire.so and libgradwire-group.so with the C compiler, and the gradwire command
with CMake, and puts them into the package.

Any compiler does: kernels for newer CPUs are chosen when the library runs. The wheel
is for one platform and for every Python, because the package has no extension of
Python's. Where CMake, oneDNN or zlib is missing, the package has no command, and says
why when it is called. GRADWIRE_COMMAND=off leaves it out, GRADWIRE_COMMAND=on makes it an
error that it cannot be built. Where OpenSSL's headers are missing, the package has no
libgradwire-group.so, and gradwire.join() says so. GRADWIRE_LICENSES names a folder with the licences of what
is bundled (scripts/wheel).
"""
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py
from wheel.bdist_wheel import bdist_wheel

ROOT = Path(__file__).resolve().parent
FLAGS = ["-std=gnu11", "-O2", "-DNDEBUG", "-ffp-contract=off", "-fPIC", "-shared",
         "-fvisibility=hidden"]


class NoCommand(Exception):
    """The gradwire command cannot be built, and why."""


def version():
    numbers = re.findall(r"#define GW_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)",
                         (ROOT / "include" / "gradwire.h").read_text())
    return ".".join(numbers)


def build_library(target):
    sources = sorted(str(f) for f in (ROOT / "src").rglob("*.c"))
    command = [*shlex.split(os.environ.get("CC", "cc")), *FLAGS,
               f"-I{ROOT / 'include'}", f"-I{ROOT / 'src'}", *sources,
               "-o", str(target), "-lm", "-pthread"]
    try:
        subprocess.run(command, check=True)
    except FileNotFoundError:
        raise SystemExit(f"there is no C compiler '{command[0]}': install one, or "
                         "name it in CC") from None


def has_openssl(compiler):
    """Whether there is OpenSSL 3 to build with."""
    test = "#include <openssl/ssl.h>\n#if OPENSSL_VERSION_MAJOR < 3\n#error old\n#endif\n"
    return subprocess.run([*compiler, "-E", "-x", "c", "-"], input=test, text=True,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def build_group(package):
    """gradwire.join() needs it. It finds libgradwire.so beside itself."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    if not has_openssl(compiler):
        return
    sources = sorted(str(f) for f in (ROOT / "group").glob("*.c"))
    subprocess.run([*compiler, *FLAGS, f"-I{ROOT / 'include'}", f"-I{ROOT / 'group'}", *sources,
                    "-o", str(package / "libgradwire-group.so"), f"-L{package}", "-lgradwire",
                    "-Wl,-rpath,$ORIGIN", "-lssl", "-lcrypto", "-pthread"], check=True)


def build_command(folder, target):
    """Raises NoCommand where something is missing for it."""
    if shutil.which("cmake") is None:
        raise NoCommand("CMake was missing")
    configured = subprocess.run(
        ["cmake", "-S", str(ROOT), "-B", str(folder), "-DCMAKE_BUILD_TYPE=Release",
         "-DGRADWIRE_TESTS=OFF", "-DGRADWIRE_MPI=OFF"], stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True)
    print(configured.stdout)
    missing = re.findall(r"the gradwire command: needs (.*)", configured.stdout)
    if missing:
        raise NoCommand(", ".join(missing) + " was missing")
    if configured.returncode != 0:
        raise NoCommand("CMake could not configure it")
    subprocess.run(["cmake", "--build", str(folder), "--target", "gradwire_cli",
                    "--parallel", str(os.cpu_count())], check=True)
    target.parent.mkdir(exist_ok=True)
    shutil.copy2(folder / "gradwire", target)


class BuildWithLibrary(build_py):
    def run(self):
        package = Path(self.build_lib) / "gradwire"
        shutil.rmtree(package, ignore_errors=True)  # what an older source left there
        super().run()
        package.mkdir(parents=True, exist_ok=True)
        build_library(package / "libgradwire.so")
        build_group(package)
        self.add_command(package)
        if os.environ.get("GRADWIRE_LICENSES"):
            shutil.copytree(os.environ["GRADWIRE_LICENSES"], package / "licenses")

    def add_command(self, package):
        wanted = os.environ.get("GRADWIRE_COMMAND", "auto")
        try:
            if wanted == "off":
                raise NoCommand("GRADWIRE_COMMAND was off")
            folder = Path(self.get_finalized_command("build").build_base) / "command"
            build_command(folder, package / "bin" / "gradwire")
        except NoCommand as reason:
            if wanted == "on":
                raise SystemExit(f"the gradwire command cannot be built: {reason}") from None
            (package / "no_command.txt").write_text(f"{reason}\n")


class ForPlatform(Distribution):
    """What holds programs belongs where they go, which auditwheel insists on."""

    def has_ext_modules(self):
        return True


class WheelForPlatform(bdist_wheel):
    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


# The folder build belongs to make.
setup(version=version(), distclass=ForPlatform, options={"build": {"build_base": "build/python"}},
      cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": WheelForPlatform})
