# SPDX-License-Identifier: Apache-2.0
#
# test_cli_resume.py - runs that are stopped by Ctrl-C, by kill -9 of a worker or of the
# whole job, at any moment and while a checkpoint is written, and then resumed until
# they are done: model, log and summary are those of a run that was never stopped, and
# once there is a checkpoint there is a good one ever after.
#
# GW_KILLS=200 says how many kills (default: a handful), GW_TEST_SEED repeats a run.
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

GRADWIRE = os.path.abspath(os.environ["GRADWIRE"])
KILLS = int(os.environ.get("GW_KILLS", "14"))
SEED = int(os.environ.get("GW_TEST_SEED", str(time.time_ns() % 1000000)))
JOB = ["--model", "softmax", "--data", "synthetic:train=900,test=60,dim=200,classes=5",
       "--batch", "8", "--workers", "3", "--epochs", "6", "--log-every", "11", "--quiet"]
CASES = [["--sync", "dense"], ["--sync", "gtopk:0.02"], ["--sync", "drop:0.97"],
         ["--sync", "local:4"], ["--sync", "pqasgd:4,4"],
         ["--sync", "a2sgd", "--momentum", "0.9"]]
TIMES = {"seconds", "compute_s", "sync_s", "encode_s", "wait_s", "decode_s", "eval_s", "wall_s"}

failures = []
counts = {}


def check(ok, what):
    if not ok:
        failures.append(what)
        print("FAILED:", what, flush=True)


def start(out, args):
    return subprocess.Popen([GRADWIRE, "train", *JOB, *args, "--out", out],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            start_new_session=True)


def finish(command):
    """Exit status and standard error; nothing here may take as long as the limit."""
    try:
        err = command.communicate(timeout=120)[1].decode(errors="replace")
    except subprocess.TimeoutExpired:
        os.killpg(command.pid, signal.SIGKILL)
        err = command.communicate()[1].decode(errors="replace") + "(did not end)"
    return command.returncode, err


def without_times(record):
    return {k: v for k, v in record.items() if k not in TIMES}


def result(out):
    with open(f"{out}/summary.json") as f:
        summary = without_times(json.load(f))
    with open(f"{out}/metrics.jsonl") as f:
        return summary, [without_times(json.loads(line)) for line in f]


def checkpoints(out):
    try:
        return sorted(n for n in os.listdir(out) if n.endswith(".gwc"))
    except OSError:
        return []


def workers_of(command):
    try:
        with open(f"/proc/{command.pid}/task/{command.pid}/children") as f:
            return sorted(int(p) for p in f.read().split())
    except OSError:
        return []


def await_write(command, out, seen):
    """Waits until a checkpoint is being written, or the run is over."""
    end = time.time() + 60
    while command.poll() is None and time.time() < end:
        if len(checkpoints(out)) >= seen and os.path.exists(f"{out}/checkpoint.partial"):
            return


def strike(command, how, rng):
    """Ends the run somehow. The run may be over by then."""
    try:
        if how == "ctrl-c":
            os.kill(command.pid, signal.SIGINT)
        elif how == "worker":
            victims = workers_of(command)
            if victims:
                os.kill(rng.choice(victims), signal.SIGKILL)
        else:
            os.killpg(command.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def look_at_end(how, code, err, name):
    """Whether the run came to its end; otherwise it ended as it was told to."""
    if code == 0:
        return True
    # Ctrl-C may come before the run listens to it.
    expected = {"ctrl-c": (130, -2), "worker": (1,), "job": (-9,), "write": (-9,)}[how]
    check(code in expected, f"{name}: {how}: exit {code}, {err!r}")
    return False


def arguments(out, case, spawn, rng, started):
    args = [*case, "--spawn", spawn, "--checkpoint-every", str(rng.choice([1, 3, 10, 25]))]
    if checkpoints(out):
        return args + ["--resume"]
    check(not started, f"{out}: was left without a checkpoint")
    return args + ["--force"]


def one_job(out, case, spawn, kills, span, rng, expected):
    """Kills a job so many times, then lets it come to its end."""
    name = f"{' '.join(case)} {spawn}"
    hows = ["ctrl-c", "job", "write"] + (["worker"] if spawn == "processes" else [])
    started = False
    for kill in range(kills + 1):
        args = arguments(out, case, spawn, rng, started)
        started = started or "--resume" in args
        command = start(out, args)
        how = rng.choice(hows)
        if kill < kills:
            if how == "write":
                await_write(command, out, rng.choice([0, 1, 2]))
            time.sleep(0 if how == "write" else rng.uniform(0, span))
            strike(command, how, rng)
            counts[how] = counts.get(how, 0) + 1
        code, err = finish(command)
        if kill == kills:
            check(code == 0, f"{name}: exit {code}, {err!r}")
        elif look_at_end(how, code, err, name):
            break
    summary, log = result(out)
    check(summary == expected[0], f"{name}: summary differs: {summary} {expected[0]}")
    check(log == expected[1], f"{name}: log differs")


def reference(out, case, spawn):
    """What comes out without a stop, and how long it takes with checkpoints."""
    code, err = finish(start(out, [*case, "--spawn", spawn]))
    check(code == 0, f"{case}: {err!r}")
    expected = result(out)
    begin = time.time()
    code, err = finish(start(out, [*case, "--spawn", spawn, "--checkpoint-every", "10",
                                   "--force"]))
    check(code == 0 and result(out) == expected, f"{case}: checkpoints change the run")
    return expected, time.time() - begin


def main(tmp):
    rng = random.Random(SEED)
    print(f"{KILLS} kills, GW_TEST_SEED={SEED}", flush=True)
    known, done, trial = {}, 0, 0
    while done < KILLS and not failures:
        case = CASES[trial % len(CASES)]
        spawn = ["processes", "threads"][(trial // len(CASES) + trial) % 2]
        key = (*case, spawn)
        if key not in known:
            known[key] = reference(f"{tmp}/reference-{trial}", case, spawn)
        expected, span = known[key]
        before = sum(counts.values())
        one_job(f"{tmp}/run-{trial}", case, spawn, min(KILLS - done, rng.randint(1, 4)), span,
                rng, expected)
        done += sum(counts.values()) - before
        trial += 1


with tempfile.TemporaryDirectory() as folder:
    main(folder)
print(f"{counts}, {len(failures)} failed")
sys.exit(1 if failures else 0)
