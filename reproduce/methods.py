#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Every method side by side: accuracy, bytes, time on slow links.

    reproduce/methods.py [--data-dir DIR]     run what is missing, then write the page
    reproduce/methods.py --page               only write the page again

Runs FNN-3 with plain SGD on Fashion-MNIST and, if it is found, MNIST, with 4 and 8
workers. The learning rate of each method is tuned on Fashion-MNIST with 4 workers and
seed 1 within a half, one and two times that of dense; everything else runs with the
best. Results are appended to
results/methods.csv as they come, and what is there is not run again. The tables go to
docs/results-methods.md between its marks.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

from support import page, store
from support.runs import guarded

TABLE = os.path.join(store.ROOT, "results", "methods.csv")

METHODS = ["dense", "none", "a2sgd", "a2sgd:resync=8", "local:8", "local:grow", "oneshot", "spa:8",
           "pqasgd:4,8", "pqasgd:8,4", "qsgd:4", "topk:0.01", "topk:0.001", "gtopk:0.01",
           "gtopk:0.01,putback=paper", "gtopk:0.001", "gtopk:0.001,putback=paper", "gtopk:0.001+q:4",
           "drop:0.99", "drop:0.99+2bit"]
RATES = (0.1, 0.2, 0.4)  # a half, one and two times dense's
SEEDS = (1, 2, 3)
JOBS = [("fashion-mnist", 4), ("mnist", 4), ("fashion-mnist", 8), ("mnist", 8)]
LINKS = ("1gbit,50us", "100mbit,100us")
EPOCHS = 5
LINK_STEPS = 60
FIELDS = ["kind", "data", "workers", "sync", "lr", "seed", "link", "accuracy", "workers_accuracy",
          "drift", "bytes_per_step", "params", "compute_ms", "sync_ms", "version", "date",
          "machine"]


def key(row):
    return tuple(str(row[k]) for k in ("kind", "data", "workers", "sync", "lr", "seed", "link"))


def train(row, extra):
    """Runs one row and fills it in; None if the data is not there."""
    with tempfile.TemporaryDirectory() as out:
        command = [store.GRADWIRE, "train", "--model", "fnn3", "--data", row["data"], "--workers",
                   str(row["workers"]), "--sync", row["sync"], "--lr", str(row["lr"]), "--momentum", "0",
                   "--seed", str(row["seed"]), "--eval-every", "0", "--out", os.path.join(out, "run"),
                   "--quiet", "--json", "--advice", "off", *extra]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stderr.strip(), file=sys.stderr)
        return None
    s = json.loads(done.stdout)
    row.update(accuracy=s["test_accuracy"], workers_accuracy=s["test_accuracy_workers"], drift=s["drift"],
               bytes_per_step=round(s["bytes_sent"] / s["steps"], 1), params=s["params"],
               compute_ms=round(1e3 * s["compute_s"] / s["steps"], 3),
               sync_ms=round(1e3 * s["sync_s"] / s["steps"], 3), version=s["version"], **store.stamp())
    return row


class Runs:
    """The rows there are, and those to be made."""

    def __init__(self, data_dir):
        self.rows = {key(r): r for r in store.read(TABLE)}
        self.extra = ["--data-dir", os.path.join(data_dir, "mnist")] if data_dir else []
        self.missing = set()

    def get(self, **row):
        row = {"kind": "", "link": "", **row}
        have = self.rows.get(key(row))
        if have or row["data"] in self.missing:
            return have
        more = ["--epochs", str(EPOCHS)]
        if row["kind"] == "link":
            more = ["--steps", str(LINK_STEPS), "--link", row["link"]]
        print(f"{row['kind']:9} {row['data']:14} {row['workers']} workers  lr {row['lr']:<4} seed "
              f"{row['seed']}  {row['link']:14} {row['sync']}", flush=True)
        made = train(row, more + (self.extra if row["data"] == "mnist" else []))
        if made is None:
            self.missing.add(row["data"])
            return None
        self.save(made)
        return made

    def save(self, row):
        store.append(TABLE, FIELDS, row)
        self.rows[key(row)] = {k: "" if row[k] is None else str(row[k]) for k in FIELDS}


def run_accuracy(runs, data, workers):
    for sync in METHODS:
        tuned = [runs.get(kind="accuracy", data=JOBS[0][0], workers=JOBS[0][1], sync=sync, lr=lr, seed=1)
                 for lr in RATES]
        if None in tuned:
            return
        for seed in SEEDS:
            runs.get(kind="accuracy", data=data, workers=workers, sync=sync, lr=best_rate(tuned), seed=seed)


def best_rate(tuned):
    return float(max(tuned, key=lambda r: float(r["accuracy"]))["lr"])


def run_links(runs, workers):
    for link in LINKS:
        for sync in METHODS:
            runs.get(kind="link", data="fashion-mnist", workers=workers, sync=sync, lr=0.2, seed=1,
                     link=link)


def run_all(runs):
    for data, workers in JOBS:
        run_accuracy(runs, data, workers)
        if data == "fashion-mnist":
            run_links(runs, workers)


# ---- the page --------------------------------------------------------------------------


def best_rows(rows, data, workers, sync):
    """All seeds at the learning rate that was chosen; [] if not all are there."""
    mine = [r for r in rows if r["kind"] == "accuracy" and r["sync"] == sync]
    tuned = [r for r in mine if (r["data"], int(r["workers"])) == JOBS[0] and r["seed"] == "1"]
    if len(tuned) < len(RATES):
        return []
    chosen = [r for r in mine if float(r["lr"]) == best_rate(tuned) and r["data"] == data and
              r["workers"] == str(workers)]
    return chosen if len(chosen) == len(SEEDS) else []


def spread(values):
    return f"{100 * statistics.mean(values):.2f} ± {100 * statistics.stdev(values):.2f}"


def link_cells(rows, workers, sync):
    cells = []
    for link in LINKS:
        found = [r for r in rows if r["kind"] == "link" and r["workers"] == str(workers) and
                 r["sync"] == sync and r["link"] == link]
        cells.append(f"{float(found[0]['compute_ms']) + float(found[0]['sync_ms']):.2f} "
                     f"({float(found[0]['sync_ms']):.2f})" if found else "-")
    return cells


def table(rows, data, workers):
    lines = []
    dense = best_rows(rows, data, workers, "dense")
    for sync in METHODS:
        mine = best_rows(rows, data, workers, sync)
        if not mine or not dense:
            continue
        own = [float(r["workers_accuracy"]) for r in mine if r["workers_accuracy"]]
        drift = [float(r["drift"]) for r in mine if r["drift"]]
        sent = float(mine[0]["bytes_per_step"])
        lines.append([
            f"`{sync}`", mine[0]["lr"], spread([float(r["accuracy"]) for r in mine]),
            spread(own) if len(own) == len(mine) else "", f"{statistics.mean(drift):.2g}" if drift else "",
            f"{sent:,.0f}", f"{100 * sent / float(dense[0]['bytes_per_step']):.2f} %",
            *(link_cells(rows, workers, sync) if data == "fashion-mnist" else ["", ""])])
    return page.table(["method", "lr", "accuracy", "workers' own", "drift", "bytes per step", "of dense",
                       "ms per step, 1 Gbit/s", "100 Mbit/s"], lines)


def write_page(rows):
    parts = [f"{page.made_by('reproduce/methods.py', rows)} FNN-3 was trained for {EPOCHS} epochs by plain SGD "
             "with a cosine schedule and batches of 32 per worker. The learning rate was tuned for each method on "
             "Fashion-MNIST with 4 workers and seed 1, among half, one and two times the 0.2 of `dense`. Accuracies "
             f"are mean and standard deviation of {len(SEEDS)} seeds. Bytes are sent by worker 0, headers included. "
             f"Times are per step over {LINK_STEPS} steps on an emulated link, with all workers on the two cores of "
             "one machine; the time inside the sync is in brackets.\n"]
    for data, workers in JOBS:
        if best_rows(rows, data, workers, "dense"):
            parts.append(f"## {data}, {workers} workers\n\n{table(rows, data, workers)}")
    page.write_between("results-methods.md", "methods", "\n".join(parts))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data-dir", default=os.environ.get("DATA_DIR"), help="directory that contains mnist")
    parser.add_argument("--page", action="store_true", help="only write the page")
    args = parser.parse_args()
    runs = Runs(args.data_dir)
    if not args.page:
        store.need()
        run_all(runs)
    write_page(store.read(TABLE))
    print("wrote docs/results-methods.md")
    return 0


if __name__ == "__main__":
    sys.exit(guarded(main))
