# SPDX-License-Identifier: Apache-2.0
#
# test_mpi_resume.py - runs under mpirun that are killed and resumed, over MPI and on
# one machine without it: the model and the log are those of a run that was never
# stopped. Skipped where the build has no MPI.
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

GRADWIRE = os.path.abspath(os.environ["GRADWIRE"])
JOB = ["--model", "softmax", "--data", "synthetic:train=900,test=60,dim=200,classes=5",
       "--batch", "8", "--workers", "3", "--epochs", "3", "--log-every", "11", "--quiet"]
TIMES = {"seconds", "compute_s", "sync_s", "encode_s", "wait_s", "decode_s", "eval_s", "wall_s", "samples_per_s", "tokens_per_s",
         "transport"}
# Open MPI refuses root and crowded machines unless told; MPICH does not know these.
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1",
               "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
               "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
               "OMPI_MCA_mpi_yield_when_idle": "1",
               "OMPI_MCA_hwloc_base_binding_policy": "none"}
failures = []


def check(ok, what):
    if not ok:
        failures.append(what)
        print("FAILED:", what, flush=True)


def launcher():
    """The mpiexec that this build was made with; None if it has no MPI."""
    with open(f"{os.environ['GRADWIRE_BUILD']}/CMakeCache.txt") as f:
        cache = dict(line.rstrip("\n").split("=", 1) for line in f if "=" in line)
    found = [v for k, v in cache.items() if k.startswith("MPIEXEC_EXECUTABLE:")]
    on = [v for k, v in cache.items() if k.startswith("GRADWIRE_MPI:")]
    usable = found and os.access(found[0], os.X_OK) and on and on[0] == "ON"
    listed = subprocess.run([GRADWIRE, "list"], capture_output=True).stdout.decode()
    return found[0] if usable and "ranks of mpirun" in listed else None


def start(out, args, mpi):
    prefix = [mpi, "-n", "3"] if mpi else []
    return subprocess.Popen([*prefix, GRADWIRE, "train", *JOB, *args, "--out", out],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT,
                            stdin=subprocess.DEVNULL)


def descendants(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            own = [int(p) for p in f.read().split()]
    except OSError:
        own = []
    return own + [p for child in own for p in descendants(child)]


def is_gradwire(pid):
    try:
        return os.readlink(f"/proc/{pid}/exe") == os.path.realpath(GRADWIRE)
    except OSError:
        return False


def kill(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def finish(command):
    try:
        err = command.communicate(timeout=120)[1].decode(errors="replace")
    except subprocess.TimeoutExpired:
        kill([*descendants(command.pid), command.pid])
        err = command.communicate()[1].decode(errors="replace") + "(did not end)"
    return command.returncode, err


def result(out):
    def strip(record):
        return {k: v for k, v in record.items() if k not in TIMES}

    with open(f"{out}/summary.json") as f:
        summary = strip(json.load(f))
    with open(f"{out}/metrics.jsonl") as f:
        return summary, [strip(json.loads(line)) for line in f]


def checkpoints(out):
    return [n for n in os.listdir(out) if n.endswith(".gwc")] if os.path.isdir(out) else []


def kill_in_the_middle(out, sync, mpi, whole, args):
    """Kills one rank, or the job with all its processes, once there are checkpoints."""
    command = start(out, [*sync, "--checkpoint-every", "1", *args], mpi)
    end = time.time() + 60
    # Resuming leaves the two that are there until a third is written.
    before = set(checkpoints(out))
    while command.poll() is None and time.time() < end:
        if len(set(checkpoints(out)) - before) >= 2:
            break
        time.sleep(0.002)
    everybody = descendants(command.pid)
    ranks = [p for p in everybody if is_gradwire(p)]
    kill([command.pid, *everybody] if whole else ranks[1:2])
    code, err = finish(command)
    check(code != 0 or os.path.exists(f"{out}/summary.json"), f"{sync}: exit {code}, {err!r}")
    check(len(checkpoints(out)) > 0, f"{sync}: no checkpoint is left")


def one_job(tmp, sync, mpi):
    out = f"{tmp}/{sync[1].replace(':', '-')}"
    code, err = finish(start(f"{out}-whole", sync, None))
    check(code == 0, f"{sync}: {err!r}")
    expected = result(f"{out}-whole")
    kill_in_the_middle(out, sync, mpi, False, [])
    kill_in_the_middle(out, sync, mpi, True, ["--resume"])
    # Without MPI for a while, then with it again.
    kill_in_the_middle(out, sync, None, True, ["--resume"])
    code, err = finish(start(out, [*sync, "--checkpoint-every", "50", "--resume"], mpi))
    check(code == 0, f"{sync}: {err!r}")
    check(result(out) == expected, f"{sync}: the resumed run is another")
    # The settings are in the checkpoint, which only worker 0 reads.
    code, err = finish(subprocess.Popen([mpi, "-n", "3", GRADWIRE, "train", "--resume", "--out", out],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env=ENVIRONMENT, stdin=subprocess.DEVNULL))
    check(code == 0 and result(out) == expected, f"{sync}: without its flags: {err!r}")


MPI = launcher()
if MPI is None:
    print("no MPI in this build")
    sys.exit(77)
with tempfile.TemporaryDirectory() as folder:
    one_job(folder, ["--sync", "gtopk:0.02"], MPI)
    one_job(folder, ["--sync", "local:4"], MPI)
print(f"{len(failures)} failed")
sys.exit(1 if failures else 0)
