# SPDX-License-Identifier: Apache-2.0
#
# test_cli_resume.py - runs of every model that are stopped by Ctrl-C, by kill -9 of a
# worker or of the whole job, at any moment and while a checkpoint is written, and then
# resumed until they are done: model, log and summary are those of a run that was never
# stopped, and once there is a checkpoint there is a good one ever after.
#
# GW_KILLS=400 says how many kills; with more than a few, large models have their turn,
# too. GW_TEST_SEED repeats a run.
import collections
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

GRADWIRE = os.path.abspath(os.environ["GRADWIRE"])
FEW = 20
KILLS = int(os.environ.get("GW_KILLS", str(FEW)))
SEED = int(os.environ.get("GW_TEST_SEED") or os.environ.get("GW_DEFAULT_SEED") or time.time_ns() % 1000000)
JOB = ["--workers", "3", "--log-every", "11", "--lr", "0.02", "--quiet"]
SYNCS = [["--sync", "dense"], ["--sync", "gtopk:0.02,ladder=8"], ["--sync", "drop:0.97"],
         ["--sync", "update:start=4+topk:0.05"], ["--sync", "topk:0.05,warmup=3"],
         ["--sync", "local:4"], ["--sync", "pqasgd:4,4"],
         ["--sync", "a2sgd", "--momentum", "0.9"]]
# FOLDER is where the test has put pictures and text. Checkpoints come as often as one of the
# last numbers says, in steps.
Model = collections.namedtuple("Model", "flags every")
SMALL = [
    Model("softmax --data synthetic:train=900,test=60,dim=200,classes=5 --batch 8 --epochs 6",
          [1, 3, 10, 25]),
    Model("fnn3 --data synthetic:train=400,test=60,dim=30,classes=5 --batch 8 --epochs 6 "
          "--optimizer adamw --weight-decay 0.1 --lr 0.001", [1, 3, 10, 25]),
    Model("cnn --data idx:FOLDER/16 --batch 4 --epochs 3", [1, 3, 10]),
    Model("lstm:16 --data text:FOLDER/text --batch 4 --sequence 5 --epochs 2 --dropout 0.2 "
          "--clip 0.25 --lr 1", [1, 3, 10, 25]),
    Model("logistic --data logistic:train=900,test=60,dim=20 --batch 8 --epochs 6", [1, 3, 10, 25]),
    Model("resnet20 --data idx:FOLDER/16 --batch 4 --epochs 1", [1, 3, 10]),
    Model("transformer:layers=1,heads=2,width=16 --data text:FOLDER/text --batch 4 --sequence 5 "
          "--epochs 2 --optimizer adam --lr 0.001", [1, 3, 10, 25]),
    Model("least-squares --data least-squares:train=900,test=60,dim=20 --batch 8 --epochs 6 "
          "--optimizer adagrad", [1, 3, 10, 25]),
]
LARGE = [
    Model("mlp --data synthetic:train=60,test=20,dim=30,classes=5 --batch 2 --steps 8 --log-every 3",
          [1, 2, 3]),
    Model("vgg16 --data idx:FOLDER/32 --batch 2 --steps 6 --log-every 3", [1, 2, 3]),
    Model("wide-mlp --data synthetic:train=60,test=20,dim=30,classes=5 --batch 2 --steps 6 "
          "--workers 2 --log-every 3", [1, 2, 3]),
]
TIMES = {"seconds", "compute_s", "sync_s", "encode_s", "wait_s", "decode_s", "eval_s", "wall_s",
         "samples_per_s", "tokens_per_s"}

failures = []
counts = {}


def check(ok, what):
    if not ok:
        failures.append(what)
        print("FAILED:", what, flush=True)


def start(out, args):
    return subprocess.Popen([GRADWIRE, "train", *JOB, "--model", *args, "--out", out],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            start_new_session=True)


def finish(command):
    """Exit status and standard error; nothing here may take as long as the limit."""
    try:
        err = command.communicate(timeout=600)[1].decode(errors="replace")
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


def arguments(out, case, spawn, every, rng, started):
    args = [*case, "--spawn", spawn, "--checkpoint-every", str(rng.choice(every))]
    if checkpoints(out):
        return args + ["--resume"]
    check(not started, f"{out}: was left without a checkpoint")
    return args + ["--force"]


def one_job(out, case, spawn, every, kills, span, rng, expected):
    """Kills a job so many times, then lets it come to its end."""
    name = f"{' '.join(case)} {spawn}"
    hows = ["ctrl-c", "job", "write"] + (["worker"] if spawn == "processes" else [])
    started = False
    for kill in range(kills + 1):
        args = arguments(out, case, spawn, every, rng, started)
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


def reference(out, case, spawn, every):
    """What comes out without a stop, and how long it takes with checkpoints."""
    code, err = finish(start(out, [*case, "--spawn", spawn]))
    check(code == 0, f"{case}: {err!r}")
    expected = result(out)
    begin = time.time()
    code, err = finish(start(out, [*case, "--spawn", spawn, "--checkpoint-every", str(every[-1]),
                                   "--force"]))
    check(code == 0 and result(out) == expected, f"{case}: checkpoints change the run")
    seconds = time.time() - begin
    shutil.rmtree(out)
    return expected, seconds


def write_pictures(folder, side, rng):
    """A data set like MNIST, of noise."""
    os.makedirs(folder)
    for name, count in (("train", 180), ("t10k", 24)):
        sizes = b"".join(n.to_bytes(4, "big") for n in (count, side, side))
        with open(f"{folder}/{name}-images-idx3-ubyte", "wb") as f:
            f.write(b"\0\0\x08\x03" + sizes + rng.randbytes(count * side * side))
        with open(f"{folder}/{name}-labels-idx1-ubyte", "wb") as f:
            f.write(b"\0\0\x08\x01" + sizes[:4] + bytes(i % 10 for i in range(count)))


def write_text(folder, rng):
    words = "the end of it all is a rest and so it goes on and on".split()
    os.makedirs(folder)
    for name, lines in (("train", 120), ("valid", 30), ("test", 30)):
        with open(f"{folder}/{name}.txt", "w") as f:
            for _ in range(lines):
                print(*rng.choices(words, k=9), file=f)


def combination(models, trial):
    """Every model in turn, with another method and another kind of worker each time it comes."""
    turn, which = divmod(trial, len(models))
    sync = SYNCS[(which + turn) % len(SYNCS)]
    return models[which], sync, ["processes", "threads"][(which + turn + turn // len(SYNCS)) % 2]


def main(tmp):
    rng = random.Random(SEED)
    print(f"{KILLS} kills, GW_TEST_SEED={SEED}", flush=True)
    write_pictures(f"{tmp}/16", 16, rng)
    write_pictures(f"{tmp}/32", 32, rng)
    write_text(f"{tmp}/text", rng)
    models = SMALL if KILLS <= FEW else SMALL + LARGE
    known, done, trial = {}, 0, 0
    while done < KILLS and not failures:
        model, sync, spawn = combination(models, trial)
        case = [*model.flags.replace("FOLDER", tmp).split(), *sync]
        key = (*case, spawn)
        if key not in known:
            known[key] = reference(f"{tmp}/reference-{trial}", case, spawn, model.every)
        expected, span = known[key]
        before = sum(counts.values())
        one_job(f"{tmp}/run-{trial}", case, spawn, model.every,
                min(KILLS - done, rng.randint(1, 4)), span, rng, expected)
        shutil.rmtree(f"{tmp}/run-{trial}")
        done += sum(counts.values()) - before
        trial += 1
    print(f"{trial} jobs of {min(trial, len(models))} models, {len(known)} combinations")


with tempfile.TemporaryDirectory() as folder:
    main(folder)
print(f"{counts}, {len(failures)} failed")
sys.exit(1 if failures else 0)
