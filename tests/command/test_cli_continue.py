# SPDX-License-Identifier: Apache-2.0
#
# test_cli_continue.py - after Ctrl-C the command says how to go on, and --resume needs no
# other flag than --out: the settings are in the checkpoint. What differs is named in one
# message, all of it, with the reason where there is one.
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

GRADWIRE = os.path.abspath(os.environ["GRADWIRE"])
TIMES = {"seconds", "compute_s", "sync_s", "encode_s", "wait_s", "decode_s", "eval_s", "wall_s",
         "samples_per_s", "tokens_per_s"}
SETTINGS = ["--model", "softmax", "--data", "synthetic:train=400,test=50,dim=20,classes=4",
            "--workers", "2", "--batch", "5", "--seed", "7", "--sync", "topk:0.1", "--lr", "0.03",
            "--momentum", "0.8", "--nesterov", "on", "--weight-decay", "0.001", "--clip", "3.5",
            "--warmup", "3", "--nonfinite", "skip", "--eval-every", "13", "--log-every", "7",
            "--checkpoint-every", "5", "--keep", "3", "--spawn", "threads"]

failures = []


def check(ok, what):
    if not ok:
        failures.append(what)
        print("FAILED:", what)


def train(*args):
    r = subprocess.run([GRADWIRE, "train", *args], capture_output=True, timeout=120)
    return r.returncode, r.stderr.decode()


def refused(words, *args):
    code, err = train(*args)
    what = f"{args}: exit {code}, {err!r}"
    check(code == 2 and err.count("\n") == 1, what + ": not one line of usage")
    check(all(w in err for w in words), what + f": lacks one of {words}")
    return err


def stop(out, *args):
    """Ctrl-C in a run that would take long, once its log has a line."""
    p = subprocess.Popen([GRADWIRE, "train", *args, "--out", out], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE)
    log = f"{out}/metrics.jsonl"
    while p.poll() is None and not (os.path.exists(log) and os.path.getsize(log) > 0):
        time.sleep(0.01)
    p.send_signal(signal.SIGINT)
    err = p.communicate(timeout=60)[1].decode()
    check(p.returncode == 130, f"{out}: exit {p.returncode}, {err!r}")
    return err


def result(out):
    with open(f"{out}/summary.json") as f:
        summary = {k: v for k, v in json.load(f).items() if k not in TIMES}
    with open(f"{out}/metrics.jsonl") as f:
        lines = [json.loads(line) for line in f]
    return summary, [{k: v for k, v in line.items() if k not in TIMES} for line in lines]


def after_ctrl_c(tmp):
    """A run that was stopped is not called finished."""
    out, forever = f"{tmp}/stopped", ["--epochs", "1000000", *SETTINGS]
    err = stop(out, *forever)
    check(f"gradwire train --resume --out {out}" in err, f"no way on: {err!r}")
    err = refused(["was stopped", "--resume", "--force"], *forever, "--out", out)
    check("finished" not in err, err)
    every = forever.index("--checkpoint-every")
    without = forever[:every] + forever[every + 2:]
    err = stop(f"{tmp}/lost", *without)
    check("--checkpoint-every" in err and "--resume" not in err, f"no way on: {err!r}")
    refused(["was stopped", "no checkpoint", "--force"], *without, "--out", f"{tmp}/lost")


def settings_come_from_the_checkpoint(tmp):
    """A run of two parts, the second of which is told nothing, is that of one part."""
    whole, parts = f"{tmp}/whole", f"{tmp}/parts"
    rest = ["--lr-schedule", "constant", *SETTINGS]
    check(train("--epochs", "3", *rest, "--out", whole)[0] == 0, "the whole run")
    check(train("--steps", "17", *rest, "--out", parts)[0] == 0, "the first part")
    code, err = train("--resume", "--out", parts, "--epochs", "3")
    check(code == 0, f"the second part: {err!r}")
    check(result(parts) == result(whole), f"{result(parts)[0]} is not {result(whole)[0]}")
    kept = [n for n in os.listdir(parts) if n.endswith(".gwc")]
    check(len(kept) == 3, f"--keep is forgotten: {kept}")
    code, err = train("--resume", "--out", parts)
    check(code == 0 and result(parts) == result(whole), f"a run that is done: {err!r}")


def differences_are_told_at_once(tmp):
    out = f"{tmp}/differ"
    check(train("--steps", "12", *SETTINGS, "--out", out)[0] == 0, "a run to differ from")
    err = refused(["--batch 5, but this run has 6", "--lr 0.03, but this run has 0.5",
                   "--sync topk:0.1, but this run has dense", "leave out"],
                  "--resume", "--out", out, "--batch", "6", "--lr", "0.5", "--sync", "dense")
    check("cosine" not in err and "asked" not in err, err)
    err = refused(["--momentum 0.8, but this run has 0.7"], "--resume", "--out", out,
                  "--momentum", "0.7")
    many = ["--model", "fnn3", "--batch", "6", "--lr", "0.5", "--seed", "9", "--clip", "2",
            "--dropout", "0", "--warmup", "5", "--weight-decay", "0.5", "--nonfinite", "stop"]
    refused(["--model softmax, but this run has fnn3", "more"], "--resume", "--out", out, *many)


def the_end_of_a_cosine(tmp):
    """The reason and the way out are in the message; a setting of 0 that nobody gave is not."""
    for end, more in ((["--epochs", "2"], ["--epochs", "4"]), (["--steps", "12"], ["--steps", "20"]),
                      (["--epochs", "2"], ["--steps", "200"]), (["--steps", "12"], ["--epochs", "4"])):
        out = f"{tmp}/cosine-{end[0]}-{more[0]}"
        check(train(*end, *SETTINGS, "--out", out)[0] == 0, "a cosine")
        err = refused([" ".join(end) + ",", "but this run has " + " ".join(more),
                       "--lr-schedule cosine", "--init"], "--resume", "--out", out, *more)
        check("--steps 0" not in err and "--epochs 0" not in err, err)
        check(train("--resume", "--out", out)[0] == 0, "the same end")


def nothing_to_resume(tmp):
    refused(["--resume needs --out"], "--resume")
    refused(["no run directory"], "--resume", "--out", f"{tmp}/none")
    os.mkdir(f"{tmp}/empty")
    code, err = train("--resume", "--out", f"{tmp}/empty")
    check(code == 1 and "no checkpoint" in err and err.count("\n") == 1, err)


with tempfile.TemporaryDirectory() as folder:
    after_ctrl_c(folder)
    settings_come_from_the_checkpoint(folder)
    differences_are_told_at_once(folder)
    the_end_of_a_cosine(folder)
    nothing_to_resume(folder)
print(f"{len(failures)} failures")
sys.exit(1 if failures else 0)
