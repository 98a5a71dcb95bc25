# SPDX-License-Identifier: Apache-2.0
#
# test_python_join.py - processes that join a job by its meeting: a comm, a model that is
# attached to the group, a report, and clear errors. Without torch the model is left out.
import json
import os
import re
import subprocess
import sys
import tempfile

from support_checks import GRADWIRE, check, finish, run, succeed

import gradwire

KEY = "a key for this very test"

if "no OpenSSL" in run("meet").stderr:
    print("skipped: this build has no OpenSSL")
    sys.exit(77)

WORKER = """
import sys
import gradwire
where = {"out_only": True} if "out" in sys.argv[2] else {"address": "127.0.0.1"}
group = gradwire.join(sys.argv[1], key_file="job.key", workers=2, name=sys.argv[2], streams=2,
                      learn_timeout=True, **where)
comm = group.comm
rank = comm.rank
comm.pause()
heard = comm.allgather(b"%d" % comm.rank)
assert heard == [b"0", b"1"] and comm.workers == 2 and group.view >= 1 and not group.due, heard
try:
    import torch
except ImportError:
    torch = None
total = 0.0
if torch is not None:
    torch.manual_seed(rank)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    handle = gradwire.attach(model, "topk:0.5", optimizer, group=group)
    for step in range(20):
        optimizer.zero_grad()
        model(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()
        group.report(step + 1, steps=20, loss=0.5, bytes_sent=1000)
    handle.finish()
    total = float(sum(p.double().sum() for p in model.parameters()))
print(rank, total, flush=True)
sys.stdin.readline()
group.leave()
"""


def expect(kind, words, **settings):
    try:
        gradwire.join(**settings)
        check(False, f"join({settings}) succeeds")
    except kind as error:
        check(words in str(error), f"join({settings}) says {error}")


there = tempfile.TemporaryDirectory()
os.chdir(there.name)
with open("job.key", "w") as f:
    f.write(KEY + "\n")
os.chmod("job.key", 0o600)
meeting = subprocess.Popen([GRADWIRE, "meet", "--listen", "127.0.0.1:0", "--key-file", "job.key"],
                           stdout=subprocess.PIPE, text=True)
port = re.search(r"port (\d+)", meeting.stdout.readline()).group(1)
where = f"tcp://127.0.0.1:{port}"

workers = [subprocess.Popen([sys.executable, "-c", WORKER, where, name], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True) for name in ("alpha", "beta")]
said = sorted(w.stdout.readline().split() for w in workers)
check([s[0] for s in said] == ["0", "1"], f"workers say {said}")
check(len({s[1] for s in said}) == 1, f"models differ: {said}")
status = json.loads(succeed("status", where, "--key-file", "job.key", "--json").stdout)
check({w["name"] for w in status["workers"]} == {"alpha", "beta"}, f"status says {status}")

expect(gradwire.MismatchError, "this job has 2 workers", meeting=where, key=KEY, workers=3)
expect(gradwire.PeerError, "same job and key", meeting=where, key="another key of a test", workers=2)
expect(gradwire.PeerError, "nobody answers", meeting="tcp://127.0.0.1:1", key=KEY, workers=2)
expect(ValueError, "tcp://HOST:PORT", meeting="udp://x:1", key=KEY)
expect(ValueError, "GRADWIRE_KEY", meeting=where)
expect(ValueError, "only one of", meeting=where, key=KEY, key_file="job.key")
os.chmod("job.key", 0o640)
expect(ValueError, "job.key can be used by others on this machine; run 'chmod 600 job.key'", meeting=where,
       key_file="job.key", workers=2)
os.chmod("job.key", 0o600)

for w in workers:
    w.communicate("\n", timeout=100)
    check(w.returncode == 0, f"a worker ends with {w.returncode}")

# Two that can only call out get the same model, through the meeting.
behind = [subprocess.Popen([sys.executable, "-c", WORKER, where, name], stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE, text=True) for name in ("out-1", "out-2")]
same = sorted(w.stdout.readline().split() for w in behind)
check(same == said, f"two that only call out say {same}, and others {said}")
status = json.loads(succeed("status", where, "--key-file", "job.key", "--json").stdout)
check([w["out_only"] for w in status["workers"]] == [True, True], f"status says {status}")
for w in behind:
    w.communicate("\n", timeout=100)
    check(w.returncode == 0, f"a worker that only calls out ends with {w.returncode}")

# Those who wait can be told, and leave.
lines = []
with gradwire.join(where, key=KEY, workers=(1, 4), tell=lines.append) as alone:
    check(alone.comm.workers == 1 and alone.comm.rank == 0, "one worker is enough for this job")
    check(alone.comm.allgather(b"x") == [b"x"], "one hears itself")
    before = alone.view
    check(alone.next().workers == 1 and alone.view == before + 1, f"view {alone.view} after {before}")
meeting.terminate()
meeting.wait()

# A meeting in a process of a worker.
told = []
with gradwire.Meeting("127.0.0.1:0", key_file="job.key", tell=told.append) as own:
    where = f"tcp://127.0.0.1:{own.port}"
    with gradwire.join(where, key=KEY, workers=2, name="alpha", streams=2, learn_timeout=True) as group:
        other = subprocess.Popen([sys.executable, "-c", WORKER, where, "beta"], stdin=subprocess.PIPE,
                                 stdout=subprocess.DEVNULL)
        check(group.comm.workers == 2, "two workers meet at the meeting of one")
        group.comm.pause()
        check(group.comm.allgather(b"0") == [b"0", b"1"], "they hear each other")
    other.kill()
    other.communicate()
check(any("view 1 has 2 workers" in line for line in told), f"the meeting told {told}")
try:
    own.port
    check(False, "a closed meeting has a port")
except ValueError as error:
    check("closed" in str(error), f"a closed meeting says {error}")
for kind, words, settings in ((ValueError, "expected HOST:PORT", {"listen": "here", "key": KEY}),
                              (ValueError, "GRADWIRE_KEY", {"listen": "127.0.0.1:0"}),
                              (ValueError, "16 to 1024", {"listen": "127.0.0.1:0", "key": "short"})):
    try:
        gradwire.Meeting(**settings)
        check(False, f"Meeting({settings}) succeeds")
    except kind as error:
        check(words in str(error), f"Meeting({settings}) says {error}")
os.chdir("/")
finish()
