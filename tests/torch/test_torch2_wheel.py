#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The wheel of `make wheel`: auditwheel finds nothing in it that its name does not promise; and
in an environment without a compiler, with nothing but the wheel and PyTorch, README's
example trains, and so does the command."""
import os
import re
import subprocess
import sys
import sysconfig
import tempfile

from torch_crew import skip_without

skip_without("numpy", "torch", "pip")
import torch
import torch_example

SOURCE = os.environ["GRADWIRE_SOURCE"]
EXAMPLE = os.path.join(SOURCE, "python", "examples", "mnist_ddp.py")
TRAIN = ("train", "--model", "softmax", "--data", "synthetic:train=400,test=50,dim=20,classes=4",
         "--workers", "2", "--sync", "gtopk:0.1", "--steps", "20")


def run(*command, status=0, **settings):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          stdin=subprocess.DEVNULL, **settings)
    if done.returncode == 77:
        print(done.stdout)
        sys.exit(77)
    assert done.returncode == status, f"{command} ended with {done.returncode}:\n{done.stdout}"
    return done.stdout


def build():
    wheel = run(os.path.join(SOURCE, "scripts", "wheel")).split()[-1]
    named = re.fullmatch(r"gradwire-[\d.]+-py3-none-(manylinux_2_(\d+)_\w+)\.whl",
                         os.path.basename(wheel))
    assert named and int(named[2]) <= 36, wheel
    tools = os.path.join(SOURCE, "build", "wheel-venv", "bin")
    said = run(os.path.join(tools, "auditwheel"), "show", wheel,
               env=dict(os.environ, PATH=f"{tools}:{os.environ['PATH']}"))
    print(said)
    assert f'following platform tag: "{named[1]}"' in said.replace("\n", " "), said
    return wheel


def clean_environment(directory, wheel):
    """A virtual environment with the wheel, which sees this one's PyTorch. Its programs are
    all that there are."""
    venv = os.path.join(directory, "venv")
    run(sys.executable, "-m", "venv", "--without-pip", venv)
    python = os.path.join(venv, "bin", "python")
    env = {k: v for k, v in os.environ.items() if not k.startswith(("GRADWIRE", "PYTHON"))}
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--no-deps",
        "--disable-pip-version-check", wheel, env=env)
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('platlib'))").strip()
    with open(os.path.join(site, "shared.pth"), "w") as f:
        f.write(sysconfig.get_path("purelib") + "\n")
    return python, dict(env, PATH=os.path.join(venv, "bin"))


def main():
    if int(torch.__version__.split(".")[0]) < 2:
        print("skipped: the wheel is tested with PyTorch 2, by make test-torch")
        sys.exit(77)
    wheel = build()
    with tempfile.TemporaryDirectory() as directory:
        python, env = clean_environment(directory, wheel)
        for tool in ("cc", "gcc", "clang", "cmake"):
            assert run(python, "-c", f"import shutil; print(shutil.which('{tool}'))", env=env,
                       cwd=directory).strip() == "None"
        where = run(python, "-c", "import gradwire; print(gradwire.__file__)", env=env,
                    cwd=directory).strip()
        assert where.startswith(directory), where
        torch_example.make_images(directory)
        out = torch_example.run(EXAMPLE, 2, directory, "--data-dir", directory, "--epochs", "2",
                                "--batch", "16", python=python, env=env)
        assert float(out.split("accuracy ")[1].split()[0]) > 0.3, out
        print(run(os.path.join(directory, "venv", "bin", "gradwire"), *TRAIN, env=env,
                  cwd=directory))


main()
