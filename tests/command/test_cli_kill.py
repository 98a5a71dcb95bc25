# SPDX-License-Identifier: Apache-2.0
#
# test_cli_kill.py - a worker is killed or stopped at start-up, in a step, in the
# evaluation and at the end, with 2 and with 5 workers: the command ends with exit
# status 1 within five seconds, names the rank and the signal, and leaves nothing.
import os
import signal
import subprocess
import sys
import tempfile
import time

GRADWIRE = os.path.abspath(os.environ["GRADWIRE"])
STEPS = ["--model", "softmax", "--data", "synthetic:train=2000,test=100,dim=50,classes=5",
         "--batch", "8", "--steps", "1000000", "--log-every", "1"]
# One step, and a test set that takes many times as long.
EVALUATION = ["--model", "fnn3", "--data", "synthetic:train=400,test=200000,dim=100,classes=5",
              "--batch", "8", "--steps", "1"]
# Over in an instant.
SHORT = ["--model", "softmax", "--data", "synthetic:train=400,test=50,dim=20,classes=4",
         "--batch", "8", "--steps", "5"]

failures = []
passed = 0


def check(ok, what):
    global passed
    if ok:
        passed += 1
    else:
        failures.append(what)
        print("FAILED:", what)


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            return [int(p) for p in f.read().split()]
    except OSError:
        return []


def await_workers(command, count):
    """The workers' process ids, in the order of ranks, as soon as all are there."""
    end = time.time() + 20
    while time.time() < end and command.poll() is None:
        pids = children(command.pid)
        if len(pids) >= count:
            return sorted(pids)
    return []


def await_line(out):
    """Waits until the log has a line."""
    end = time.time() + 20
    while time.time() < end:
        try:
            if os.path.getsize(os.path.join(out, "metrics.jsonl")) > 0:
                return
        except OSError:
            pass
        time.sleep(0.002)


def shared_memory():
    return set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()


def in_use(name):
    """Whether a process has that piece of shared memory mapped; one that lives is not ours."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/maps") as f:
                if f"/dev/shm/{name}" in f.read():
                    return True
        except OSError:
            pass
    return False


def left_behind(before):
    """What is new in shared memory and nobody's. Other programs of the machine come and go
    with theirs: what they have just made, or are about to remove, is looked at again."""
    for _ in range(50):
        left = [name for name in shared_memory() - before if not in_use(name)]
        if not left:
            return []
        time.sleep(0.1)
    return left


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def start(out, workers, args):
    return subprocess.Popen([GRADWIRE, "train", *args, "--workers", str(workers), "--out", out,
                             "--force", "--quiet"], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def end_of(command, limit):
    """Exit status, standard error, seconds; the command is ended if it does not end."""
    begin = time.time()
    try:
        err = command.communicate(timeout=limit)[1].decode(errors="replace")
    except subprocess.TimeoutExpired:
        command.kill()
        err = command.communicate()[1].decode(errors="replace") + "(did not end)"
    return command.returncode, err, time.time() - begin


def strike(what, out, workers, victim, args, moment, may_be_over=False):
    """Kills worker `victim` at a moment, and looks at what becomes of it."""
    before = shared_memory()
    command = start(out, workers, args)
    pids = await_workers(command, workers)
    moment(out)
    if len(pids) > victim:
        try:
            os.kill(pids[victim], signal.SIGKILL)
        except ProcessLookupError:
            pass
    code, err, seconds = end_of(command, 20)
    name = f"{what}, worker {victim} of {workers}: exit {code}, {err!r}, {seconds:.1f} s"
    if may_be_over and code == 0:
        check(os.path.exists(os.path.join(out, "summary.json")), name + ": no summary")
    else:
        check(code == 1, name)
        check(seconds < 5, name + ": too slow")
        check(f"worker {victim}" in err and "signal 9" in err, name + ": does not name it")
        check(err.startswith("gradwire: ") and err.count("\n") == 1, name + ": not one line")
    check(not any(is_alive(p) for p in pids), name + ": a worker lives on")
    check(not left_behind(before), name + ": shared memory is left")


def kills(tmp):
    for workers in (2, 5):
        for victim in {0, 1, workers - 1}:
            out = os.path.join(tmp, f"kill-{workers}-{victim}")
            strike("start-up", out + "a", workers, victim, STEPS, lambda _: None)
            strike("step", out + "b", workers, victim, STEPS, await_line)
            strike("evaluation", out + "c", workers, victim, EVALUATION,
                   lambda _: time.sleep(0.4), may_be_over=True)
        for delay in (0, 0.005, 0.01, 0.02, 0.04):
            strike("end", out + "d", workers, workers - 1, SHORT,
                   lambda _: time.sleep(delay), may_be_over=True)


def stopped_worker(tmp):
    """A worker that is stopped is named after the time limit."""
    out = os.path.join(tmp, "stopped")
    command = start(out, 4, STEPS + ["--timeout", "1"])
    pids = await_workers(command, 4)
    await_line(out)
    os.kill(pids[2], signal.SIGSTOP)
    code, err, seconds = end_of(command, 20)
    name = f"stopped worker: exit {code}, {err!r}, {seconds:.1f} s"
    check(code == 1 and "worker 2" in err and "has not answered for 1 s" in err, name)
    check(not any(is_alive(p) for p in pids), name + ": a worker lives on")


def killed_command(tmp):
    """The command itself is killed: its workers die with it."""
    command = start(os.path.join(tmp, "command"), 3, STEPS)
    pids = await_workers(command, 3)
    command.kill()
    command.communicate()
    end = time.time() + 5
    while any(is_alive(p) for p in pids) and time.time() < end:
        time.sleep(0.01)
    check(len(pids) == 3 and not any(is_alive(p) for p in pids), "workers outlive the command")


with tempfile.TemporaryDirectory() as folder:
    kills(folder)
    stopped_worker(folder)
    killed_command(folder)
print(f"{passed} passed, {len(failures)} failed")
sys.exit(1 if failures else 0)
