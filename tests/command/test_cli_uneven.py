# SPDX-License-Identifier: Apache-2.0
#
# test_cli_uneven.py - gradwire train --uneven: a worker of half the speed makes half of the
# local steps, the log has the numbers, and training goes on when a worker is killed.
import json
import os
import re
import subprocess
import sys
import tempfile
import time

from support_checks import GRADWIRE, check, expect_error, finish, run, succeed

JOB = ["--model", "softmax", "--data", "synthetic:train=4000,test=200,dim=20,classes=4", "--batch", "8", "--seed",
       "3", "--eval-every", "0", "--uneven"]
# The model is so small that a step is mostly sleep, which takes hardly longer on a busy machine.
FAST, SLOW = "0.01", "0.05"

if "no OpenSSL" in run("meet").stderr:
    print("skipped: this build has no OpenSSL")
    sys.exit(77)

there = tempfile.TemporaryDirectory()
os.chdir(there.name)
succeed("meet", "--new-key", "job.key")
meeting = subprocess.Popen([GRADWIRE, "meet", "--listen", "127.0.0.1:0", "--key-file", "job.key"],
                           stdout=subprocess.PIPE, text=True)
where = "tcp://127.0.0.1:" + re.search(r"port (\d+)", meeting.stdout.readline()).group(1)


def start(workers, pace, *more):
    return subprocess.Popen([GRADWIRE, "train", *JOB, "--join", where, "--key-file", "job.key", "--workers", workers,
                             "--pace", pace, *map(str, more)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True)


def rounds(out):
    """The lines of the log; the last may be half written."""
    try:
        with open(f"{out}/rounds.jsonl") as f:
            return [json.loads(line) for line in f if line.endswith("\n")]
    except OSError:
        return []


def train(spec, kills):
    out = re.sub(r"\W+", "-", spec)
    flags = ["--sync", spec, "--steps", "120", "--out", out, "--json", "--quiet"]
    crew = [start("2:3", pace, *flags) for pace in (FAST, FAST, SLOW)]
    if kills:
        while len(rounds(out)) < 5 and all(w.poll() is None for w in crew):
            time.sleep(0.02)
        victim = crew.pop(1)
        victim.kill()
        victim.communicate()
    ends = [w.communicate(timeout=240) for w in crew]
    check(all(w.returncode == 0 for w in crew), f"{spec}: {ends}")
    lines = rounds(out)
    told = [json.loads(o) for o, _ in ends if o.strip()]
    check(len(told) == 1 and told[0]["test_accuracy"] > 0.9, f"{spec}: summaries {told}")
    check(len(lines) > 5, f"{spec}: the log has {len(lines)} rounds")
    check(all(1 <= s <= 8 for line in lines for s in line["steps"]), f"{spec}: {lines}")
    # The slow worker takes five times as long for a step; so that noise in the times does not matter, most rounds
    # are looked at together.
    slow = [line for line in lines if min(line["steps"]) < max(line["steps"]) == 8]
    check(len(slow) > len(lines) / 2, f"{spec}: the same steps for all in most rounds: {lines}")
    for line in slow:
        fits = 1.05 * 8 * min(line["step_s"])
        check(all(s == 1 or s * t <= fits * 1.001 for s, t in zip(line["steps"], line["step_s"])), f"{spec}: {line}")


train("local:8", False)
train("local:8+topk:0.1", True)
train("diloco:8", True)

expect_error(2, "needs a method with local steps", "train", *JOB, "--join", where, "--key-file", "job.key",
             "--workers", "1:2", "--sync", "topk:0.1", "--out", "x", "--advice", "off")
expect_error(2, "--workers MIN:MAX", "train", *JOB, "--workers", "2", "--sync", "local:8", "--out", "x")
expect_error(2, "--workers MIN:MAX", "train", *JOB[:-1], "--pace", "1", "--workers", "2", "--out", "x")
meeting.terminate()
meeting.wait()
os.chdir("/")
finish()
