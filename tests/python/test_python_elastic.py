#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# test_python_elastic.py - PyTorch workers that die, join and leave while they train. Those
# that are left at the end have the same model, optimizer and schedule. GW_ELASTIC_ALL=1 tries
# more methods, and kills more.
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

import support_etcd
from support_checks import GRADWIRE, check, finish, run
from torch_crew import skip_without

skip_without("numpy")
skip_without("torch")
import torch_example

if "no OpenSSL" in run("meet").stderr:
    print("skipped: this build has no OpenSSL")
    sys.exit(77)

SEED = int(os.environ.get("GW_TEST_SEED", "1"))
SPECS, KILLS = [("dense", "adam"), ("local:4+topk:0.1", "sgd")], 1
if os.environ.get("GW_ELASTIC_ALL"):
    SPECS, KILLS = [*SPECS, ("gtopk:0.1", "sgd"), ("gtopk:0.1", "adam")], 3

WORKER = """
import hashlib, os, signal, sys, time
import torch
import gradwire
torch.set_num_threads(1)
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
where, spec, kind = sys.argv[1:]
torch.manual_seed(os.getpid())
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.Tanh(),
                            torch.nn.Linear(16, 1))
model[0].bias.requires_grad = False
optimizer = {"adam": lambda: torch.optim.Adam(model.parameters(), lr=0.01),
             "sgd": lambda: torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)}[kind]()
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.999)
group = gradwire.join(where, key="a key for this very test", workers=(2, 4), address="127.0.0.1",
                      tell=lambda line: print(line, flush=True))
handle = gradwire.attach(model, spec, optimizer, group=group, shared=[schedule])
last = 10**9
while handle.step < last and not asked:
    draw = torch.Generator().manual_seed(handle.step * 8 + handle.rank)
    x = torch.randn(16, 8, generator=draw)
    optimizer.zero_grad()
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    loss.backward()
    optimizer.step()
    schedule.step()
    print("step", handle.step, handle.workers, float(loss), flush=True)
    if os.path.exists("last"):
        last = int(open("last").read())
    time.sleep(0.002)
if asked:
    handle.leave()
    print("left", flush=True)
    sys.exit(0)
handle.finish()
state = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
if kind == "adam" and "local" not in spec:
    state += b"".join(s["exp_avg"].numpy().tobytes() for s in optimizer.state.values())
print("end", handle.step, schedule.last_epoch, hashlib.sha256(state).hexdigest(), float(loss), flush=True)
group.leave()
"""


class Worker:
    """A process, and the lines that it has written."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen([sys.executable, "-c", WORKER, *arguments], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.lines, self.step = [], 0
        self.there = threading.Condition()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            with self.there:
                self.lines.append(line.split())
                if self.lines[-1][0] == "step":
                    self.step = int(self.lines[-1][1])
                self.there.notify_all()
        with self.there:
            self.step = 10**10
            self.there.notify_all()

    def await_step(self, step):
        """Waits until it has made that step, or has ended."""
        with self.there:
            self.there.wait_for(lambda: self.step >= step, 100)
        check(step <= self.step < 10**9, f"a worker does not come to step {step}: {self.lines[-3:]}")

    def await_steps(self, count):
        """Waits for so many steps more."""
        self.await_step(self.step + count)

    def end(self):
        errors = self.process.stderr.read()
        check(self.process.wait(100) == 0, f"a worker ended with {self.process.returncode}: {errors}")
        self.reader.join()
        return self.lines[-1]


def churn(where, spec, kind, meanwhile=lambda: None):
    draw = random.Random(SEED)
    if os.path.exists("last"):
        os.remove("last")
    crew = [Worker(where, spec, kind) for _ in range(3)]
    for w in crew:
        w.await_steps(20)
    meanwhile()
    more = Worker(where, spec, kind)  # while one dies
    for _ in range(KILLS):
        dead = crew.pop(draw.randrange(len(crew)))
        time.sleep(draw.uniform(0, 0.01))
        dead.process.kill()
        for w in crew:
            w.await_steps(5)
        more.await_steps(5)
        crew.append(more)
        more = Worker(where, spec, kind)
    more.await_steps(5)
    leaver = crew.pop(draw.randrange(len(crew)))
    leaver.process.send_signal(signal.SIGTERM)
    check(leaver.end() == ["left"], f"a worker that was asked to leave says {leaver.lines[-1]}")
    crew.append(more)
    for w in crew:
        w.await_steps(10)
    with open("new", "w") as f:
        f.write(str(max(w.step for w in crew) + 400))
    os.rename("new", "last")
    ends = [w.end() for w in crew]
    check(len({tuple(e[:4]) for e in ends}) == 1, f"'{spec}': workers end with {ends}")
    check(ends[0][0] == "end" and ends[0][1] == ends[0][2], f"'{spec}': the schedule ends with {ends[0]}")
    check(float(ends[0][4]) < 5, f"'{spec}': the loss is {ends[0][4]}")


LEAVER = """
import os, signal, sys
import torch
import gradwire
where, minimum, what = sys.argv[1:]
asked = []
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
group = gradwire.join(where, key="a key for this very test", workers=(int(minimum), 3), address="127.0.0.1",
                      tell=lambda line: print(line, flush=True))
signal.signal(signal.SIGTERM, lambda *_: (asked.append(1), group.leaving()))
handle = gradwire.attach(model, "topk:0.1", optimizer, group=group)
try:
    while not asked:
        optimizer.zero_grad()
        model(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()
        print("step", handle.step, flush=True)
        if what == "input":
            sys.stdin.readline()
            break
except gradwire.GradwireError:
    if not asked:
        raise
handle.leave()
print("left", flush=True)
"""


def leavers(where):
    """Those who leave one after another, or together, or while others are too few, all end."""
    global WORKER
    before, WORKER = WORKER, LEAVER
    crew = [Worker(where, "2", "input") for _ in range(2)]
    for w in crew:
        w.await_step(1)
    for w in crew:  # the second one finds nobody
        w.process.stdin.write("leave\n")
        w.process.stdin.flush()
        if w is crew[0]:
            w.process.stdin.close()
    for w in crew:
        check(w.end() == ["left"], f"one of two that leave says {w.lines[-1]}")
    check(sum("is lost" in " ".join(line) for w in crew for line in w.lines) >= 1, "somebody hands over to nobody")
    crew = [Worker(where, "2", "steps") for _ in range(2)]
    for w in crew:
        w.await_step(1)
    crew[0].process.kill()
    crew[0].process.wait()
    end = time.monotonic() + 100
    while ["waiting", "for", "1", "more"] not in [line[:4] for line in crew[1].lines[3:]] and time.monotonic() < end:
        time.sleep(0.05)
    crew[1].process.send_signal(signal.SIGTERM)  # in the middle of a step
    check(crew[1].end() == ["left"], f"one that waits for others says {crew[1].lines[-1]}")
    WORKER = before


def example(where):
    """The script of python/examples, by two workers."""
    torch_example.make_images(os.getcwd())
    script = os.path.join(os.environ["GRADWIRE_SOURCE"], "python", "examples", "elastic.py")
    crew = [subprocess.Popen([sys.executable, script, where, "--key-file", "job.key", "--steps", "100", "--batch",
                              "16", "--workers", "2", "2", "--data-dir", os.getcwd()],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [w.communicate(timeout=300) for w in crew]
    check(all(w.returncode == 0 for w in crew), f"the example says {said}")
    check(any("accuracy " in out for out, _ in said), f"the example says {said}")


there = tempfile.TemporaryDirectory()
os.chdir(there.name)
with open("job.key", "w") as f:
    f.write("a key for this very test\n")
os.chmod("job.key", 0o600)
for train, *what in [(churn, *job) for job in SPECS] + [(leavers,), (example,)]:
    meeting = subprocess.Popen([GRADWIRE, "meet", "--listen", "127.0.0.1:0", "--key-file", "job.key"],
                               stdout=subprocess.PIPE, text=True)
    port = re.search(r"port (\d+)", meeting.stdout.readline()).group(1)
    train(f"tcp://127.0.0.1:{port}", *what)
    meeting.terminate()
    meeting.wait()
if support_etcd.is_there():
    etcd = support_etcd.Etcd()
    check(etcd.wait("job.key"), "etcd does not answer")
    churn(etcd.meeting("job-1"), "topk:0.1", "sgd", lambda: etcd.kill(0))
    etcd.end()
os.chdir("/")
finish()
