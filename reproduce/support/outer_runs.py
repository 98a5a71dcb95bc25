# SPDX-License-Identifier: Apache-2.0
"""The runs of reproduce/outer, made once and kept in results/outer.csv.

All runs read the same number of bytes of Penn Treebank. Tuning runs are tested on the
beginning of the validation text, all others on the beginning of the test text, which is
also what their curves are of: evaluations are as dear as training if they read it all.
"""
import gzip
import json
import os
import subprocess
import sys
import tempfile

from support.runs import SEEDS, TUNING_SEED, short
from support.store import GRADWIRE, ROOT, append, need, read, stamp, version

TABLE = os.path.join(ROOT, "results", "outer.csv")
KEY = ["part", "workers", "sync", "lr", "seed"]
FIELDS = KEY + ["spec", "steps", "tokens", "params", "test_loss", "bytes_sent", "compute_s", "sync_s",
                "failed", "model_hash", "version", "date", "machine", "curve"]
METHODS = ["dense", "local:30", "diloco:30", "sparseloco:30", "topk:0.01"]
WORKERS = (4, 8)
PERIOD = 30
BATCH, SEQUENCE = 2, 32
# Tokens of all workers. `more` and `most` have 4 and 16 times the steps of `whole`, and `most` reads nearly all of
# the text, nothing of it twice. The others are tested on the validation text.
TOKENS = {"whole": 307200, "tune": 153600, "more": 1228800, "most": 4915200, "tune-more": 1228800}
LONGER = "sparseloco:30"  # what has time for more text while dense waits for the link
TEST_BYTES = 16001
EVALUATIONS = 10
LINK = "100mbit,50ms"
# Every method has its own inner rate: that of these with the least loss.
RATES = (0.001, 0.002, 0.004)
# Settings that were tried beside these, at dense's rate.
TRIED = ["diloco:30,lr=0.4", "diloco:30,lr=1", "diloco:30,momentum=0.6", "diloco:30,momentum=0.3", "diloco:15",
         "sparseloco:30,lr=0.5", "sparseloco:30,centre=hivemind", "sparseloco:15", "local:10", "local:3",
         "local:30+outer:2,0"]
# The same after more periods, with 4 workers: method and rate. `start` is a tenth of the steps.
MORE_TRIED = [("dense", 0.001), ("dense", 0.002), ("dense", 0.004), ("local:30", 0.002),
              ("local:30,start=480", 0.001), ("diloco:30", 0.0005), ("diloco:30", 0.001), ("diloco:30", 0.002),
              ("diloco:30,start=480", 0.001), ("diloco:30,start=480", 0.002), ("diloco:30,momentum=0.6", 0.001),
              ("diloco:30,momentum=0.6", 0.002), ("diloco:30,momentum=0.6,start=480", 0.001),
              ("diloco:10,momentum=0.6", 0.001), ("diloco:10,momentum=0.6,start=480", 0.001),
              ("diloco:10,momentum=0.6,start=960", 0.001), ("diloco:5,momentum=0.6,start=480", 0.001),
              ("sparseloco:30", 0.002)]
MORE_SHORT = [("diloco:30,momentum=0.6,start=60", 0.001), ("diloco:30,momentum=0.6,start=60", 0.002)]
MORE = [("dense", 0.001), ("diloco:30,momentum=0.6,start=480", 0.001)]
MOST = [("dense", 0.001), ("diloco:30,momentum=0.6,start=1920", 0.001)]


def key_of(row):
    return tuple(f"{float(row[k]):g}" if k == "lr" else str(row[k]) for k in KEY)


class Outer:
    """The rows there are; makes those that are missing when it is asked for them."""

    def __init__(self, args):
        self.dry = args.page
        self.data_dir = args.data_dir
        if not self.dry:
            need()
        self.rows = {key_of(r): r for r in read(TABLE)}

    # ---- which rows --------------------------------------------------------------

    def find(self, part, workers, sync, lr, seed):
        return self.rows.get(key_of(dict(part=part, workers=workers, sync=sync, lr=lr, seed=seed)))

    def get(self, part, workers, sync, lr, seed):
        have = self.find(part, workers, sync, lr, seed)
        if have or self.dry:
            return have
        print(f"{part:6} {workers} workers  lr {lr:<6g} seed {seed}  {sync}", flush=True)
        return self.keep(self.train(part, workers, sync, lr, seed))

    def keep(self, made):
        append(TABLE, FIELDS, made)
        row = {k: "" if made.get(k) is None else str(made[k]) for k in FIELDS}
        self.rows[key_of(row)] = row
        return row

    def tuned(self, sync):
        """The tuning runs of a method that there are, by their loss on the validation text."""
        rows = [self.get("tune", 4, sync, lr, TUNING_SEED) for lr in RATES]
        return sorted((r for r in rows if r and r["test_loss"]), key=lambda r: float(r["test_loss"]))

    def rate(self, sync):
        return float(self.tuned(sync)[0]["lr"])

    def tune(self):
        for sync in METHODS:
            self.tuned(sync)
        for sync in TRIED:
            self.get("tune", 4, sync, self.rate("dense"), TUNING_SEED)

    def longer(self):
        """What more periods, common starts, rates and batches change."""
        for sync, lr in MORE_TRIED:
            self.get("tune-more", 4, sync, lr, TUNING_SEED)
        for sync, lr in MORE_SHORT:
            self.get("tune", 4, sync, lr, TUNING_SEED)
        for seed in SEEDS:
            for sync, lr in MORE:
                self.get("more", 4, sync, lr, seed)
        for sync, lr in MOST:
            self.get("most", 4, sync, lr, SEEDS[0])

    # ---- making one --------------------------------------------------------------

    def text(self, where, split):
        """A directory with the training text and the beginning of another one."""
        for name, length in (("train", None), (split, TEST_BYTES)):
            target = "train.txt" if name == "train" else "test.txt"
            with open(os.path.join(where, target), "wb") as f:
                f.write(self.source(name)[:length])
        return where

    def source(self, name):
        base = os.path.join(self.data_dir or default_data(), "ptb", f"ptb.{name}.txt")
        if os.path.exists(base):
            with open(base, "rb") as f:
                return f.read()
        with gzip.open(base + ".gz") as f:
            return f.read()

    def train(self, part, workers, sync, lr, seed):
        """Runs it. One that diverges is kept as failed."""
        tuning = part.startswith("tune")
        steps = TOKENS[part] // (BATCH * SEQUENCE * workers)
        every = 0 if tuning else steps // EVALUATIONS // PERIOD * PERIOD
        want = dict(part=part, workers=workers, sync=sync, lr=f"{lr:g}", seed=seed)
        with tempfile.TemporaryDirectory() as parent:
            text = self.text(parent, "valid" if tuning else "test")
            done, out = run(parent, text, workers, sync, lr, seed, steps, "--eval-every", every)
            row = dict(want, steps=steps, tokens=TOKENS[part], **stamp(), curve=curve(out))
        if done.returncode in (-2, 130):
            raise KeyboardInterrupt
        if done.returncode != 0:
            why = done.stderr.strip().splitlines()
            if not row["curve"]:
                sys.exit(f"cannot run {sync}: {why[-1] if why else 'no message'}")
            return dict(row, failed=why[-1])
        return dict(row, **figures(json.loads(done.stdout)))

    def timed(self, workers):
        """Seconds of a step of each method on the link, by `gradwire plan`: part `plan`, with the step in
        sync_s and its computing in compute_s."""
        rows = [self.find("plan", workers, sync, 0, 1) for sync in METHODS]
        if all(rows) or self.dry:
            return
        compute = self.step_alone()
        params = self.tuned("dense")[0]["params"]
        words = [GRADWIRE, "plan", "--json", "--params", params, "--compute",
                 f"{1e6 * compute:.0f}us", "--workers", str(workers), "--optimizer", "adamw", "--link", LINK,
                 "--sync", " ".join(METHODS[1:])]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        for r in json.loads(done.stdout)["rows"]:
            row = dict(part="plan", workers=workers, sync=r["sync"], lr="0", seed=1, spec=r["runs_as"],
                       steps=r["first_steps"], bytes_sent=round(r["bytes_per_step"]), failed="", **stamp())
            self.keep(dict(row, compute_s=short(compute), sync_s=short(r["step_s"]), version=version()))

    def step_alone(self):
        """The least time that one worker's step took."""
        with tempfile.TemporaryDirectory() as parent:
            done, out = run(parent, self.text(parent, "test"), 1, "none", RATES[0], 1, 100, "--eval-every", 0,
                            "--log-every", 1)
            if done.returncode != 0:
                sys.exit(f"cannot time a step: {done.stderr.strip()}")
            with open(os.path.join(out, "metrics.jsonl")) as f:
                spent = [json.loads(line)["compute_s"] for line in f]
        return min(b - a for a, b in zip(spent, spent[1:]) if b > a)


def default_data():
    return os.environ.get("GRADWIRE_DATA") or os.path.join(
        os.environ.get("XDG_DATA_HOME", os.path.expanduser("~/.local/share")), "gradwire")


def run(parent, text, workers, sync, lr, seed, steps, *flags):
    """The finished process, and the directory of the run."""
    out = os.path.join(parent, "run")
    words = [GRADWIRE, "train", "--model", "transformer", "--data", f"text:{text},by=byte", "--workers", workers,
             "--batch", BATCH, "--sequence", SEQUENCE, "--optimizer", "adamw", "--weight-decay", 0.1,
             "--clip", 1, "--lr", lr, "--lr-schedule", "cosine:0.1", "--warmup", 60, "--sync", sync,
             "--seed", seed, "--steps", steps, "--timeout", 600, "--out", out, "--force", "--quiet", "--json",
             *flags]
    return subprocess.run([str(w) for w in words], capture_output=True, text=True), out


def figures(s):
    return dict(spec=s["sync"], params=s["params"], test_loss=short(s["test_loss"]), bytes_sent=s["bytes_sent"],
                compute_s=short(s["compute_s"]), sync_s=short(s["sync_s"]), failed="",
                model_hash=s["model_hash"], version=s["version"])


def curve(out):
    """Losses on the test text as 'step:loss step:loss ...'."""
    path = os.path.join(out, "metrics.jsonl")
    if not os.path.exists(path):
        return ""
    with open(path) as f:
        points = [json.loads(line) for line in f]
    return " ".join(f"{p['step']}:{p['test_loss']:.5g}" for p in points if p["test_loss"] is not None)


def curve_of(row):
    pairs = [p.split(":") for p in row["curve"].split()]
    return [(int(a), float(b)) for a, b in pairs]
