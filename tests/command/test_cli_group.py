# SPDX-License-Identifier: Apache-2.0
#
# test_cli_group.py - a meeting, and workers that join it: the same model as on one machine, a
# status, and one clear line for those who are wrong, alone or gone.
import json
import os
import re
import signal
import socket
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


def start(*args):
    return subprocess.Popen([GRADWIRE, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end(process):
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def open_meeting(*flags, port=0):
    meeting = start("meet", "--listen", f"127.0.0.1:{port}", "--key-file", "job.key", *flags)
    port = re.search(r"port (\d+)", meeting.stdout.readline()).group(1)
    return meeting, f"tcp://127.0.0.1:{port}"


def joined(where, workers, *more):
    return start("train", *SMALL, "--join", where, "--key-file", "job.key", "--workers", workers, *more)


# ---- keys --------------------------------------------------------------------------------

succeed("meet", "--new-key", "job.key")
check(os.stat("job.key").st_mode & 0o777 == 0o600, "others cannot read a new key")
expect_error(2, ["job.key", "exists"], "meet", "--new-key", "job.key")
with open("open.key", "w") as f:
    f.write("a key that everybody can read\n")
os.chmod("open.key", 0o644)
expect_error(2, ["open.key", "chmod 600"], "meet", "--key-file", "open.key")
expect_error(2, ["missing.key"], "meet", "--key-file", "missing.key")
expect_error(2, ["16 to 1024"], "meet", env={**os.environ, "GRADWIRE_KEY": "short"})

# ---- the same model as on one machine ------------------------------------------------------

meeting, where = open_meeting()
alone = json.loads(succeed("train", *SMALL, "--workers", 3, "--sync", "topk:0.1", "--epochs", 4, "--out", "alone",
                           "--json").stdout)
for encrypt in "on", "off":
    flags = ["--sync", "topk:0.1", "--epochs", 4, "--encrypt", encrypt, "--json", "--out", f"together-{encrypt}"]
    workers = [joined(where, 3, *flags) for _ in range(3)]
    ends = [end(w) for w in workers]
    check(all(code == 0 for code, _, _ in ends), f"encrypt {encrypt}: {ends}")
    told = [out for _, out, _ in ends if out.strip()]
    check(len(told) == 1, f"encrypt {encrypt}: one worker prints the summary, not {len(told)}")
    if told:
        check(json.loads(told[0])["model_hash"] == alone["model_hash"], f"encrypt {encrypt}: another model")

# ---- status ---------------------------------------------------------------------------------

waiting = joined(where, 2, "--out", "later")
while waiting.stderr.readline().strip() != "note: waiting for 1 more worker; 1 of 2 there":
    pass
table = succeed("status", where, "--key-file", "job.key").stdout
check("0 running, 1 waiting; of 2 workers" in table, f"status says {table!r}")
status = json.loads(succeed("status", where, "--key-file", "job.key", "--json").stdout)
check(status["waiting"] == 1 and status["workers"][0]["state"] == "waits", f"status says {status}")

# ---- those who are wrong ----------------------------------------------------------------------

expect_error(1, ["same job and key"], "train", *SMALL, "--join", where, "--workers", 2,
             env={**os.environ, "GRADWIRE_KEY": "0123456789abcdef0123456789abcdef"})
expect_error(1, ["same job and key"], "status", where, "--key-file", "job.key", "--job", "other")
expect_error(1, ["this job has 2 workers"], "train", *SMALL, "--join", where, "--key-file", "job.key",
             "--workers", 3)
expect_error(2, ["--join", "--workers", "MIN:MAX"], "train", *SMALL, "--join", where, "--key-file", "job.key")
expect_error(2, ["--spawn"], "train", *SMALL, "--join", where, "--key-file", "job.key", "--workers", 2, "--spawn",
             "threads")
expect_error(2, ["udp://x:1", "tcp://HOST:PORT"], "train", *SMALL, "--join", "udp://x:1", "--key-file", "job.key",
             "--workers", 2)
expect_error(2, ["usage: gradwire status MEETING"], "status", "--key-file", "job.key")
with socket.create_server(("127.0.0.1", 0)) as mute:
    silent = "tcp://127.0.0.1:%d" % mute.getsockname()[1]
    expect_error(1, ["127.0.0.1:", "did not answer in time"], "status", silent, "--key-file", "job.key", "--timeout", 2)
    expect_error(1, ["127.0.0.1:", "did not answer in time"], "train", *SMALL, "--join", silent, "--key-file", "job.key",
                 "--workers", 2, "--timeout", 2)
expect_error(1, ["nobody answers", "127.0.0.1:1"], "status", "tcp://127.0.0.1:1", "--key-file", "job.key")

# ---- one is killed, another setting differs ------------------------------------------------------

other = joined(where, 2, "--out", "later", "--lr", 0.3)
ends = [end(w) for w in (waiting, other)]
check(all(code in (1, 2) and "--lr" in err for code, _, err in ends), f"workers with other rates: {ends}")

# Nothing is logged in this run: the meeting hears of steps.
endless = ["--epochs", 1000000, "--log-every", 10**12, "--eval-every", 0]
pair = [joined(where, 2, *endless, "--out", "killed") for _ in range(2)]
while '"running": 2' not in run("status", where, "--key-file", "job.key", "--json").stdout:
    pass
table = succeed("status", where, "--key-file", "job.key").stdout
while not re.search(r" runs +\d+/\d+ +\S+ +\d+ +\S+ k?M?B ", table):
    check(re.search(r"^worker +state +step +loss +samples/s +sent +address$", table, re.M), f"status says {table!r}")
    table = succeed("status", where, "--key-file", "job.key").stdout
third = joined(where, 2, "--out", "third")
full = "note: the job has all of its 2 workers; this one waits until one is gone\n"
check(any(line == full for line in iter(third.stderr.readline, "")), "a worker too many is not told so")
third.send_signal(signal.SIGINT)
end(third)
status = json.loads(succeed("status", where, "--key-file", "job.key", "--json").stdout)
first = min(status["workers"], key=lambda w: w["id"])
check(first["step"] > 0 and first["loss"] >= 0 and first["samples_per_second"] > 0 and first["bytes_sent"] > 0,
      f"status says {status}")
step = first["step"]
while min(status["workers"], key=lambda w: w["id"])["step"] <= step and pair[1].poll() is None:
    status = json.loads(succeed("status", where, "--key-file", "job.key", "--json").stdout)
check(pair[1].poll() is None and os.path.getsize("killed/metrics.jsonl") == 0, "the meeting hears of steps")
pair[0].send_signal(signal.SIGKILL)
pair[0].wait()
code, _, err = end(pair[1])
check(code == 1 and "is gone" in err, f"the one left: exit {code}, {err!r}")

# ---- the meeting ends; those who met go on ---------------------------------------------------------

pair = [joined(where, 2, "--epochs", 1000000, "--out", "goes-on", "--quiet") for _ in range(2)]
while '"running": 2' not in run("status", where, "--key-file", "job.key", "--json").stdout:
    pass
meeting.send_signal(signal.SIGINT)
code, out, err = end(meeting)
check(code == 0 and err == "", f"the meeting: exit {code}, {err!r}")
check("view 1 has 3 workers" in out, f"the meeting told {out!r}")
check(all(w.poll() is None for w in pair), "workers go on without the meeting")
expect_error(1, ["nobody answers"], "train", *SMALL, "--join", where, "--key-file", "job.key", "--workers", 2)

# ---- it is back, and goes on with the same view; then it is killed ------------------------------------

view = re.findall(r"view (\d+) has", out)[-1]
meeting, where = open_meeting(port=where.split(":")[-1])
check(meeting.stdout.readline() == f"goes on with view {view}, which has 2 workers\n", "the view goes on")
while '"running": 2' not in (said := run("status", where, "--key-file", "job.key", "--json").stdout):
    pass
check(json.loads(said)["view"] == int(view), f"view {view} becomes {said}")
meeting.send_signal(signal.SIGKILL)
meeting.communicate()
check(all(w.poll() is None for w in pair), "workers go on when the meeting is killed")
pair[0].send_signal(signal.SIGINT)
ends = [end(w) for w in pair]
check(all(code == 130 for code, _, _ in ends), f"Ctrl-C on one worker stops both: {ends}")
expect_error(1, ["nobody answers"], "train", *SMALL, "--join", where, "--key-file", "job.key", "--workers", 2)

os.chdir("/")
finish()
