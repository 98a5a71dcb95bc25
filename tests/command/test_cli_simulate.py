# SPDX-License-Identifier: Apache-2.0
#
# test_cli_simulate.py - `gradwire simulate`. Where coding is free, simulated time is a
# pure function of the settings: it is compared with formulas, however busy this
# machine is.
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

GRADWIRE = os.path.abspath(os.environ["GRADWIRE"])
LATENCY, RATE = 436e-6, 1e9 / 8
LINK = "1gbit,436us"
# SimGrid puts so many bytes of its own in front of each message.
ENVELOPE = 16

failures = []


def check(ok, what):
    if not ok:
        failures.append(what)
        print("FAILED:", what)


def run(*args, env=None):
    return subprocess.run([GRADWIRE, "simulate", *args], capture_output=True, text=True,
                          timeout=250, env={**os.environ, **(env or {})})


def points(*args, env=None):
    """The rows of a simulation in which coding is free."""
    r = run("--json", "--codec", "free", "--steps", "2", "--link", LINK, *args, env=env)
    if r.returncode != 0:
        check(False, f"{args}: exit {r.returncode}: {r.stderr}")
        return []
    return [json.loads(line) for line in r.stdout.splitlines()]


def near(a, b, tolerance, what):
    check(abs(a - b) <= tolerance * abs(b), f"{what}: {a:.9g}, not {b:.9g}")


def expect_error(code, words, *args, env=None):
    r = run(*args, env=env)
    last = r.stderr.splitlines()[-1] if r.stderr else ""
    what = f"{' '.join(args)!r}: exit {r.returncode}, {r.stderr!r}"
    check(r.returncode == code, what + f": not exit {code}")
    check(last.startswith("gradwire: "), what + ": the last line is no message")
    check(all(w in last for w in words), what + f": lacks one of {words}")


def test_one_message():
    """Two workers that send each other one message: latency and bytes, no more."""
    for n in (100, 100000):
        for p in points("--sync", "topk:0.01", "--workers", "2", "--params", str(n)):
            wire = LATENCY + (p["bytes_sent"] + ENVELOPE) / RATE
            near(p["step_s"], wire, 1e-3, f"one message, {n} floats")
            check(p["messages_sent"] == 1, f"not one message: {p['messages_sent']}")
            near(p["step_s"], p["predicted_s"], 2e-3, f"its formula, {n} floats")


def test_formulas():
    rows = points("--sync", "dense topk:0.01 gtopk:0.01", "--sync", "a2sgd", "--workers",
                  "4 8", "--params", "20000", "--compute", "5")
    check(len(rows) == 8, f"{len(rows)} rows instead of 8")
    for p in rows:
        what = f"{p['sync']} on {p['workers']}"
        workers, n = p["workers"], p["params"]
        wire, logp = p["step_s"] - 0.005, (workers - 1).bit_length()
        near(p["wire_s"], wire, 1e-6, what + ": the parts and the whole")
        near(p["efficiency"], 0.005 / p["step_s"], 1e-6, what + ": efficiency")
        if p["sync"] == "dense":
            ring = 2 * (workers - 1) * (LATENCY + 4 * n / workers / RATE)
            near(wire, ring, 0.02, what)
            near(p["predicted_s"] - 0.005, ring, 1e-6, what + ": predicted")
        elif p["sync"] == "topk:0.01":
            near(wire, LATENCY + p["bytes_received"] / RATE, 0.02, what)
        elif p["sync"] == "gtopk:0.01":
            size = p["bytes_sent"] / p["messages_sent"]
            pairs = logp * (LATENCY + size / RATE)
            check(pairs * 0.98 <= wire <= pairs + logp * (size + ENVELOPE) / RATE,
                  f"{what}: {wire:.6g} is not {pairs:.6g} or a little more")
        else:
            near(wire, logp * LATENCY, 0.02, what)


def test_same_again():
    args = ("--sync", "gtopk:0.01 qsgd:4", "--workers", "3", "--params", "5000")
    check(points(*args) == points(*args), "the same simulation gave something else")


def test_tick():
    """Ends of messages that are treated as one change a step by a few ticks, and no bytes."""
    args = ("--sync", "topk:0.01 qsgd:4", "--workers", "8", "--params", "20000")
    for exact, coarse in zip(points(*args), points(*args, "--tick", "20")):
        what = f"--tick 20, {exact['sync']}"
        check(abs(exact["step_s"] - coarse["step_s"]) <= 5 * 20e-6,
              f"{what}: {exact['step_s']:.6g} and {coarse['step_s']:.6g} s")
        check(exact["bytes_sent_all"] == coarse["bytes_sent_all"], what + ": other bytes")
    expect_error(2, ["--tick"], "--tick", "-1")


def test_every_recipe():
    """All of them, folded and not: none makes NaN, and sizes do not depend on it."""
    listed = json.loads(subprocess.run([GRADWIRE, "list", "--json"], check=True,
                                       capture_output=True, text=True).stdout)
    syncs = " ".join(s["example"] for s in listed["syncs"])
    args = ("--sync", syncs, "--workers", "5", "--params", "9000", "--steps", "8")
    apart, folded = (points(*args, "--fold", fold) for fold in ("off", "on"))
    check(len(apart) == len(listed["syncs"]) == len(folded), "a recipe is missing")
    for a, f in zip(apart, folded):
        near(f["bytes_sent"], a["bytes_sent"], 0.05, a["sync"] + ": bytes, folded")
        near(f["step_s"], a["step_s"], 0.05, a["sync"] + ": a step, folded")
        check(f["folded"] and not a["folded"], a["sync"] + ": does not say what is folded")


def test_periods():
    """Whole periods are simulated, so a step costs its part of an exchange."""
    dense, local, outer = points("--sync", "dense local:6 diloco:6", "--workers", "4", "--params", "20000")
    for p in (local, outer):
        check(p["steps"] == 6, f"{p['sync']}: {p['steps']} steps")
        near(p["bytes_sent"], dense["bytes_sent"] / 6, 0.01, p["sync"] + ": bytes")
        near(p["step_s"], dense["step_s"] / 6, 0.05, p["sync"] + ": a step")


def test_switches():
    """A message between switches takes the latency of both, and the slower rate."""
    for p in points("--sync", "topk:0.01", "--workers", "2", "--params", "100000",
                    "--hosts-per-switch", "1", "--uplink", "100mbit,1ms"):
        wire = LATENCY + 1e-3 + (p["bytes_sent"] + ENVELOPE) / (RATE / 10)
        near(p["step_s"], wire, 1e-3, "one message between switches")
    for p in points("--sync", "dense", "--workers", "6", "--params", "20000",
                    "--hosts-per-switch", "4"):
        check(p["step_s"] > 10 * LATENCY, "six workers on two switches")


def test_fragments():
    """Each fragment has an exchange of its own, and so has its latencies."""
    for p in points("--sync", "diloco:12,fragments=3 diloco:12,fragments=3,delay=2", "--workers", "4",
                    "--params", "300000", "--compute", "2"):
        near(p["step_s"], p["predicted_s"], 1e-2, f"{p['sync']}: predicted")


def test_measured():
    r = run("--json", "--sync", "gtopk:0.01", "--workers", "3", "--params", "50000",
            "--compute", "20", "--batch", "16", "--rounds", "2")
    check(r.returncode == 0, f"measured: {r.stderr}")
    for line in r.stdout.splitlines():
        p = json.loads(line)
        check(p["encode_s"] > 0 and p["decode_s"] > 0, "coding took no time")
        check(p["step_s"] > 0.02, "a step is shorter than its computing")
        near(p["samples_per_s"], 3 * 16 / p["step_s"], 1e-6, "samples per second")
    # Several rounds in folded memory: what an earlier one left must not be added.
    r = run("--sync", "dense local:2", "--workers", "4", "--params", "100000", "--fold", "on",
            "--rounds", "3")
    check(r.returncode == 0, f"folded rounds: {r.stderr}")
    r = run("--workers", "2", "--params", "1000")
    check(r.returncode == 0 and "predicted" in r.stdout, f"a table: {r.stdout} {r.stderr}")
    r = run("--sync", "dense diloco:12,fragments=2,delay=1", "--workers", "2", "--params", "1000", "--codec", "free")
    ends = {re.match(r"\S+ +\S+", line).end() for line in r.stdout.splitlines()}
    check(r.returncode == 0 and len(ends) == 1, f"a long spec moves its row: {r.stdout}")


def test_recorded(folder):
    path = os.path.join(folder, "a gradient")
    with open(path, "wb") as f:
        f.write(struct.pack("<1000f", *(((i * 7919) % 1000 - 500) / 500 for i in range(1000))))
    check(len(points("--sync", "topk:0.01", "--workers", "2", "--params", "1000",
                     "--gradients", path)) == 1, "a recorded gradient")
    run_dir = os.path.join(folder, "run")
    r = subprocess.run([GRADWIRE, "train", "--data",
                        "synthetic:train=400,test=50,dim=20,classes=4", "--model", "softmax",
                        "--workers", "2", "--batch", "8", "--steps", "3", "--out", run_dir,
                        "--record-gradient", path + " 2"], capture_output=True, text=True)
    check(r.returncode == 0, f"train --record-gradient: {r.stderr}")
    check(os.path.getsize(path + " 2") == 4 * (20 * 4 + 4), "a gradient of 84 floats")
    check(len(points("--sync", "topk:0.1", "--workers", "2", "--params", "84",
                     "--gradients", path + " 2")) == 1, "a gradient of a run")
    expect_error(1, ["1000", "2000"], "--params", "2000", "--workers", "2", "--gradients",
                 path)
    expect_error(1, ["cannot open", "no such"], "--gradients", folder + "/no such file",
                 "--workers", "2")


def test_usage(folder):
    expect_error(2, ["--workers"], "--workers", "0")
    expect_error(2, ["--workers"], "--workers", "4 1025")
    expect_error(2, ["--workers"], "--workers", " ")
    expect_error(2, ["link"], "--link", "fast")
    expect_error(2, ["link"], "--uplink", "1gbit,soon")
    expect_error(2, ["topkk"], "--sync", "topkk:0.1")
    expect_error(2, ["the list is empty"], "--sync", " ")
    expect_error(2, ["vgg16"], "--model", "vgg19")
    expect_error(2, ["--tensors"], "--tensors", "20", "--params", "10")
    expect_error(2, ["--workerz", "--workers"], "--workerz", "4")
    r = run("--help")
    check(r.returncode == 0 and "--hosts-per-switch" in r.stdout, "--help")
    expect_error(1, ["smpirun", "libsimgrid-dev"], env={"PATH": folder})


def test_failing_simgrid(folder):
    """A program that fails is quoted."""
    fake = os.path.join(folder, "bin")
    os.mkdir(fake)
    with open(fake + "/smpirun", "w") as f:
        f.write("#!/bin/sh\necho an error of some kind >&2\nexit 3\n")
    os.chmod(fake + "/smpirun", 0o755)
    expect_error(1, ["smpirun", "an error of some kind"], "--workers", "2",
                 env={"PATH": fake + ":" + os.environ["PATH"]})


def processes_in(folder):
    """Those whose working directory is in there."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/cwd").startswith(folder):
                found.append(pid)
        except OSError:
            pass
    return found


def stop(work, path=os.environ["PATH"]):
    """Ctrl-C as soon as something runs: exit 130, and neither files nor processes stay behind."""
    os.mkdir(work)
    p = subprocess.Popen([GRADWIRE, "simulate", "--workers", "16", "--steps", "100000",
                          "--sync", "dense", "--codec", "free"],
                         env={**os.environ, "TMPDIR": work, "PATH": path},
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 60
    while not processes_in(work) and time.monotonic() < end:
        time.sleep(0.02)
    p.send_signal(signal.SIGINT)
    check(p.wait(timeout=120) == 130, f"Ctrl-C: exit {p.returncode}")
    check(os.listdir(work) == [], f"Ctrl-C left {os.listdir(work)}")
    end = time.monotonic() + 60
    while processes_in(work) and time.monotonic() < end:
        time.sleep(0.1)
    check(processes_in(work) == [], "Ctrl-C left a process")


def test_stopping(folder):
    stop(os.path.join(folder, "tmp"))


def test_stopping_a_child(folder):
    """What smpirun starts may not have seen the signal that ends smpirun."""
    deaf = os.path.join(folder, "deaf")
    os.mkdir(deaf)
    with open(deaf + "/smpirun", "w") as f:
        f.write("#!/bin/sh\n(trap '' TERM; exec sleep 300) &\nwait\n")
    os.chmod(deaf + "/smpirun", 0o755)
    stop(os.path.join(folder, "tmp-of-deaf"), deaf + ":" + os.environ["PATH"])


def main():
    r = run("--help")
    if r.returncode != 0 or shutil.which("smpirun") is None:
        print("skipped: no smpirun (Debian's libsimgrid-dev)")
        return 77
    listed = subprocess.run([GRADWIRE, "list"], capture_output=True, text=True).stdout
    if "gradwire simulate" not in listed:
        print("skipped: this build cannot simulate")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        test_usage(folder)
        test_one_message()
        test_formulas()
        test_same_again()
        test_tick()
        test_every_recipe()
        test_periods()
        test_switches()
        test_fragments()
        test_measured()
        test_recorded(folder)
        test_failing_simgrid(folder)
        test_stopping(folder)
        test_stopping_a_child(folder)
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
