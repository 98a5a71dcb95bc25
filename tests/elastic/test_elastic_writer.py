# SPDX-License-Identifier: Apache-2.0
#
# test_elastic_writer.py - gradwire train --join: a worker 0 that is stopped (SIGSTOP) keeps the lock on
# the run directory, and the others go on in it; when it wakes up, it spoils nothing. And a worker that
# is asked to leave ends, also where others are too few to go on with.
import atexit
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

from support_checks import GRADWIRE, check, finish, run, succeed

SMALL = ["--model", "softmax", "--data", "synthetic:train=400,test=50,dim=20,classes=4", "--batch", "8", "--seed", "3"]
# All that waits for an event is over long before; LIMIT is the time after which a worker is given up.
PATIENCE, LIMIT = 120, 5

if "no OpenSSL" in run("meet").stderr:
    print("skipped: this build has no OpenSSL")
    sys.exit(77)

there = tempfile.TemporaryDirectory()
os.chdir(there.name)
succeed("meet", "--new-key", "job.key")
meeting = subprocess.Popen([GRADWIRE, "meet", "--listen", "127.0.0.1:0", "--key-file", "job.key", "--timeout",
                            str(LIMIT)], stdout=subprocess.PIPE, text=True)
atexit.register(meeting.kill)
where = "tcp://127.0.0.1:" + re.search(r"port (\d+)", meeting.stdout.readline()).group(1)


class Worker:
    def __init__(self, job, workers, *more):
        self.process = subprocess.Popen(
            [GRADWIRE, "train", *SMALL, "--join", where, "--key-file", "job.key", "--job", "job", "--workers", workers,
             "--out", job, "--timeout", str(LIMIT), *map(str, more)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        atexit.register(self.process.kill)  # it may be stopped when a check gives up
        self.lines, self.came = [], threading.Condition()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stderr:
            with self.came:
                self.lines.append(line.rstrip())
                self.came.notify_all()

    def has(self, pattern, after=0):
        return any(re.search(pattern, line) for line in self.lines[after:])

    def await_line(self, pattern, after=0):
        with self.came:
            self.came.wait_for(lambda: self.has(pattern, after), timeout=PATIENCE)
            return check(self.has(pattern, after), f"'{pattern}' did not come: {self.lines[-5:]}")

    def send(self, number):
        self.process.send_signal(number)

    def end(self):
        out = self.process.stdout.read()
        self.process.wait(timeout=PATIENCE)
        self.reader.join()
        return self.process.returncode, out

    def ends(self, seconds):
        try:
            self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            check(False, f"a worker that should end did not: {self.lines[-4:]}")
        self.end()


def records(out):
    try:
        return [json.loads(line) for line in open(f"{out}/metrics.jsonl")]
    except OSError:
        return []


def await_records(out, more):
    start, end = len(records(out)), time.monotonic() + PATIENCE
    while len(records(out)) < start + more and time.monotonic() < end:
        time.sleep(0.02)
    return check(len(records(out)) >= start + more, f"{out}: {len(records(out))} lines, expected {start + more}")


def in_order(out):
    steps = [r["step"] for r in records(out)]
    return check(steps == sorted(steps), f"{out}: steps in metrics.jsonl: {steps[:3]} ... {steps[-3:]}")


def saved(out):
    return sorted(name for name in os.listdir(out) if name.startswith("checkpoint-") and name.endswith(".gwc"))


FLAGS = ["--sync", "topk:0.1", "--eval-every", 0, "--log-every", 1, "--checkpoint-every", 5, "--log", "csv"]

# ---- worker 0 is stopped; it comes back while the others train ----------------------------------------

flags = [*FLAGS, "--steps", 10**8, "--pace", 0.02]
trio = [Worker("back", "2:3", *flags)]
trio[0].await_line("waiting for 1 more worker")
trio += [Worker("back", "2:3", *flags) for _ in range(2)]
trio[0].await_line(": 3 workers")
await_records("back", 10)
trio[0].send(signal.SIGSTOP)
for w in trio[1:]:
    w.await_line("2 workers, 0 new, 1 gone")
await_records("back", 20)
check(sum(w.has("does not answer keeps the lock") for w in trio[1:]) == 1, "one worker says that it writes now")
before = saved("back")[-1]
await_records("back", 20)
check(saved("back")[-1] > before, f"no checkpoint after {before}")
heard = len(trio[0].lines)
trio[0].send(signal.SIGCONT)
trio[0].await_line("3 workers", heard)
await_records("back", 20)
in_order("back")
rows = open("back/metrics.csv").read().splitlines()
check(all("\0" not in row and row.count(",") == rows[0].count(",") for row in rows), "metrics.csv is spoiled")
for w in trio:
    w.send(signal.SIGTERM)
for w in trio:
    w.ends(60)
check([w.process.returncode for w in trio] == [130] * 3, f"SIGTERM: {[(w.process.returncode, w.lines[-3:]) for w in trio]}")
pair = [Worker("back", "2:3", *flags, "--resume") for _ in range(2)]
pair[0].await_line("entry 1: 2 workers")
await_records("back", 10)
in_order("back")
for w in pair:
    w.process.kill()
    w.end()

# ---- it wakes up after the end of the job ------------------------------------------------------------

flags = [*FLAGS, "--steps", 300, "--pace", 0.02]
duo = [Worker("late", "1:2", *flags)]
duo[0].await_line("entry 1: 1 worker,")
duo.append(Worker("late", "1:2", *flags))
duo[0].await_line(": 2 workers")
await_records("late", 10)
duo[0].send(signal.SIGSTOP)
code, out = duo[1].end()
check(code == 0 and "accuracy" in out, f"the job without its worker 0: exit {code}, {duo[1].lines[-5:]}")
check(len(duo[0].lines) < 10 and duo[0].process.poll() is None, "the one that is stopped is there")
metrics, summary = open("late/metrics.jsonl").read(), open("late/summary.json").read()
files = sorted(os.listdir("late"))
duo[0].send(signal.SIGCONT)
duo[0].ends(60)
check(duo[0].process.returncode == 1 and duo[0].has("has ended without this worker"),
      f"a worker 0 that wakes up late: exit {duo[0].process.returncode}, {duo[0].lines[-4:]}")
check(open("late/metrics.jsonl").read() == metrics and open("late/summary.json").read() == summary,
      "it has changed the results")
check(sorted(os.listdir("late")) == files, f"files: {files}, then {sorted(os.listdir('late'))}")
in_order("late")

# ---- two are asked to leave, and each other is all they have -------------------------------------------

flags = [*FLAGS, "--steps", 10**8, "--pace", 1]
for attempt, pause in enumerate((None, 0.0, 0.3)):
    out = f"leave-{attempt}"
    duo = [Worker(out, "2:3", *flags)]
    duo[0].await_line("waiting for 1 more worker")
    duo.append(Worker(out, "2:3", *flags))
    duo[0].await_line("entry 1: 2 workers")
    await_records(out, 1)
    duo[1].send(signal.SIGTERM)
    if pause is not None:  # the other one has begun its next step then, and only later finds that it is alone
        await_records(out, 1)
        time.sleep(pause)
    duo[0].send(signal.SIGTERM)
    for w in duo:
        w.ends(30)
    check([w.process.returncode for w in duo] == [130, 130], f"two leave: {[w.lines[-4:] for w in duo]}")
    end = json.load(open(f"{out}/summary.json")) if os.path.exists(f"{out}/summary.json") else {}
    check(end.get("stopped") is True and saved(out), f"two leave, and {os.listdir(out)} stays: {end.get('stopped')}")

# ---- workers that wait for others ----------------------------------------------------------------------

trio = [Worker("few", "3:3", *flags)]
trio[0].await_line("waiting for 2 more workers")
trio += [Worker("few", "3:3", *flags) for _ in range(2)]
trio[0].await_line("entry 1: 3 workers")
await_records("few", 1)
trio[2].process.kill()
for w in trio[:2]:
    w.await_line("waiting for 1 more worker; 2 of 3")
for w in trio[1::-1]:
    w.send(signal.SIGTERM)
    w.ends(30)
    check(w.process.returncode == 130, f"a worker that waits: exit {w.process.returncode}, {w.lines[-3:]}")
check(trio[1].has("a residual of norm .* is lost"), f"what is lost: {trio[1].lines[-3:]}")
check(json.load(open("few/summary.json"))["stopped"] is True, "the last one ends as usual")

meeting.terminate()
meeting.wait()
finish()
