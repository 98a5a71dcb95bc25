#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""All methods at the same bytes: what each makes of 0.1, 1 and 3 % of dense's.

    reproduce/budgets.py [--budget PERCENT]   run what is missing, then write the page
    reproduce/budgets.py --page               only write the page again

Runs FNN-3 with plain SGD on Fashion-MNIST, with 4 workers. Each method has a spec for each
budget, whose bytes come near it. Its learning rate is tuned with seed 1 among three; the
best one runs with two seeds more. Results are appended to results/budgets.csv as they come,
and what is there is not run again. The table goes to docs/results-methods.md between its
marks. A budget takes about ten minutes on two free cores.
"""
import argparse
import os
import statistics
import sys

import methods
from support import page, store
from support.runs import guarded

TABLE = os.path.join(store.ROOT, "results", "budgets.csv")
EPOCHS = 1
SEEDS = (1, 2, 3)
RATES = (0.1, 0.2, 0.4)
SIGN_RATES = (0.0005, 0.001, 0.002)  # a step's length
BUDGETS = (0.1, 1.0, 3.0)
NONE = None  # there is no spec of so few bytes
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
    "local": ("local:1000", "local:100", "local:33"),
    "diloco": ("diloco:1000", "diloco:100", "diloco:33"),
    "pqasgd": ("pqasgd:64,2", "pqasgd:13,4", "pqasgd:4,4"),
    "sparseloco": ("sparseloco:10", "sparseloco:4,density=0.0625", "sparseloco:4,density=0.2"),
    "spa": ("spa:1300", "spa:130", "spa:33"),
    "sparta": ("sparta:0.0007", "sparta:0.0075", "sparta:0.03"),
    "a2sgd": ("a2sgd:resync=1000", "a2sgd:resync=100", "a2sgd:resync=33"),
}


def rates_of(sync):
    return SIGN_RATES if sync.startswith(("demo", "distro")) else RATES


def key(row):
    return row["sync"], float(row["lr"]), int(row["seed"])


class Runs:
    def __init__(self):
        self.rows = {key(r): r for r in store.read(TABLE)}

    def get(self, sync, lr, seed):
        row = dict(kind="budget", data="fashion-mnist", workers=4, sync=sync, lr=lr, seed=seed, link="")
        if key(row) in self.rows:
            return self.rows[key(row)]
        print(f"lr {lr:<6} seed {seed}  {sync}", flush=True)
        made = methods.train(row, ["--epochs", str(EPOCHS)])
        if made is None:
            sys.exit(1)
        store.append(TABLE, methods.FIELDS, made)
        self.rows[key(row)] = {k: "" if made[k] is None else str(made[k]) for k in methods.FIELDS}
        return self.rows[key(row)]

    def all_seeds(self, sync):
        tuned = [self.get(sync, lr, SEEDS[0]) for lr in rates_of(sync)]
        for seed in SEEDS[1:]:
            self.get(sync, methods.best_rate(tuned), seed)


def run(runs, budgets):
    runs.all_seeds("dense")
    for budget in budgets:
        for specs in SPECS.values():
            sync = specs[BUDGETS.index(budget)]
            if sync is not NONE:
                runs.all_seeds(sync)


# ---- the page --------------------------------------------------------------------------


def chosen(rows, sync):
    """All seeds at the best rate; [] if not all are there."""
    tuned = [rows.get((sync, lr, SEEDS[0])) for lr in rates_of(sync)]
    if None in tuned:
        return []
    found = [rows.get((sync, methods.best_rate(tuned), seed)) for seed in SEEDS]
    return [] if None in found else found


def cells(rows, sync, dense):
    found = chosen(rows, sync) if sync is not NONE else []
    if not found:
        return None, ["", "not run" if sync is not NONE else "none so small", "", ""]
    accuracy = [float(r["accuracy"]) for r in found]
    share = statistics.mean(float(r["bytes_per_step"]) for r in found) / dense
    return statistics.mean(accuracy), [f"`{sync}`", methods.spread(accuracy), f"{100 * share:.2f} %",
                                       f"{float(found[0]['lr']):g}"]


def budget_table(rows, place, dense):
    lines = []
    for name, specs in SPECS.items():
        mean, line = cells(rows, specs[place], dense)
        lines.append((-(mean or 0), [name] + line))
    return page.table(["method", "spec", "accuracy", "of dense's bytes", "lr"],
                      [line for _, line in sorted(lines, key=lambda one: one[0])])


def write_page(rows):
    dense = chosen(rows, "dense")
    if not dense:
        return
    sent = float(dense[0]["bytes_per_step"])
    parts = [f"{page.made_by('reproduce/budgets.py', rows.values())} FNN-3 was trained on Fashion-MNIST for "
             f"{EPOCHS} epoch{'s' if EPOCHS > 1 else ''} by plain SGD with a cosine schedule, with 4 workers and batches of 32 each. Each method has the "
             "spec whose bytes, those of worker 0, come near the budget; its rate is the best of three with seed 1. "
             f"Accuracies are mean and standard deviation of {len(SEEDS)} seeds. `dense` has "
             f"{methods.spread([float(r['accuracy']) for r in dense])}.\n"]
    for place, budget in enumerate(BUDGETS):
        if not any(chosen(rows, specs[place]) for specs in SPECS.values() if specs[place] is not NONE):
            continue
        parts.append(f"### {budget:g} % of dense's bytes\n\n{budget_table(rows, place, sent)}")
    page.write_between("results-methods.md", "budgets", "\n".join(parts))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--budget", type=float, choices=BUDGETS, action="append", help="run only this one")
    parser.add_argument("--page", action="store_true", help="only write the page")
    args = parser.parse_args()
    runs = Runs()
    if not args.page:
        store.need()
        run(runs, args.budget or BUDGETS)
    write_page(runs.rows)
    print("wrote docs/results-methods.md")
    return 0


if __name__ == "__main__":
    sys.exit(guarded(main))
