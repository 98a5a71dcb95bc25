# SPDX-License-Identifier: Apache-2.0
#
# test_group_killed.py - gradwire train --join --workers MIN:MAX when the meeting is killed, and then
# a worker, too: the others wait until the meeting is back, and go on; Ctrl-C ends the wait.
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

from support_checks import GRADWIRE, check, expect_error, finish, run, succeed

SMALL = ["--model", "softmax", "--data", "synthetic:train=400,test=50,dim=20,classes=4", "--batch", "8", "--seed", "3"]
JOB = ["--sync", "topk:0.1", "--advice", "off", "--steps", 10**8, "--pace", "0.01", "--log-every", 10,
       "--eval-every", 0, "--checkpoint-every", 10**6, "--out", "job"]
TIMEOUT = 4

if "no OpenSSL" in run("meet").stderr:
    print("skipped: this build has no OpenSSL")
    sys.exit(77)

there = tempfile.TemporaryDirectory()
os.chdir(there.name)
succeed("meet", "--new-key", "job.key")


def open_meeting(port=0):
    meeting = subprocess.Popen([GRADWIRE, "meet", "--listen", f"127.0.0.1:{port}", "--key-file", "job.key"],
                               stdout=subprocess.PIPE, text=True)
    return meeting, int(re.search(r"port (\d+)", meeting.stdout.readline()).group(1))


meeting, port = open_meeting()


def start(*more):
    return subprocess.Popen([GRADWIRE, "train", *SMALL, "--join", f"tcp://127.0.0.1:{port}", "--key-file", "job.key",
                             "--workers", "2:3", "--timeout", str(TIMEOUT), *map(str, more)],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def await_line(process, words):
    """Reads what a worker says until a line has the words in it."""
    for line in process.stderr:
        if words in line:
            return line
    check(False, f"a worker ended before it said {words!r}")
    return ""


def end(process, number):
    process.send_signal(number)
    _, err = process.communicate(timeout=240)
    return process.returncode, err


def last_line():
    with open("job/metrics.jsonl") as f:
        return json.loads(([json.dumps({"step": 0})] + [line for line in f if line.endswith("\n")])[-1])


def last_step():
    return last_line()["step"]


def await_steps():
    """Waits until the log has steps that were not made yet."""
    before = last_step()
    while last_step() < before + 30 and trio[0].poll() is None:
        time.sleep(0.05)
    check(last_step() >= before + 30, f"no step after step {before}")


def kill(process):
    process.kill()
    process.communicate()


def writer():
    """The worker that has the log open."""
    log = os.path.realpath("job/metrics.jsonl")
    return next(w for w in trio for fd in os.listdir(f"/proc/{w.pid}/fd")
                if os.path.realpath(f"/proc/{w.pid}/fd/{fd}") == log)


def check_equal(lines):
    """Those who still have to apply a result have no model to name."""
    models = {m[1] for m in (re.search(r"model ([0-9a-f]{8})$", line.rstrip()) for line in lines) if m}
    check(len(models) <= 1, f"models differ: {lines}")


# ---- a worker that has met nobody ends after its time limit -------------------------------------

alone = start("--sync", "dense", "--out", "alone")
await_line(alone, "waiting for 1 more worker")
kill(meeting)
line = await_line(alone, "and this worker has met no other yet")
alone.communicate()
check(alone.returncode == 1 and line.startswith(f"gradwire: the meeting at '127.0.0.1:{port}' does not answer"),
      f"a worker that is alone: exit {alone.returncode}, {line!r}")

# ---- the meeting is killed, then a worker; the others wait, and go on when it is back --------------

meeting, port = open_meeting(port)
trio = [start(*JOB) for _ in range(3)]
for w in trio:
    await_line(w, " 3 workers, ")
kill(meeting)
for w in trio:
    await_line(w, f"the meeting at '127.0.0.1:{port}' does not answer; those who have met go on")
await_steps()
expect_error(1, ["nobody answers"], "train", *SMALL, *JOB, "--quiet", "--join", f"tcp://127.0.0.1:{port}", "--key-file",
             "job.key", "--workers", "2:3")
kill(trio.pop(0 if trio[0] is not writer() else 1))
for w in trio:
    line = await_line(w, "waiting for the meeting, away since 20")
    check("does not answer; Ctrl-C ends the run, with a checkpoint if it writes any" in line, f"it says {line!r}")
time.sleep(1.5 * TIMEOUT)
check(all(w.poll() is None for w in trio), "survivors wait for longer than the time limit")
meeting, port = open_meeting(port)
lines = [await_line(w, " 2 workers, 0 new, 1 gone") for w in trio]
check_equal(lines)
lost = float(re.search(r"residuals of norm (\S+) are lost", lines[0])[1])
await_steps()
check(abs(last_line()["lost_norm"] - lost) <= 0.01 * lost, f"lost_norm is {last_line()['lost_norm']} after {lines[0]}")
trio.append(start(*JOB))
check_equal([await_line(w, " 3 workers, 1 new, 0 gone") for w in trio])
await_steps()

# ---- the same with the worker that writes; Ctrl-C ends the wait of those that are left ------------

kill(meeting)
for w in trio:
    await_line(w, "those who have met go on")
first = writer()
trio.remove(first)
kill(first)
for w in trio:
    await_line(w, "waiting for the meeting, away since 20")
before = last_step()
for number, w in zip((signal.SIGINT, signal.SIGTERM), trio):
    code, err = end(w, number)
    check(code == 130, f"a worker that waits for the meeting, after a signal: exit {code}, {err!r}")
    summary = json.load(open("job/summary.json"))
    check(summary["stopped"] and summary["steps"] >= before, f"the summary after step {before}: {summary}")
    check(summary["lost_norm"] > lost, f"lost_norm is {summary['lost_norm']} at the end, and was {lost} with one gone")
    check(any(name.endswith(".gwc") for name in os.listdir("job")), "a checkpoint is there")

# ---- all go on from the checkpoint ----------------------------------------------------------------

meeting, port = open_meeting(port)
trio = [start(*JOB, "--resume") for _ in range(3)]
line = await_line(trio[0], " 3 workers, ")
check(int(re.search(r"step (\d+)", line)[1]) >= before, f"after step {before} a run goes on with {line}")
for w in trio:
    kill(w)
kill(meeting)
os.chdir("/")
finish()
