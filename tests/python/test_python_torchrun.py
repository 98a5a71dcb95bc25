#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# test_python_torchrun.py - a job of workers that change, started by torchrun on each of two
# hosts (here: two torchruns): when a process of one host dies, torchrun ends and restarts all of
# that host, the others go on, and the restarted ones join again.
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading

from support_checks import GRADWIRE, check, finish, run
from torch_crew import skip_without

skip_without("numpy")
skip_without("torch")

if "no OpenSSL" in run("meet").stderr:
    print("skipped: this build has no OpenSSL")
    sys.exit(77)

WORKER = """
import hashlib, os, signal, sys
import torch
import gradwire
torch.set_num_threads(1)
asked = []
signal.signal(signal.SIGTERM, lambda *_: (asked.append(1), group.leaving()))
where, tag = sys.argv[1:]
rank, restart = os.environ["LOCAL_RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]
def say(text):
    print(f"{tag}{rank}.{restart} {text}", flush=True)
torch.manual_seed(os.getpid())
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
group = gradwire.join(where, key="a key for this very test", workers=(1, 4), address="127.0.0.1")
handle = gradwire.attach(model, "topk:0.5,warmup=0,ladder=0", optimizer, group=group)
say(f"pid {os.getpid()}")
at = 0
try:
    while not asked and not os.path.exists("enough"):
        draw = torch.Generator().manual_seed(handle.step * 8 + handle.rank)
        x = torch.randn(16, 8, generator=draw)
        optimizer.zero_grad()
        (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
        optimizer.step()
        if handle.workers != at:
            at = handle.workers
            say(f"workers {at}")
except gradwire.GradwireError:
    if not asked:
        raise
handle.leave()
group.leave()
say("left")
"""


class Host:
    """A torchrun with two workers, and what they have said so far."""

    def __init__(self, tag, where):
        env = dict(os.environ, OMP_NUM_THREADS="1", PYTHONUNBUFFERED="1")
        # Redirecting is what lets the torchrun of PyTorch 1.13 run on Python 3.11.
        self.process = subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--max_restarts", "3",
             "--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0", "--redirects", "1", "--tee", "1",
             "--log_dir", f"log-{tag}", "worker.py", where, tag],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
        self.lines, self.more = [], threading.Condition()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            with self.more:
                self.lines.append(line)
                self.more.notify()
        with self.more:
            self.lines.append(None)
            self.more.notify()

    def await_said(self, pattern):
        """The first match of the pattern in what was said, as soon as there is one."""
        with self.more:
            self.more.wait_for(lambda: self.lines[-1:] == [None] or self.find(pattern), timeout=300)
            found = self.find(pattern)
        check(found, f"'{pattern}' was not said: {self.lines}")
        return found

    def find(self, pattern):
        return re.search(pattern, "".join(line for line in self.lines if line))


def restart():
    meeting = subprocess.Popen([GRADWIRE, "meet", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True,
                               env={**os.environ, "GRADWIRE_KEY": "a key for this very test"})
    where = "tcp://127.0.0.1:" + re.search(r"port (\d+)", meeting.stdout.readline()).group(1)
    threading.Thread(target=meeting.stdout.read, daemon=True).start()
    a, b = Host("a", where), Host("b", where)
    for rank in "01":
        for host, tag in ((a, "a"), (b, "b")):
            host.await_said(f"{tag}{rank}.0 workers 4")
    victim = b.await_said(r"b1\.0 pid (\d+)")
    if victim:
        os.kill(int(victim.group(1)), signal.SIGKILL)
    # The entry compares all models, and refuses those that differ.
    for rank in "01":
        b.await_said(f"b{rank}.1 workers 4")
    check(a.find(r"a[01]\.1") is None, f"the other host was restarted, too: {a.lines}")
    check(a.process.poll() is None, "the other host has ended")
    with open("enough", "w"):
        pass
    for host in (a, b):
        check(host.process.wait(timeout=300) == 0, f"a host ends with {host.process.returncode}: {host.lines}")
        host.await_said("left")
    meeting.terminate()
    meeting.wait()


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    with open("worker.py", "w") as f:
        f.write(WORKER)
    restart()
    os.chdir("/")
finish()
