#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What gradwire adds to a script of each framework is three lines at most, and what a
script saves with the framework's checkpoints it resumes from."""
import difflib
import os
import tempfile

import torch_crew

torch_crew.skip_without_torch2("lightning", "accelerate", "transformers")
import torch_example

EXAMPLES = os.path.join(os.environ["GRADWIRE_SOURCE"], "python", "examples")
TWINS = {"plain_lightning.py": "mnist_lightning.py",
         "plain_accelerate.py": "mnist_accelerate.py",
         "plain_trainer.py": "gpt_trainer.py"}
MOST = 3  # lines


def code_of(script):
    """Its lines without the text at its top."""
    with open(os.path.join(EXAMPLES, script)) as f:
        return f.read().split('"""')[2].splitlines()


def test_three_lines():
    for plain, ours in TWINS.items():
        changes = [line for line in difflib.ndiff(code_of(plain), code_of(ours))
                   if line[:2] in ("+ ", "- ")]
        assert 0 < len(changes) <= MOST, changes
        assert all(line[0] == "+" for line in changes), changes


def last_line(script, directory, checkpoints, epochs):
    """What the script says of the trained model."""
    out = torch_example.run(
        os.path.join(EXAMPLES, script), 2, directory, "--epochs", str(epochs), "--batch", "16",
        "--checkpoints", os.path.join(directory, checkpoints),
        *(("--limit", "96") if "trainer" in script else
          ("--data-dir", directory, "--lr", "0.01")))  # slow enough to tell runs apart
    return next(line.split("]:")[-1].strip() for line in reversed(out.splitlines())
                if "accuracy" in line or "loss " in line)


def test_resume():
    for script in TWINS.values():
        with tempfile.TemporaryDirectory() as directory:
            torch_example.make_images(directory)
            last_line(script, directory, "a", 1)
            resumed = last_line(script, directory, "a", 2)
            whole = last_line(script, directory, "b", 2)
            assert resumed == whole, f"{script}: '{resumed}', without a stop '{whole}'"


if __name__ == "__main__":
    test_three_lines()
    test_resume()
