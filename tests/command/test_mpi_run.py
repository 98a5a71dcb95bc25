# SPDX-License-Identifier: Apache-2.0
#
# test_mpi_run.py - the command under mpirun (MPIEXEC): the same bits as without, what
# ranks that do not fit together say, and how a job ends that is stopped, or one of
# whose ranks is killed or hangs.
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

import support_slow_disk

GRADWIRE = os.path.abspath(os.environ["GRADWIRE"])
MPIEXEC = os.environ.get("MPIEXEC", "")
DATA = ["--data", "synthetic:train=2000,test=100,dim=50,classes=5"]
SHORT = ["train", "--model", "fnn3", *DATA, "--batch", "8", "--steps", "30", "--json", "--quiet"]
LONG = ["train", "--model", "softmax", *DATA, "--batch", "8", "--steps", "100000000",
        "--log-every", "1", "--quiet"]
# Open MPI kills a second after it asked, which is not enough on a busy machine.
STOPPED_ENV = {"OMPI_MCA_odls_base_sigkill_timeout": "30"}
PATIENCE = 200  # seconds, for a job that should end by itself: it hangs

failures = []
passed = 0


def check(ok, what):
    global passed
    if ok:
        passed += 1
    else:
        failures.append(what)
        print("FAILED:", what)


def run(command, env=None):
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=env)


def ranks(n, *flags):
    return [MPIEXEC, "-n", str(n), GRADWIRE, *flags]


def summary_of(result, what):
    check(result.returncode == 0, f"{what}: exit {result.returncode}: {result.stderr[-500:]}")
    try:
        return json.loads(result.stdout)
    except ValueError:
        check(False, f"{what}: the output is not one JSON object: {result.stdout[:200]}")
        return {}


def test_measured_link():
    """Two ranks measure the link between them, and rank 0 plans; three are refused."""
    job = ["plan", "--params", "1000", "--compute", "1", "--sync", "qsgd:4", "--measure", "mpi", "--json"]
    plan = summary_of(run(ranks(2, *job)), "plan --measure mpi")
    check(re.fullmatch(r"[\d.]+[mg]bit,\d+us", plan.get("link", "")), f"measured by MPI: {plan.get('link')}")
    refused = run(ranks(3, *job))
    check(refused.returncode != 0 and "two ranks" in refused.stderr and "started 3" in refused.stderr,
          f"three ranks: {refused.stderr[-300:]}")


def test_same_bits(tmp):
    cases = [(2, "dense"), (3, "gtopk:0.05+q:4"), (5, "local:4+topk:0.1"), (3, "none")]
    for n, sync in cases:
        flags = ["--sync", sync, "--momentum", "0", "--out"]
        here = summary_of(run([GRADWIRE, *SHORT, *flags, f"{tmp}/here-{n}-{sync}", "--workers",
                               str(n)]), f"{sync} here")
        there = summary_of(run(ranks(n, *SHORT, *flags, f"{tmp}/there-{n}-{sync}")),
                           f"{sync} under mpirun")
        check(there.get("transport") == "mpi" and there.get("workers") == n,
              f"{sync}: {there.get('workers')} workers over {there.get('transport')}")
        for key in ("model_hash", "bytes_sent", "train_loss", "test_accuracy"):
            check(here.get(key) == there.get(key),
                  f"{sync}, {n} workers: {key} {here.get(key)}, under mpirun {there.get(key)}")


def test_ways(tmp):
    """A link, MPI's own sums, and a run that was resumed."""
    flags = [*SHORT, "--checkpoint-every", "10", "--lr-schedule", "constant"]
    whole = summary_of(run(ranks(3, *flags, "--out", f"{tmp}/whole")), "whole")
    link = summary_of(run(ranks(3, *flags, "--out", f"{tmp}/link", "--link", "1gbit,20us")),
                      "over a link")
    check(link.get("transport") == "link(mpi,1gbit,20us)", f"transport {link.get('transport')}")
    check(link.get("model_hash") == whole.get("model_hash"), "a link changes the bits")
    # Every message takes longer than the time limit, and the last worker waits for one
    # that waits for the first.
    slow = ["train", "--model", "softmax", *DATA, "--steps", "1", "--json", "--quiet",
            "--timeout", "1", "--link", "200kbit", "--out", f"{tmp}/slow-link"]
    summary_of(run(ranks(4, *slow)), "over a slow link")
    native = summary_of(run(ranks(3, *flags, "--out", f"{tmp}/native", "--collectives",
                                  "native")), "native")
    check(native.get("steps") == 30 and native.get("bytes_sent", 0) > 0, "native sums")
    out = ["--out", f"{tmp}/half"]
    summary_of(run(ranks(3, *flags, *out, "--steps", "20")), "first half")
    resumed = summary_of(run(ranks(3, *flags, *out, "--resume")), "second half")
    check(resumed.get("model_hash") == whole.get("model_hash"), "resumed is another run")


def test_slow_disk(tmp):
    """A checkpoint may take longer to write, and to read, than a worker may be silent."""
    library = support_slow_disk.build(tmp)
    if library is None:
        return
    flags = [*SHORT, "--checkpoint-every", "30", "--timeout", "3", "--lr-schedule", "constant",
             "--out", f"{tmp}/slow"]
    for word, more in (("checkpoint.partial", []), ("checkpoint-000001.gwc",
                                                    ["--resume", "--steps", "31"])):
        result = run(ranks(3, *flags, *more), support_slow_disk.environment(library, word, 7))
        summary_of(result, f"slow {word}")


def expect_error(code, words, command, what):
    result = run(command)
    lines = [line for line in result.stderr.splitlines() if line.startswith("gradwire: ")]
    check(result.returncode == code, f"{what}: exit {result.returncode}, not {code}")
    check(len(lines) == 1, f"{what}: {len(lines)} lines, not one: {result.stderr[-800:]}")
    for word in words:
        check(any(word in line for line in lines), f"{what}: no '{word}' in {lines}")


def differing(first, second):
    return [MPIEXEC, "-n", "1", GRADWIRE, *first, ":", "-n", "1", GRADWIRE, *second]


def test_refusals(tmp):
    out = ["--out", f"{tmp}/refused"]
    base = [*SHORT, *out]
    expect_error(2, ["--workers is 2", "started 3"], ranks(3, *base, "--workers", "2"),
                 "other --workers")
    expect_error(2, ["--spawn"], ranks(2, *base, "--spawn", "threads"), "--spawn")
    expect_error(2, ["--join", "start each worker by itself"], ranks(2, *base, "--join", "tcp://127.0.0.1:1"), "--join")
    expect_error(2, ["--nope"], ranks(2, *base, "--nope"), "a wrong flag")
    for flag, a, b in (("--batch", "8", "16"), ("--model", "fnn3", "softmax"),
                       ("--sync", "dense", "topk:0.1"), ("--lr", "0.1", "0.2"),
                       ("--threads", "1", "2"), ("--collectives", "ours", "native")):
        expect_error(1, ["worker 1 on host", "worker 0", flag, b.split(":")[0]],
                     differing([*base, flag, a], [*base, flag, b]), f"two {flag}")
    for flag in ("--trace", "--record-gradient"):
        expect_error(1, ["worker 1 on host", f"{flag} FILE", f"{flag} none"],
                     differing(base, [*base, flag, f"{tmp}/file"]), f"{flag} on one rank")
    expect_error(2, ["worker 1 on host", "--nope"], differing(base, [*base, "--nope"]),
                 "a wrong flag on one rank")
    check(not os.path.exists(f"{tmp}/refused/summary.json"), "a refused run left a summary")
    result = run([GRADWIRE, *base, "--collectives", "native"])
    check(result.returncode == 2 and "mpirun" in result.stderr, "native without mpirun")


def test_alone():
    """Ranks of srun which MPI knows nothing of are no separate runs."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "PMI"))}
    env.update(SLURM_PROCID="0", SLURM_STEP_NUM_TASKS="4")
    result = run([GRADWIRE, *SHORT], env)
    check(result.returncode == 1 and "--mpi=pmix" in result.stderr,
          f"srun without PMIx: exit {result.returncode}: {result.stderr[-500:]}")


def test_one_voice(tmp):
    for command in (["list"], ["--version"], ["train", "--help"]):
        once, under = run([GRADWIRE, *command]), run(ranks(3, *command))
        check(under.returncode == 0 and under.stdout == once.stdout,
              f"{command} under mpirun is not printed once")


# ---- failures --------------------------------------------------------------------


def rank_of(pid, mark):
    """The rank that a process is, if it is the command and bears the mark."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as f:
            env = dict(v.split("=", 1) for v in f.read().decode().split("\0") if "=" in v)
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            command = f.read().decode().split("\0")[0]
    except (OSError, UnicodeDecodeError):
        return None
    if command != GRADWIRE or env.get("GRADWIRE_TEST_MARK") != mark:
        return None
    return int(env.get("OMPI_COMM_WORLD_RANK", env.get("PMI_RANK", "-1")))


def pids_of(mark):
    """The process of each rank; under MPICH the younger of two, which trains."""
    found = {}
    for pid in sorted(int(p) for p in os.listdir("/proc") if p.isdigit()):
        rank = rank_of(pid, mark)
        if rank is not None:
            found[rank] = pid
    return found


def start(tmp, name, **env):
    mark = f"{os.getpid()}-{name}"
    out = f"{tmp}/{name}"
    job = subprocess.Popen(ranks(3, *LONG, "--timeout", "5", "--out", out),
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                           env=dict(os.environ, GRADWIRE_TEST_MARK=mark, **env))
    end = time.time() + PATIENCE
    while time.time() < end and job.poll() is None:
        try:
            if os.path.getsize(f"{out}/metrics.jsonl") > 0:
                break
        except OSError:
            pass
        time.sleep(0.02)
    return job, mark, out


def finish(job, mark, what):
    try:
        out, err = job.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        job.kill()
        out, err = job.communicate()
        check(False, f"{what}: the job hangs")
    end = time.time() + 20
    while pids_of(mark) and time.time() < end:
        time.sleep(0.05)
    check(not pids_of(mark), f"{what}: ranks are left")
    for pid in pids_of(mark).values():
        os.kill(pid, signal.SIGKILL)
    check(job.returncode != 0, f"{what}: exit 0")
    return out, err


def test_killed(tmp):
    job, mark, _ = start(tmp, "killed")
    os.kill(pids_of(mark)[1], signal.SIGKILL)
    _, err = finish(job, mark, "killed")
    check(re.search(r"(rank|worker) 1 .*signal 9", err), f"the killed rank is not named: {err}")


def test_hanging(tmp):
    job, mark, _ = start(tmp, "hanging")
    os.kill(pids_of(mark)[1], signal.SIGSTOP)
    _, err = finish(job, mark, "hanging")
    check(re.search(r"worker 1 on host \S+ has not answered for 5 s", err),
          f"the rank that hangs is not named: {err}")


def test_stopped(tmp):
    job, mark, path = start(tmp, "stopped", **STOPPED_ENV)
    job.send_signal(signal.SIGTERM)
    out, err = finish(job, mark, "stopped")
    try:
        with open(f"{path}/summary.json") as f:
            summary = json.load(f)
    except (OSError, ValueError) as e:
        check(False, f"stopped: no summary: {e}; {err[-500:]}")
        return
    check(summary["stopped"] is True and summary["steps"] > 0, "stopped: not in the summary")


def main():
    if not MPIEXEC or run([GRADWIRE, "list"]).stdout.find("\n  mpi ") < 0:
        print("skipped: this build has no MPI")
        return 77
    with tempfile.TemporaryDirectory() as tmp:
        test_measured_link()
        test_same_bits(tmp)
        test_ways(tmp)
        test_slow_disk(tmp)
        test_refusals(tmp)
        test_alone()
        test_one_voice(tmp)
        test_killed(tmp)
        test_hanging(tmp)
        test_stopped(tmp)
    print(f"{passed} checks passed, {len(failures)} failed")
    return 1 if failures else 0


sys.exit(main())
