# SPDX-License-Identifier: Apache-2.0
#
# test_cli_elastic.py - gradwire train --join --workers MIN:MAX: the same model as with workers
# that do not change, workers that wait, leave, are wrong or come back, and checkpoints.
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

from support_checks import GRADWIRE, check, expect_error, finish, run, succeed

SMALL = ["--model", "softmax", "--data", "synthetic:train=400,test=50,dim=20,classes=4", "--batch", "8", "--seed", "3"]

if "no OpenSSL" in run("meet").stderr:
    print("skipped: this build has no OpenSSL")
    sys.exit(77)

there = tempfile.TemporaryDirectory()
os.chdir(there.name)
succeed("meet", "--new-key", "job.key")
meeting = subprocess.Popen([GRADWIRE, "meet", "--listen", "127.0.0.1:0", "--key-file", "job.key"],
                           stdout=subprocess.PIPE, text=True)
where = "tcp://127.0.0.1:" + re.search(r"port (\d+)", meeting.stdout.readline()).group(1)


def start(workers, *more):
    return subprocess.Popen([GRADWIRE, "train", *SMALL, "--join", where, "--key-file", "job.key", "--workers", workers,
                             *map(str, more)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end(process):
    out, err = process.communicate(timeout=240)
    return process.returncode, out, err


def await_line(process, words):
    """Reads what a worker says until a line has the words in it."""
    for line in process.stderr:
        if all(w in line for w in words):
            return line
    return check(False, f"a worker ended before it said {words}")


# ---- the same model as with workers that do not change --------------------------------------

for spec in "dense", "topk:0.1", "local:8+topk:0.1", "diloco:8":
    flags = ["--sync", spec, "--epochs", 4, "--json"]
    alone = json.loads(succeed("train", *SMALL, "--workers", 3, *flags, "--out", f"alone-{spec}").stdout)
    ends = [end(w) for w in [start("3:3", *flags, "--out", f"together-{spec}") for _ in range(3)]]
    check(all(code == 0 for code, _, _ in ends), f"{spec}: {ends}")
    told = [json.loads(out) for _, out, _ in ends if out.strip()]
    check(len(told) == 1, f"{spec}: one worker prints the summary, not {len(told)}")
    check(told and told[0]["model_hash"] == alone["model_hash"], f"{spec}: another model")
    late = sum("the job that was here has ended, with all of its" in err for _, _, err in ends)
    check(late == (spec != "dense"), f"{spec}: {late} workers hear that the job before has ended")

# ---- too few workers, one that leaves, one with other settings -------------------------------

LONG = ["--sync", "topk:0.1", "--steps", 10**8, "--out", "long", "--eval-every", 0]
first = start("2:3", *LONG)
await_line(first, ["waiting for 1 more worker"])
second = start("2:3", *LONG)
await_line(first, ["entry 1: 2 workers"])
wrong = start("2:3", *LONG[:-4], "--out", "long", "--eval-every", 0, "--lr", "0.5")
code, _, err = end(wrong)
check(code == 1 and "--lr" in err, f"another learning rate: exit {code}, {err}")
await_line(first, ["2 workers, 0 new"])
third = start("2:3", *LONG)
await_line(third, ["3 workers, 1 new"])
await_line(first, ["3 workers, 1 new"])
third.send_signal(signal.SIGTERM)
code, _, err = end(third)
check(code == 130 and "handed over" in err, f"a worker that leaves: exit {code}, {err}")
await_line(first, ["2 workers, 0 new, 1 gone"])
second.kill()
second.communicate()
await_line(first, ["waiting for 1 more worker"])
first.send_signal(signal.SIGINT)
code, _, err = end(first)
check(code == 130, f"Ctrl-C while it waits: exit {code}, {err}")

# ---- checkpoints ------------------------------------------------------------------------------

saved = ["--sync", "topk:0.1", "--steps", 10**8, "--out", "saved", "--checkpoint-every", 50, "--eval-every", 0]
both = [start("2:3", *saved) for _ in range(2)]
while not any(name.endswith(".gwc") for name in (os.listdir("saved") if os.path.isdir("saved") else [])):
    if both[0].poll() is not None:
        check(False, "a run with checkpoints ended")
        break
for w in both:
    w.kill()
    w.communicate()
again = [start("2:3", *saved, "--resume") for _ in range(2)]
line = await_line(again[0], ["entry 1: 2 workers"])
check(line and int(re.search(r"step (\d+)", line)[1]) > 0, f"a run that goes on begins with {line}")
for w in again:
    w.kill()
    w.communicate()
# What is not given comes from the checkpoint.
bare = ["train", "--resume", "--out", "saved", "--join", where, "--key-file", "job.key", "--workers", "2:3"]
again = [subprocess.Popen([GRADWIRE, *bare], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
         for _ in range(2)]
line = await_line(again[0], ["entry 1: 2 workers"])
check(line and int(re.search(r"step (\d+)", line)[1]) > 0, f"a run that goes on without flags begins with {line}")
for w in again:
    w.kill()
    w.communicate()

# ---- what cannot be ------------------------------------------------------------------------------

expect_error(2, ["--workers MIN:MAX needs --join"], "train", *SMALL, "--workers", "2:3")
expect_error(2, ["MIN above MAX"], "train", *SMALL, "--workers", "3:2")
expect_error(2, ["--trace"], "train", *SMALL, "--workers", "2:3", "--join", where, "--key-file", "job.key", "--trace",
             "t.json")
r = run("train", *SMALL, "--sync", "a2sgd", "--workers", "1:3", "--join", where, "--key-file", "job.key", "--out", "a2sgd")
check(r.returncode == 1 and "cannot go on with other workers" in r.stderr, f"a2sgd: exit {r.returncode}, {r.stderr}")

meeting.terminate()
meeting.wait()
finish()
