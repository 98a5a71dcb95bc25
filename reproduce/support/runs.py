# SPDX-License-Identifier: Apache-2.0
"""Training runs that are made once and kept in results/training.csv.

A run is a task (model, data and everything that is the same for all methods), a number
of workers, a sync, a learning rate, a seed and a part (how many gradients, and which
schedule). All methods of a part use the same number of gradients. Papers share runs:
dense with four workers is trained once, whoever asks.
"""
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

from support.store import GRADWIRE, ROOT, append, need, read, stamp

TABLE = os.path.join(ROOT, "results", "training.csv")
KEY = ["task", "part", "workers", "sync", "lr", "seed"]
FIELDS = KEY + ["steps", "params", "loss", "test_loss", "test_loss_workers", "accuracy",
                "accuracy_workers", "perplexity", "drift", "bytes_sent", "mass_lost", "compute_s",
                "sync_s", "failed", "model_hash", "version", "date", "machine", "curve"]
SEEDS = (1, 2, 3)
TUNING_SEED = 101
TAIL = 0.1  # the training loss of a run is the mean over this last part of it


@dataclass(frozen=True)
class Task:
    """What is trained, and how long: gradients are samples (tokens for text)."""
    name: str
    model: str
    data: str
    batch: int      # samples of a worker and step
    sample: int     # gradients that a sample counts as
    gradients: dict  # of a part
    rates: tuple    # the grid that every method chooses from
    flags: tuple = ()
    schedule: dict = field(default_factory=dict)  # of a part; cosine if not named
    advice: str = "off"  # whether specs are fitted to the optimizer

    def steps(self, part, workers):
        return self.gradients[part] // (self.batch * self.sample * workers)


TASKS = {t.name: t for t in [
    Task("fnn3", "fnn3", "mnist", 32, 1, {"whole": 300000, "tune": 300000, "constant": 300000},
         (0.1, 0.2, 0.4, 0.8), ("--momentum", "0"), {"constant": "constant"}),
    Task("resnet20", "resnet20", "cifar10", 16, 1,
         {"whole": 50000, "tune": 12800, "constant": 25600, "long": 250000}, (0.1, 0.2, 0.4), ("--momentum", "0"),
         {"constant": "constant"}),
    Task("lstm", "lstm:200", "ptb", 5, 35,
         {"whole": 464800, "tune": 140000, "constant": 464800}, (10, 20, 40),
         ("--momentum", "0", "--clip", "0.25"), {"whole": "constant", "tune": "constant",
                                                 "constant": "constant"}),
    Task("wide-mlp", "wide-mlp", "mnist", 40, 1, {"whole": 24000, "tune": 4800},
         (0.0025, 0.005, 0.01), ("--optimizer", "adagrad"), {"whole": "constant", "tune": "constant"}),
    Task("fashion-sgd", "fnn3", "fashion-mnist", 32, 1, {"whole": 180000, "tune": 180000},
         (0.025, 0.05, 0.1, 0.2), ("--momentum", "0.9"), advice="on"),
    Task("fashion-adam", "fnn3", "fashion-mnist", 32, 1, {"whole": 180000, "tune": 180000},
         (0.0005, 0.001, 0.002, 0.004), ("--optimizer", "adam"), advice="on"),
    Task("cnn-sgd", "cnn", "fashion-mnist", 32, 1, {"whole": 60000, "tune": 19200},
         (0.025, 0.05, 0.1), ("--momentum", "0.9"), advice="on"),
    Task("cnn-adam", "cnn", "fashion-mnist", 32, 1, {"whole": 60000, "tune": 19200},
         (0.0005, 0.001, 0.002), ("--optimizer", "adam"), advice="on"),
    Task("fashion-nesterov", "fnn3", "fashion-mnist", 32, 1, {"whole": 180000, "tune": 180000},
         (0.025, 0.05, 0.1, 0.2), ("--momentum", "0.9", "--nesterov", "on"), advice="on"),
    Task("fashion-adamw", "fnn3", "fashion-mnist", 32, 1, {"whole": 180000, "tune": 180000},
         (0.0005, 0.001, 0.002, 0.004), ("--optimizer", "adamw", "--weight-decay", "0.01"), advice="on"),
    Task("transformer-adamw", "transformer:layers=2,heads=4,width=64", "ptb", 8, 35,
         {"whole": 464800, "tune": 140000}, (0.001, 0.002, 0.004),
         ("--optimizer", "adamw", "--weight-decay", "0.01"), advice="on"),
    Task("resnet20-sgd", "resnet20", "cifar10", 32, 1, {"whole": 100000, "tune": 19200},
         (0.025, 0.05, 0.1), ("--momentum", "0.9"), advice="on"),
    Task("lstm-sgd", "lstm:200", "ptb", 5, 35, {"whole": 464800, "tune": 140000}, (1, 2, 4),
         ("--momentum", "0.9", "--clip", "0.25"), advice="on"),
    Task("fnn3-adagrad", "fnn3", "mnist", 40, 1, {"whole": 1200000, "tune": 300000},
         (0.005, 0.01, 0.02), ("--optimizer", "adagrad"), {"whole": "constant", "tune": "constant"}),
]}


def key_of(row):
    return tuple(f"{float(row[k]):g}" if k == "lr" else str(row[k]) for k in KEY)


def arguments(doc):
    """The options that every script has."""
    parser = argparse.ArgumentParser(description=doc.split("\n")[0])
    parser.add_argument("--data-dir", default=os.environ.get("DATA_DIR"),
                        help="directory that contains mnist, cifar10 and ptb [gradwire's default]")
    parser.add_argument("--page", action="store_true", help="only write the page; run nothing")
    parser.add_argument("--check", action="store_true",
                        help="run one small row again and compare it with the stored one")
    return parser.parse_args()


def guarded(main):
    """Runs main; Ctrl-C is one line and an exit code of 130."""
    try:
        return main()
    except KeyboardInterrupt:
        print("\nstopped; finished runs are kept, and the same command continues with the rest", file=sys.stderr)
        return 130


class Runs:
    """The runs there are; makes those that are missing when it is asked for them."""

    def __init__(self, args=None, gradwire=None):
        self.gradwire = gradwire or GRADWIRE
        self.data_dir = args.data_dir if args else None
        self.dry = args is not None and args.page
        self.missing = set()  # data that is not there
        if not self.dry:
            need(self.gradwire)
        self.rows = {key_of(r): r for r in read(TABLE)}

    def get(self, task, workers, sync, lr, seed, part="whole"):
        """The row, made if need be; None if it may not or cannot be made."""
        want = dict(task=task, part=part, workers=workers, sync=sync, lr=f"{lr:g}", seed=seed)
        have = self.rows.get(key_of(want))
        if have or self.dry or TASKS[task].data in self.missing:
            return have
        print(f"{task:9} {part:8} {workers} workers  lr {lr:<6g} seed {seed}  {sync}", flush=True)
        made = self.train(want)
        if made is None:
            return None
        append(TABLE, FIELDS, made)
        row = {k: "" if made.get(k) is None else str(made[k]) for k in FIELDS}
        self.rows[key_of(row)] = row
        return row

    def command(self, want, out):
        task = TASKS[want["task"]]
        steps = task.steps(want["part"], want["workers"])
        words = [self.gradwire, "train", "--model", task.model, "--data", task.data, "--workers",
                 want["workers"], "--batch", task.batch, "--sync", want["sync"], "--lr", want["lr"],
                 "--lr-schedule", task.schedule.get(want["part"], "cosine"), "--seed", want["seed"],
                 "--steps", steps, "--log-every", max(1, steps // 50), "--eval-every", "0",
                 "--timeout", "600", "--advice", task.advice, "--out", out, "--quiet", "--json", *task.flags]
        where = os.path.join(self.data_dir, task.data) if self.data_dir else None
        if where and os.path.isdir(where):
            words += ["--data-dir", where]
        return [str(w) for w in words]

    def train(self, want):
        """Runs it. A run that ends because numbers overflow is kept as failed; one that
        cannot begin is told and not kept."""
        with tempfile.TemporaryDirectory() as parent:
            out = os.path.join(parent, "run")
            done = subprocess.run(self.command(want, out), capture_output=True, text=True)
            curve = read_curve(os.path.join(out, "metrics.jsonl"))
        row = dict(want, **stamp(), curve=curve)
        if done.returncode == 0:
            return fill(row, json.loads(done.stdout))
        why = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no message"
        if done.returncode in (-2, 130):
            raise KeyboardInterrupt
        if curve:
            return dict(row, failed=why)
        print(f"skipped: {why}", file=sys.stderr)
        self.missing.add(TASKS[want["task"]].data)
        return None

    def best_rate(self, task, sync, workers=4, part="tune"):
        """The rate of the grid with which the result of a run, the averaged model where
        models differ, has the least test loss, with a seed that is used for nothing else;
        None if not all were run. Workers that drift apart fit their own samples better
        the worse their average gets, so training losses would mislead."""
        tuned = [self.get(task, workers, sync, lr, TUNING_SEED, part) for lr in TASKS[task].rates]
        if None in tuned:
            return None
        return float(min(tuned, key=test_loss)["lr"])

    def seeds(self, task, workers, sync, tuned_as=None, seeds=SEEDS, part="whole"):
        """The rows of all seeds at the tuned rate, or those that there are. tuned_as: the
        sync whose rate is used."""
        lr = self.best_rate(task, tuned_as or sync)
        if lr is None:
            return []
        rows = [self.get(task, workers, sync, lr, seed, part) for seed in seeds]
        return [r for r in rows if r]


def fill(row, s):
    return dict(row, steps=s["steps"], params=s["params"], loss=f"{s['train_loss']:.6g}",
                test_loss=short(s["test_loss"]), test_loss_workers=short(s.get("test_loss_workers")),
                accuracy=short(s["test_accuracy"]), accuracy_workers=short(s["test_accuracy_workers"]),
                perplexity=short(s["perplexity"]), drift=short(s["drift"]), bytes_sent=s["bytes_sent"],
                mass_lost=short(s.get("mass_lost")), compute_s=short(s["compute_s"]),
                sync_s=short(s["sync_s"]), failed="", model_hash=s["model_hash"], version=s["version"])


def short(x):
    return "" if x is None else f"{x:.6g}"


def read_curve(path):
    """Training losses as 'step:loss step:loss ...'."""
    if not os.path.exists(path):
        return ""
    with open(path) as f:
        points = [json.loads(line) for line in f]
    return " ".join(f"{p['step']}:{p['loss']:.5g}" for p in points if p["loss"] is not None)


def curve_of(row):
    """Steps and training losses."""
    pairs = [p.split(":") for p in row["curve"].split()]
    return [int(a) for a, _ in pairs], [float(b) for _, b in pairs]


def test_loss(row):
    """Of the result; infinite if the run did not get there."""
    loss = math.inf if row["failed"] or not row["test_loss"] else float(row["test_loss"])
    return loss if math.isfinite(loss) else math.inf


def smooth(values, width=5):
    """Means over the last few points: a single logged loss is noisy."""
    return [sum(values[max(0, i + 1 - width):i + 1]) / min(width, i + 1) for i in range(len(values))]


def mean_curve(rows):
    """Steps, and the smoothed training losses in the mean over seeds."""
    curves = [smooth(curve_of(r)[1]) for r in rows]
    return curve_of(rows[0])[0], [sum(c) / len(c) for c in zip(*curves)]


def mean_bytes(rows):
    """The megabytes that worker 0 has sent at the steps of mean_curve(), if all steps send as much."""
    sent = sum(float(r["bytes_sent"]) / int(r["steps"]) for r in rows) / len(rows)
    return [sent * step / 1e6 for step in curve_of(rows[0])[0]]


def final_loss(row):
    """The training loss at the end of a run; infinite if it did not get there."""
    if row["failed"]:
        return math.inf
    steps, losses = curve_of(row)
    tail = [v for s, v in zip(steps, losses) if s > (1 - TAIL) * steps[-1]]
    mean = sum(tail) / len(tail)
    return mean if math.isfinite(mean) else math.inf
