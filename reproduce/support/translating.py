# SPDX-License-Identifier: Apache-2.0
"""Translations that are trained once and kept in results/translation.csv.

A run is a sync, with or without layer normalization, a learning rate, a seed and a part:
`tune` runs choose the rate on the validation sentences, all others are scored on the test
sentences. All runs of a part have the same number of gradients.
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

from support import runs as R

TABLE = os.path.join(R.ROOT, "results", "translation.csv")
KEY = ["part", "sync", "layer_norm", "lr", "seed", "workers"]
FIELDS = KEY + ["batch", "steps", "params", "bleu", "loss", "train_loss", "bytes_sent", "step_s",
                "exchange_s", "seconds", "failed", "version", "date", "machine"]
EXAMPLE = os.path.join(R.ROOT, "python", "examples", "translate.py")
PYTHON = os.environ.get("PYTHON", "/usr/bin/python3")
WORKERS, BATCH = 2, 32
# Small enough for two cores, and for one epoch to be enough to translate.
NETWORK = ["--embedding", "128", "--hidden", "128", "--vocabulary", "3000"]
EPOCH = 453  # steps
EPOCHS = {"whole": 1, "long": 2, "longest": 6}
STEPS = {"tune": 120, **{part: n * EPOCH for part, n in EPOCHS.items()}}
TESTED = {"tune": "val", **dict.fromkeys(EPOCHS, "test_2016_flickr")}
RATES = (0.002, 0.004, 0.008)  # and on by doubling, while the largest is the best
MOST_RATE = 0.064
TUNING_SEED = 101
CORE = "SkylakeX"


def environment():
    """One thread each. Debian's OpenBLAS does not know newer CPUs and takes its oldest
    kernels: it is told which to take."""
    env = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo",
               GRADWIRE_ADDRESS="127.0.0.1", PYTHONPATH=os.path.join(R.ROOT, "python"))
    with open("/proc/cpuinfo") as f:
        if "avx512f" in f.read():
            env.setdefault("OPENBLAS_CORETYPE", CORE)
    return env


def key_of(row):
    return tuple(f"{float(row[k]):g}" if k == "lr" else str(row[k]) for k in KEY)


def call(words):
    """The exit status and all that was printed; on Ctrl-C nothing is left running."""
    process = subprocess.Popen(words, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        said, _ = process.communicate()
    except KeyboardInterrupt:
        process.send_signal(signal.SIGINT)
        process.wait()
        sys.exit(130)
    return process.returncode, said


class Translations:
    """The runs there are; makes those that are missing when it is asked for them."""

    def __init__(self, data_dir, dry):
        self.data_dir, self.dry = data_dir, dry
        self.rows = {key_of(r): r for r in R.read(TABLE)}

    def get(self, sync, layer_norm, lr, seed, part="whole"):
        """The row, made if need be; None if it may not be made."""
        want = dict(part=part, sync=sync, layer_norm=int(layer_norm), lr=f"{lr:g}", seed=seed, workers=WORKERS)
        have = self.rows.get(key_of(want))
        if have or self.dry:
            return have
        print(f"{part:5} {'with   ' if layer_norm else 'without'} layer norm  lr {lr:<6g} seed {seed}  {sync}", flush=True)
        made = self.train(want)
        R.append(TABLE, FIELDS, made)
        row = {k: str(made.get(k, "")) for k in FIELDS}
        self.rows[key_of(row)] = row
        print(f"      BLEU {row['bleu']}, loss {row['loss']}, {row['seconds']} s {row['failed']}", flush=True)
        return row

    def command(self, want, folder):
        words = [PYTHON, "-m", "torch.distributed.run", "--nproc_per_node", want["workers"], "--rdzv_backend", "c10d",
                 "--rdzv_endpoint", "localhost:0", "--redirects", "1", "--tee", "1", "--log_dir", folder, EXAMPLE,
                 "--data-dir", self.data_dir, "--sync", want["sync"], "--momentum", "off", "--lr", want["lr"], "--seed", want["seed"],
                 "--batch", BATCH, "--epochs", "100", "--steps", STEPS[want["part"]], "--test",
                 TESTED[want["part"]], "--json", os.path.join(folder, "summary.json"), *NETWORK]
        return [str(w) for w in words + (["--layer-norm"] if int(want["layer_norm"]) else [])]

    def train(self, want):
        """Runs it. One that ends because numbers overflow is kept as failed."""
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            status, said = call(self.command(want, folder))
            row = dict(want, batch=BATCH, seconds=f"{time.monotonic() - begin:.0f}", failed="", **R.stamp())
            if status == 0:
                with open(os.path.join(folder, "summary.json")) as f:
                    return fill(row, json.load(f))
        why = next((line for line in said.splitlines() if "translate.py: " in line), "")
        if "NaN" not in why and "finite" not in why:
            sys.exit(f"{said}\n{want['sync']} failed with exit status {status}")
        return dict(row, failed=why.split("translate.py: ", 1)[1])

    def tuned(self, sync, layer_norm):
        """The runs that choose the rate; None if not all were made."""
        rates, rows = list(RATES), []
        for lr in rates:
            rows.append(self.get(sync, layer_norm, lr, TUNING_SEED, "tune"))
            if None in rows:
                return None
            if lr >= RATES[-1] and lr < MOST_RATE and best(rows) == lr:
                rates.append(2 * lr)
        return rows

    def best_rate(self, sync, layer_norm):
        """The rate with the least validation loss; None if it is not known."""
        rows = self.tuned(sync, layer_norm)
        return best(rows) if rows else None


def best(rows):
    return float(min(rows, key=lambda r: float("inf") if r["failed"] else float(r["loss"]))["lr"])


def fill(row, s):
    short = {k: f"{s[k]:.5g}" for k in ("loss", "train_loss", "step_s", "exchange_s")}
    return dict(row, **short, bleu=f"{s['bleu']:.2f}", steps=s["steps"], params=s["params"],
                bytes_sent=int(s["bytes_sent"]), version=s["version"])
