# SPDX-License-Identifier: Apache-2.0
#
# test_cli_learned.py - gradwire train --learn-timeout: a worker that hangs (SIGSTOP) is noticed long
# before --timeout is over, and one that goes on again comes back; with --workers N the others name it.
# And --streams: the same model with two connections per pair, and another number is refused.
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
# The fixed limits, of workers and of the meeting. All that waits for events is over long before.
FIXED = 300

if "no OpenSSL" in run("meet").stderr:
    print("skipped: this build has no OpenSSL")
    sys.exit(77)

there = tempfile.TemporaryDirectory()
os.chdir(there.name)
succeed("meet", "--new-key", "job.key")


class Worker:
    def __init__(self, where, workers, *more):
        self.process = subprocess.Popen(
            [GRADWIRE, "train", *SMALL, "--join", where, "--key-file", "job.key", "--workers", workers, *map(str, more)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.lines, self.came = [], threading.Condition()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stderr:
            with self.came:
                self.lines.append(line.rstrip())
                self.came.notify_all()

    def await_line(self, pattern, after=0):
        """The number of the first line from `after` on that matches; it need not come soon."""
        def found():
            return next((i for i, line in enumerate(self.lines) if i >= after and re.search(pattern, line)), None)
        with self.came:
            self.came.wait_for(lambda: found() is not None, timeout=FIXED)
            return check(found() is not None, f"'{pattern}' did not come: {self.lines[-5:]}") and found()

    def end(self):
        out = self.process.stdout.read()
        self.process.wait(timeout=FIXED)
        self.reader.join()
        return self.process.returncode, out


def meet():
    meeting = subprocess.Popen([GRADWIRE, "meet", "--listen", "127.0.0.1:0", "--key-file", "job.key", "--timeout",
                                str(FIXED)], stdout=subprocess.PIPE, text=True)
    return meeting, "tcp://127.0.0.1:" + re.search(r"port (\d+)", meeting.stdout.readline()).group(1)


def steps(out):
    try:
        return len(open(f"{out}/metrics.jsonl").readlines())
    except OSError:
        return 0


def await_steps(out, more):
    """Until so many more steps are in the log; all rounds of a limit that is learned are among them."""
    start, end = steps(out), time.monotonic() + FIXED
    while steps(out) < start + more and time.monotonic() < end:
        time.sleep(0.05)
    return check(steps(out) >= start + more, f"{out}: {steps(out)} lines, expected {start + more}")


# ---- a worker hangs; the others go on, and later with it ----------------------------------------

meeting, where = meet()
flags = ["--sync", "topk:0.1", "--steps", 10**8, "--eval-every", 0, "--log-every", 1, "--timeout", FIXED,
         "--learn-timeout", "--streams", 2]
trio = [Worker(where, "2:3", *flags, "--out", "hangs")]
trio[0].await_line("waiting for 1 more worker")  # it is worker 0, who writes the run directory
trio += [Worker(where, "2:3", *flags, "--out", "hangs") for _ in range(2)]
trio[0].await_line("3 workers")
await_steps("hangs", 100)
trio[2].process.send_signal(signal.SIGSTOP)
before = time.monotonic()
trio[0].await_line("2 workers, 0 new, 1 gone")
took = time.monotonic() - before
print(f"a worker that hangs was missed after {took:.1f} s; the fixed limits are {FIXED} s")
check(took < FIXED / 3, f"a worker that hangs was missed after {took:.1f} s")
await_steps("hangs", 20)
heard = len(trio[2].lines)
trio[2].process.send_signal(signal.SIGCONT)
trio[2].await_line("3 workers", heard)
await_steps("hangs", 20)
for w in trio:
    w.process.kill()
    w.end()

# ---- with workers that must not change, the others name it and end -------------------------------

trio = [Worker(where, "3", *flags[:-2], "--out", "named") for _ in range(3)]
await_steps("named", 100)
victim = trio[1]
victim.process.send_signal(signal.SIGSTOP)
before = time.monotonic()
for w in trio[::2]:
    code, _ = w.end()
    check(code == 1, f"exit {code} beside a worker that hangs: {w.lines[-3:]}")
    check(any("has not answered for" in line for line in w.lines), f"no word about it: {w.lines[-3:]}")
check(time.monotonic() - before < FIXED / 3, "the others ended late")
victim.process.kill()
victim.end()

# ---- two connections per pair ----------------------------------------------------------------------

flags = ["--sync", "topk:0.1", "--epochs", 4, "--json"]
alone = json.loads(succeed("train", *SMALL, "--workers", 3, *flags, "--out", "alone").stdout)
for encrypt in "on", "off":
    trio = [Worker(where, "3:3", *flags, "--out", f"two-{encrypt}", "--streams", 2, "--encrypt", encrypt)
            for _ in range(3)]
    ends = [w.end() for w in trio]
    told = [json.loads(out) for code, out in ends if out.strip()]
    check(all(code == 0 for code, _ in ends), f"two connections: {[w.lines[-2:] for w in trio]}")
    check(len(told) == 1 and told[0]["model_hash"] == alone["model_hash"], "two connections: another model")

flags = ["--sync", "topk:0.1", "--steps", 10**8, "--eval-every", 0, "--log-every", 1, "--out", "refused"]
pair = [Worker(where, "2:3", *flags, "--streams", 2) for _ in range(2)]
pair[0].await_line("2 workers")
other = Worker(where, "2:3", *flags, "--streams", 3)
code, _ = other.end()
check(code != 0 and any("2 connections per pair" in line and "3 connections per pair" in line for line in other.lines),
      f"another number of connections: exit {code}, {other.lines}")
await_steps("refused", 20)
for w in pair:
    w.process.kill()
    w.end()
check(run("train", "--streams", 17).returncode == 2, "17 connections")
meeting.kill()
meeting.wait()
finish()
