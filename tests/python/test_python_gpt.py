#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small GPT with AdamW and DiLoCo on four processes: it learns, and a run as a plain
module that is stopped within a period and resumed has the bits of one in DDP that was
not stopped."""
import os
import re
import tempfile

from torch_crew import skip_without

skip_without("numpy", "torch")
import torch_example

SCRIPT = os.path.join(os.environ["GRADWIRE_SOURCE"], "python", "examples", "gpt_text.py")
WORKERS, PERIOD, STOP, END = 4, 10, 13, 24


def run(directory, *arguments):
    """The trained model's hash, its loss, and the MB that worker 0 has sent."""
    out = torch_example.run(SCRIPT, WORKERS, directory, "--batch", "4", "--sync", f"diloco:{PERIOD}", *arguments)
    found = [re.search(rf"{word} (\S+)", out)[1] for word in (r"\bmodel", r"\]:loss", "sent")]
    return found[0], float(found[1]), float(found[2])


def test_gpt():
    with tempfile.TemporaryDirectory() as directory:
        whole, loss, sent = run(directory, "--steps", str(END), "--ddp")
        assert loss < 4.5, f"a loss of {loss}; one that has learned nothing has log(256) = 5.5"
        # Two exchanges and the last average, of 137,000 parameters.
        assert 2.4 < sent < 2.5, f"{sent} MB"
        run(directory, "--steps", str(STOP), "--checkpoints", "saved")
        resumed, _, _ = run(directory, "--steps", str(END), "--checkpoints", "saved")
        assert resumed == whole, f"{resumed}, without a stop {whole}"


if __name__ == "__main__":
    test_gpt()
