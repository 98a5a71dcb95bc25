# SPDX-License-Identifier: Apache-2.0
#
# test_cli_etcd.py - gradwire train --join etcd://... trains on while a member of etcd dies, and
# then worker 0; a worker that comes later takes part.
import atexit
import json
import os
import sys
import tempfile
import time

import support_etcd
from support_chaos import Worker, check_models
from support_checks import check, finish, run, succeed

STEPS = 2000  # at 3 ms and with two or three workers: some ten seconds, of which half are needed
PATIENCE = 240.0

if "no OpenSSL" in run("meet").stderr:
    print("skipped: this build has no OpenSSL")
    sys.exit(77)
if not support_etcd.is_there():
    print("skipped: there is no etcd here; install etcd-server")
    sys.exit(77)

there = tempfile.TemporaryDirectory()
os.chdir(there.name)
succeed("meet", "--new-key", "job.key")
etcd = support_etcd.Etcd()
meeting = etcd.meeting("job-1")
workers = []


def start():
    workers.append(Worker(
        ["train", "--model", "softmax", "--data", "synthetic:train=400,test=50,dim=20,classes=4", "--batch", "8", "--seed",
         "3", "--sync", "topk:0.1", "--lr-schedule", "cosine", "--steps", str(STEPS), "--pace", "0.003", "--eval-every", "0",
         "--log-every", "1", "--join", meeting, "--key-file", "job.key", "--workers", "2:3", "--out", "run", "--json"]))
    return workers[-1]


def wait(what, done):
    end = time.monotonic() + PATIENCE
    while not done():
        if time.monotonic() > end:
            said = [[line for _, line in w.lines[-3:]] for w in workers]
            return check(False, f"{what} did not come in {PATIENCE:g} s; workers say {said}")
        time.sleep(0.02)
    return True


def step():
    """The last step in the log, of which a line may be half written."""
    try:
        with open("run/metrics.jsonl") as f:
            return max((json.loads(line)["step"] for line in f if line.endswith("}\n")), default=0)
    except OSError:
        return 0


def wait_for_steps(what, more):
    at = step()
    wait(f"steps after {what}", lambda: step() >= at + more)


def wait_for_entry(worker, members):
    wait(f"an entry of {members} workers", lambda: any(count == members for _, _, count, _, _ in worker.entries()))


def status():
    """What status says; nothing while etcd has no leader."""
    said = run("status", meeting, "--key-file", "job.key", "--json")
    return json.loads(said.stdout) if said.returncode == 0 else {"workers": []}


def running():
    return sum(w["state"] == "runs" for w in status()["workers"])


def end_all():
    for w in workers:
        w.process.kill()
        w.process.wait()


atexit.register(end_all)
check(etcd.wait("job.key"), "etcd does not answer")
first = start()
wait("a wait for another worker", lambda: any("waiting for 1 more worker" in line for _, line in first.lines))
second = start()
wait("the first steps", lambda: step() > 10)

# One of three is gone: nobody who runs notices, and the meeting still answers.
etcd.kill(0)
wait_for_steps("the death of a member of etcd", 50)
wait("status with two workers", lambda: running() == 2)
wait("a report", lambda: any(w.get("step", 0) > 0 and w["steps"] == STEPS for w in status()["workers"]))
said = status()
check(said.get("min_workers") == 2 and said.get("max_workers") == 3, f"status says {said}")

# Worker 0 is gone: the other one waits for another, and goes on with it.
first.process.kill()
first.process.wait()
wait("a wait for one more worker", lambda: any("waiting for 1 more worker" in line for _, line in second.lines))
third = start()
wait_for_steps("the death of a worker", 20)

# The member of etcd is back and another one dies; then the job is complete.
etcd.start(0)
check(etcd.wait("job.key"), "etcd does not answer after a member is back")
etcd.kill(1)
fourth = start()
for w in second, third, fourth:
    wait_for_entry(w, 3)
wait_for_steps("an entry of three", 20)
wait("status with three workers", lambda: running() == 3)

for w in second, third, fourth:
    code = w.process.wait(timeout=PATIENCE)
    w.reader.join()
    check(code == 0, f"a worker ends with {code}: {w.lines[-3:]}")
told = [text for text in (w.process.stdout.read() for w in workers) if text.strip()]
check(len(told) == 1, f"one worker prints the summary, not {len(told)}")
with open("run/summary.json") as f:
    summary = json.load(f)
check(summary["steps"] == STEPS, f"the summary says {summary}")
entries = check_models(workers, "etcd")
check(entries >= 3, f"{entries} entries")
etcd.end()
os.chdir("/")
finish()
