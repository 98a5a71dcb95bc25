# SPDX-License-Identifier: Apache-2.0
#
# test_cli_disk.py - writing and reading a file may take longer than --timeout: the other
# workers wait for worker 0 and know that it is at it, so nobody is taken for dead.
import json
import subprocess
import sys
import tempfile

import support_slow_disk
from support_checks import GRADWIRE, check, finish, succeed

# The limit is long enough for a busy machine; what is slow takes longer.
LIMIT, SLOW = 3, 7
JOB = ["train", "--data", "synthetic:train=400,test=50,dim=20,classes=4", "--batch", "8",
       "--model", "softmax", "--workers", "3", "--steps", "12", "--checkpoint-every", "10",
       "--timeout", str(LIMIT), "--quiet", "--json", "--force"]


def start(library, word, out, flags):
    return subprocess.Popen([GRADWIRE, *JOB, *flags, "--out", out], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE,
                            env=support_slow_disk.environment(library, word, SLOW))


def resumable(out):
    """A run that has ended after ten steps, and flags to go on from there."""
    succeed(*JOB, "--lr-schedule", "constant", "--steps", "10", "--out", out)
    return ["--lr-schedule", "constant", "--resume"]


with tempfile.TemporaryDirectory() as folder:
    library = support_slow_disk.build(folder)
    if library is None:
        print("skipped: there is no compiler for a slow disk")
        sys.exit(77)
    plain = json.loads(succeed(*JOB, "--out", f"{folder}/plain").stdout)["model_hash"]
    constant = json.loads(succeed(*JOB, "--lr-schedule", "constant", "--out",
                                  f"{folder}/constant").stdout)["model_hash"]
    succeed(*JOB, "--out", f"{folder}/weights", "--lr", "0", "--export",
            f"{folder}/first.safetensors")
    # All at once: most of the time they sleep.
    cases = [
        ("a checkpoint", "checkpoint.partial", ["--steps", "10"], None),
        ("a checkpoint, threads", "checkpoint.partial", ["--steps", "10", "--spawn", "threads"],
         None),
        ("the summary", "summary.json.partial", ["--export", f"{folder}/w1"], plain),
        ("weights", "w2.", ["--export", f"{folder}/w2"], plain),
        ("a timeline", "t1.", ["--trace", f"{folder}/t1", "--trace-steps", "5"], plain),
        ("a gradient", "g1.", ["--record-gradient", f"{folder}/g1"], plain),
        ("a checkpoint to read", "checkpoint-000001.gwc", resumable(f"{folder}/run-6"), constant),
        ("weights to read", "first.safetensors", ["--init", f"{folder}/first.safetensors"], plain),
    ]
    running = [start(library, word, f"{folder}/run-{i}", flags)
               for i, (_, word, flags, _) in enumerate(cases)]
    for (what, _, _, expected), command in zip(cases, running):
        out, err = command.communicate(timeout=300)
        if check(command.returncode == 0, f"{what}: exit {command.returncode}, {err!r}"):
            got = json.loads(out)["model_hash"]
            check(expected in (None, got), f"{what}: {got} is not {expected}")
finish()
