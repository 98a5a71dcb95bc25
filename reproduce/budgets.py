#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""All methods at the same bytes: what each makes of 0.1, 1 and 3 % of dense's.

    reproduce/budgets.py [--model NAME] [--budget PERCENT]   run what is missing, then write the page
    reproduce/budgets.py --page                              only write the page again

Trains three models by plain SGD with 4 workers: FNN-3 and the CNN at three budgets, the LSTM
at 1 %. Each method has a spec for each budget, whose bytes come near it. Its learning rate
is tuned with seed 1 among three, and goes on while the best is at the end; the best one runs
with two seeds more. FNN-3 is also trained with momentum and with Adam at 1 %, and a
Transformer with AdamW at three budgets, where all methods have dense's rate, and gradwire
fits specs to the optimizer, but without warm-up. Results are appended to results/budgets.csv as they come, and what is
there is not run again. The tables go to docs/results-methods.md between their marks. A budget
takes about ten minutes on two free cores with FNN-3, and half an hour with the others.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass

from support import page, store
from support.runs import guarded

TABLE = os.path.join(store.ROOT, "results", "budgets.csv")
SEEDS = (1, 2, 3)
SIGN_RATES = (0.0005, 0.001, 0.002)  # a step's length
FIELDS = ["model", "sync", "lr", "seed", "steps", "accuracy", "loss", "workers_accuracy", "drift",
          "bytes_per_step", "params", "failed", "version", "date", "machine"]
BUDGETS = (0.1, 1.0, 3.0)
NONE = None  # there is no spec of so few bytes
# These begin with whole steps where the optimizer has momentum, which alone are more than a budget.
WARM = ("topk", "topk+2bit", "gtopk", "gtopk+q", "oktopk", "oktopk+q", "drop+2bit")
SPECS = {
    "topk": ("topk:0.00038", "topk:0.0039", "topk:0.012"),
    "topk+2bit": ("topk:0.0016+2bit", "topk:0.018+2bit", "topk:0.06+2bit"),
    "topk+ef21": ("topk:0.00038+ef21", "topk:0.0039+ef21", "topk:0.012+ef21"),
    "gtopk": ("gtopk:0.0006", "gtopk:0.006", "gtopk:0.019"),
    "gtopk+q": ("gtopk:0.0018+q:4", "gtopk:0.022+q:4", "gtopk:0.075+q:4"),
    "oktopk": ("oktopk:0.0007", "oktopk:0.0072", "oktopk:0.022"),
    "oktopk+q": ("oktopk:0.0018+q:4", "oktopk:0.02+q:4", "oktopk:0.07+q:4"),
    "drop+2bit": ("drop:0.9984+2bit", "drop:0.982+2bit", "drop:0.94+2bit"),
    "demo": ("demo:0.0001", "demo:0.0038", "demo:0.0115"),
    "distro": ("distro:0.0015", "distro:0.02", "distro:0.065"),
    "randk": ("randk:0.0007", "randk:0.007", "randk:0.025"),
    "lowrank": (NONE, "lowrank:1", "lowrank:2"),
    "sign": (NONE, NONE, "sign:2048"),
    "qsgd": (NONE, "qsgd:2,norm=l2,code=entropy", "qsgd:2,code=entropy"),
    "local": ("local:1000", "local:100", "local:36"),
    "diloco": (NONE, "diloco:100", "diloco:36"),
    "pqasgd": ("pqasgd:52,2", "pqasgd:13,4", "pqasgd:4,4"),
    "sparseloco": ("sparseloco:12", "sparseloco:4,density=0.0625", "sparseloco:4,density=0.2"),
    "spa": ("spa:1300", "spa:130", "spa:33"),
    "sparta": ("sparta:0.0007", "sparta:0.0075", "sparta:0.03"),
    "a2sgd": ("a2sgd:resync=1000", "a2sgd:resync=100", "a2sgd:resync=33"),
}


@dataclass(frozen=True)
class Job:
    """A model, how long it is trained, and the rates that every method may choose from."""
    name: str
    title: str
    data: str
    steps: int
    batch: int
    rates: tuple
    budgets: tuple
    flags: tuple = ("--momentum", "0")
    model: str = ""        # the name, if not given
    same_rate: bool = False  # dense's rate for all, and specs are fitted to the optimizer


JOBS = {job.name: job for job in [
    Job("fnn3", "FNN-3 on Fashion-MNIST", "fashion-mnist", 468, 32, (0.1, 0.2, 0.4), BUDGETS),
    Job("cnn", "CNN on Fashion-MNIST", "fashion-mnist", 200, 32, (0.05, 0.1, 0.2), BUDGETS),
    Job("lstm:200", "LSTM on Penn Treebank", "ptb", 150, 5, (10, 20, 40), (1.0,),
        ("--momentum", "0", "--clip", "0.25")),
    Job("fnn3-momentum", "FNN-3, SGD with momentum 0.9", "fashion-mnist", 468, 32, (0.025, 0.05, 0.1), (1.0,),
        ("--momentum", "0.9"), "fnn3", True),
    Job("fnn3-adam", "FNN-3, Adam", "fashion-mnist", 468, 32, (0.001, 0.002, 0.004), (1.0,),
        ("--optimizer", "adam"), "fnn3", True),
    Job("transformer-adamw", "Transformer on Penn Treebank, AdamW", "ptb", 400, 8, (0.001, 0.002, 0.004), BUDGETS,
        ("--optimizer", "adamw", "--weight-decay", "0.01"), "transformer:layers=2,heads=4,width=64", True),
]}


def rates_of(job, sync):
    return SIGN_RATES if sync.startswith(("demo", "distro")) else job.rates


def wants(job, name):
    """demo and distro take the place of an optimizer."""
    return not job.same_rate or name not in ("demo", "distro")


def spec_of(job, name, place):
    """With advice, warm-up is off: the budget is for the whole training."""
    spec = SPECS[name][place]
    if spec is NONE or not job.same_rate or name not in WARM:
        return spec
    first, plus, rest = spec.partition("+")
    return f"{first},warmup=0{plus}{rest}"


def specs_of(job, place):
    """Name and spec of all methods that the job has."""
    return [(name, spec_of(job, name, place)) for name in SPECS if wants(job, name)]


def key(row):
    return row["model"], row["sync"], float(row["lr"]), int(row["seed"])


def loss(row):
    """What is to be small: the test loss, or the share of mistakes where there is an accuracy."""
    if row["failed"]:
        return math.inf
    return 1 - float(row["accuracy"]) if row["accuracy"] else float(row["loss"])


class Runs:
    """The runs there are; makes those that are missing unless it is dry."""
    table = TABLE

    def __init__(self, data_dir, dry):
        self.data_dir, self.dry = data_dir, dry
        self.rows = {key(r): r for r in store.read(self.table)}

    def steps(self, job, sync):
        return job.steps

    def get(self, job, sync, lr, seed):
        row = dict(model=job.name, sync=sync, lr=f"{lr:g}", seed=seed, steps=self.steps(job, sync),
                   **store.stamp())
        if key(row) in self.rows or self.dry:
            return self.rows.get(key(row))
        print(f"{job.name:8} lr {lr:<6g} seed {seed}  {sync}", flush=True)
        row.update(self.train(job, sync, lr, seed))
        store.append(self.table, FIELDS, row)
        self.rows[key(row)] = {k: "" if row.get(k) is None else str(row[k]) for k in FIELDS}
        return self.rows[key(row)]

    def train(self, job, sync, lr, seed):
        where = os.path.join(self.data_dir, job.data) if self.data_dir else ""
        with tempfile.TemporaryDirectory() as out:
            command = [store.GRADWIRE, "train", "--model", job.model or job.name, "--data", job.data,
                       "--workers", "4", "--batch", str(job.batch), "--sync", sync, "--lr", f"{lr:g}",
                       "--seed", str(seed), "--steps", str(self.steps(job, sync)), "--lr-schedule", "cosine",
                       "--eval-every", "0", "--advice", "on" if job.same_rate else "off", "--timeout", "600",
                       "--out", os.path.join(out, "run"), "--quiet", "--json", *job.flags,
                       *(["--data-dir", where] if os.path.isdir(where) else [])]
            done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0 and "NaN or infinit" in done.stderr:
            return dict(failed="diverged", version=store.version())
        if done.returncode != 0:
            sys.exit(done.stderr.strip())
        s = json.loads(done.stdout)
        return dict(accuracy=s["test_accuracy"], loss=s["test_loss"], workers_accuracy=s["test_accuracy_workers"],
                    drift=s["drift"], bytes_per_step=round(s["bytes_sent"] / s["steps"], 1), params=s["params"],
                    version=s["version"])

    def risk(self, job, sync, row):
        """The loss with seed 1; infinite if another seed diverged at this rate."""
        others = (self.rows.get((job.name, sync, float(row["lr"]), seed)) for seed in SEEDS)
        return max([loss(row)] + [math.inf for other in others if other and other["failed"]])

    def tuned(self, job, sync):
        """The best rate with seed 1; None if runs are missing. A rate at the end of the grid gets the next."""
        if job.same_rate and sync != "dense":
            return self.tuned(job, "dense")
        grid = {lr: self.get(job, sync, lr, SEEDS[0]) for lr in rates_of(job, sync)}
        while None not in grid.values():
            best = min(grid, key=lambda lr: self.risk(job, sync, grid[lr]))
            if min(grid) < best < max(grid) or math.isinf(self.risk(job, sync, grid[best])) or \
                    len(grid) >= 6:
                return best
            lr = best * 2 if best == max(grid) else best / 2
            grid[lr] = self.get(job, sync, lr, SEEDS[0])
        return None

    def chosen(self, job, sync, seeds=SEEDS):
        """The seeds at the best rate that are there; [] if the rate is not known."""
        lr = self.tuned(job, sync) if sync is not NONE else None
        found = [self.get(job, sync, lr, seed) for seed in seeds] if lr else []
        if any(row and row["failed"] for row in found) and self.tuned(job, sync) != lr:
            return self.chosen(job, sync)  # the next best rate, with all seeds
        return [row for row in found if row]


def run(runs, job, budgets, seeds):
    """Seed 1 of everything first."""
    places = [BUDGETS.index(budget) for budget in budgets]
    syncs = ["dense"] + [spec for place in places for _, spec in specs_of(job, place) if spec is not NONE]
    for sync in syncs:
        runs.tuned(job, sync)
    for seed in seeds:
        for sync in syncs:
            runs.chosen(job, sync, (seed,))


# ---- the page --------------------------------------------------------------------------


def score(found):
    """Accuracy in percent, or loss."""
    if any(r["failed"] for r in found):
        return "diverged"
    percent = bool(found[0]["accuracy"])
    values = [float(r["accuracy"]) * 100 if percent else float(r["loss"]) for r in found]
    return page.spread(values, 2 if percent else 3)


def line_of(runs, job, sync, dense):
    found = runs.chosen(job, sync)
    if not found:
        return math.inf, None, ["", "not run" if sync is not NONE else "none so small", "", "", ""]
    share = statistics.mean(float(r["bytes_per_step"] or 0) for r in found) / dense
    losses = [loss(r) for r in found]
    cells = [f"`{sync}`", score(found), f"{100 * share:.2f} %", f"{float(found[0]['lr']):g}", len(found)]
    return statistics.mean(losses), losses, cells


def noise(losses):
    return statistics.stdev(losses) if len(losses) > 1 and not math.isinf(sum(losses)) else 0


def budget_table(runs, job, place, dense):
    """The best first; those whose means are within the sum of both deviations of it are marked, too."""
    lines = sorted(((*line_of(runs, job, spec, dense), name) for name, spec in specs_of(job, place)),
                   key=lambda one: one[0])
    best, best_losses = lines[0][:2]
    out = []
    for mean, losses, cells, name in lines:
        if losses and best_losses and mean - best <= noise(losses) + noise(best_losses):
            cells = [cells[0], f"**{cells[1]}**"] + cells[2:]
        out.append([name] + cells)
    what = "accuracy" if runs.chosen(job, "dense")[0]["accuracy"] else "test loss"
    return page.table(["method", "spec", what, "of dense's bytes", "lr", "seeds"], out)


def job_part(runs, job):
    dense = runs.chosen(job, "dense")
    tables = []
    for budget in job.budgets:
        place = BUDGETS.index(budget)
        if dense and any(runs.chosen(job, spec) for _, spec in specs_of(job, place)):
            tables.append(f"### {job.title}, {budget:g} % of dense's bytes\n\n" +
                          budget_table(runs, job, place, float(dense[0]["bytes_per_step"])))
    if not tables:
        return ""
    return (f"{job.title}: {job.steps} steps, batches of {job.batch} per worker. `dense` has {score(dense)} with rate "
            f"{float(dense[0]['lr']):g}{', which all methods have here' if job.same_rate else ''}.\n\n" +
            "\n".join(tables))


def write_page(runs):
    text = (f"{page.made_by('reproduce/budgets.py', runs.rows.values())} Models were trained with a cosine "
            "schedule and 4 workers, by plain SGD unless a heading says otherwise. Each method has the spec whose "
            "bytes, those of worker 0, come near the budget. Its rate is the best of three or more with seed 1: a "
            "rate at the end of the grid got the next one, and one at which any seed diverged does not count. Scores "
            "are mean and standard deviation of the seeds. The best one is bold, and so is every other whose mean is "
            "as good within the sum of both deviations.\n\n")
    parts = (job_part(runs, job) for job in JOBS.values())
    page.write_between("results-methods.md", "budgets", text + "\n".join(parts))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data-dir", default=os.environ.get("DATA_DIR"), help="directory that contains ptb")
    parser.add_argument("--model", choices=JOBS, action="append", help="run only this one")
    parser.add_argument("--budget", type=float, choices=BUDGETS, action="append", help="run only this one")
    parser.add_argument("--seeds", type=int, choices=SEEDS, default=len(SEEDS), help="run only so many")
    parser.add_argument("--page", action="store_true", help="only write the page")
    args = parser.parse_args()
    runs = Runs(args.data_dir, args.page)
    if not args.page:
        store.need()
        for name in args.model or JOBS:
            run(runs, JOBS[name], [b for b in JOBS[name].budgets if b in (args.budget or BUDGETS)],
                SEEDS[:args.seeds])
        runs.dry = True
    write_page(runs)
    print("wrote docs/results-methods.md")
    return 0


if __name__ == "__main__":
    sys.exit(guarded(main))
