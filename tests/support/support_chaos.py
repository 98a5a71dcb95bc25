# SPDX-License-Identifier: Apache-2.0
#
# support_chaos.py - a job whose workers are killed at random, one after the other, and
# replaced. It waits for events: an entry of the survivors, and a step after it.
import json
import os
import random
import re
import shutil
import signal
import subprocess
import threading
import time

from support_checks import GRADWIRE, check, succeed

WORKERS, LEAST = 8, 3
# On a machine that is busy, everything takes longer, but nothing takes for ever.
PATIENCE = 240.0


class Worker:
    """A process, what it has said, and when."""

    def __init__(self, args):
        self.process = subprocess.Popen([GRADWIRE, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        errors="replace")
        self.lines, self.ended = [], False
        self.killed = False
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stderr:
            self.lines.append((time.monotonic(), line.rstrip()))

    def entries(self):
        for when, line in list(self.lines):
            m = re.search(r"entry (\d+): (\d+) workers?, (\d+) new, (\d+) gone.*; step (\d+), model (.*)$", line)
            if m:
                yield when, int(m[1]), int(m[2]), int(m[4]), m[6]

    def lives(self):
        return self.process.poll() is None


def check_models(workers, what):
    """All have the same model at an entry. Returns how many entries there were."""
    checks = {}
    for w in workers:
        for _, number, _, _, model in w.entries():
            if model != "one step behind":
                checks.setdefault(number, set()).add(model)
    for number, models in checks.items():
        check(len(models) == 1, f"{what}: entry {number} has models {models}")
    return len(checks)


class Chaos:
    def __init__(self, spec, seed, job, key, out_only=0.0):
        self.random = random.Random(seed)
        self.out_only = out_only  # the share of workers that others cannot call
        self.name = re.sub(r"\W+", "-", spec)
        self.spec, self.workers, self.recoveries = spec, [], []
        self.kills = self.leaves = 0
        self.out = f"chaos-{self.name}-{seed}"
        meet = subprocess.Popen([GRADWIRE, "meet", "--listen", "127.0.0.1:0", "--key-file", key],
                                stdout=subprocess.PIPE, text=True)
        port = re.search(r"port (\d+)", meet.stdout.readline())[1]
        self.meeting = meet
        self.args = ["train", *job, "--sync", spec, "--join", f"tcp://127.0.0.1:{port}", "--key-file", key,
                     "--workers", f"{LEAST}:{WORKERS}", "--out", self.out, "--log-every", "1", "--timeout", "60"]

    def start(self):
        more = ["--out-only"] if self.out_only > 0 and self.random.random() < self.out_only else []
        self.workers.append(Worker(self.args + more))

    def steps(self):
        """The steps that the log knows of; a line may be half written."""
        try:
            with open(f"{self.out}/metrics.jsonl", "rb") as f:
                f.seek(max(0, os.path.getsize(f.name) - 4000))
                found = re.findall(rb'"step":\s*(\d+)', f.read())
            return int(found[-1]) if found else 0
        except OSError:
            return 0

    def ended(self):
        return os.path.exists(f"{self.out}/summary.json")

    def goes_on(self, total):
        return not self.ended() and self.steps() < 0.85 * total

    def running(self):
        return [w for w in self.workers if w.lives() and any(True for _ in w.entries())]

    def wait(self, what, done):
        end = time.monotonic() + PATIENCE
        while not done():
            if time.monotonic() > end:
                return check(False, f"'{self.spec}': {what} did not come in {PATIENCE:g} s: " +
                             "; ".join(w.lines[-1][1] for w in self.workers if w.lives() and w.lines))
            time.sleep(0.02)
        return True

    def strike(self):
        """Kills a worker, or makes it leave; waits until a step follows."""
        victim = self.random.choice(self.running())
        leaves = self.random.random() < 0.15
        before = time.monotonic()
        victim.killed = True
        victim.process.send_signal(signal.SIGTERM if leaves else signal.SIGKILL)
        self.kills, self.leaves = self.kills + (not leaves), self.leaves + leaves
        if not leaves:
            victim.process.wait()
        self.start()
        entered = self.wait("an entry", lambda: self.ended() or any(
            when > before and gone > 0 for w in self.running() for when, _, _, gone, _ in w.entries()))
        at = self.steps()
        stepped = self.wait("a step", lambda: self.ended() or self.steps() > at)
        if not leaves and not self.ended():
            self.recoveries.append(time.monotonic() - before)
        return entered and stepped

    def run(self, total, pause, strikes, tell_every=None):
        """Until 85 % of the steps are made, something happens every `pause` seconds, at most so often. Most
        workers are there when it does: on a busy machine new ones take long to start. A long run tells how far
        it is every so many seconds."""
        told = time.monotonic()
        shutil.rmtree(self.out, ignore_errors=True)
        for _ in range(WORKERS):
            self.start()
        good = self.wait("the first step", lambda: self.steps() > 0)
        while good and strikes > 0 and self.goes_on(total):
            time.sleep(self.random.uniform(*pause))
            good = self.wait("most workers", lambda: not self.goes_on(total) or len(self.running()) > WORKERS // 2)
            if good and self.goes_on(total) and self.running():
                good = self.strike()
                strikes -= 1
            if tell_every and time.monotonic() - told >= tell_every:
                told = time.monotonic()
                print(f"  step {self.steps()} of {total}, {self.kills} kills", flush=True)
        good = good and self.wait("the end", self.ended)
        self.judge(good)

    def judge(self, good):
        for w in self.workers:
            entered = any(True for _ in w.entries())
            if good and entered and not w.killed:
                try:
                    code = w.process.wait(timeout=PATIENCE)
                    check(code == 0, f"'{self.spec}': exit {code}: {w.lines[-3:]}")
                except subprocess.TimeoutExpired:
                    check(False, f"'{self.spec}': a worker does not end: {w.lines[-3:]}")
            if w.lives():
                w.process.kill()  # it came too late
                w.process.wait()
            w.reader.join()
        self.meeting.terminate()
        self.meeting.wait()
        self.entries = check_models(self.workers, f"'{self.spec}'")

    def accuracy(self):
        with open(f"{self.out}/summary.json") as f:
            return json.load(f)["test_accuracy"]


def quiet_accuracy(job, spec):
    r = succeed("train", *job, "--sync", spec, "--workers", WORKERS, "--json", "--quiet", "--out",
                f"quiet-{re.sub(r'[^0-9a-z]+', '-', spec)}", timeout=3600)
    return json.loads(r.stdout)["test_accuracy"]
