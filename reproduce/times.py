#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""All methods in the same time: what each makes of it on a slow link.

    reproduce/times.py [--link LINK]   run what is missing, then write the page
    reproduce/times.py --page          only write the page again
    reproduce/times.py --check         run one small row again and compare it

FNN-3 learns Fashion-MNIST with 4 workers by plain SGD. `gradwire plan` says how long a step
of a method takes on a link, and so how many steps fit into the time in which `dense` makes
some. No method makes more than five passes over the data. Rates are tuned as in
reproduce/budgets.py; runs are kept in results/times.csv and steps in results/times-steps.csv.
Takes about ten minutes on two free cores for each link.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

import budgets
from budgets import Job, loss, noise, score
from support import page, store
from support.runs import guarded

STEPS_TABLE = os.path.join(store.ROOT, "results", "times-steps.csv")
STEP_FIELDS = ["link", "sync", "step_s", "bytes_per_step", "version", "date", "machine"]
COMPUTE = 0.0005  # of FNN-3 with batches of 32, on one core of the machine of 2026-11-18
DENSE_STEPS = {"1gbit,50us": 100, "100mbit,100us": 40}
BATCH, WORKERS, IMAGES, PASSES = 32, 4, 60000, 5
MOST = PASSES * IMAGES // (BATCH * WORKERS)
METHODS = ["dense", "qsgd:4", "topk:0.01", "topk:0.001", "gtopk:0.01", "gtopk:0.001", "oktopk:0.01", "drop:0.99",
           "topk:0.01+2bit", "gtopk:0.01+q:4", "topk:0.01+ef21", "demo", "distro", "randk:0.05", "lowrank:1", "sign",
           "local:8", "local:32", "diloco:30", "sparseloco:30", "pqasgd:8,4", "spa:8", "sparta:0.05", "a2sgd",
           "none"]
JOBS = {link: Job(f"fnn3 {link}", link, "fashion-mnist", 0, BATCH, (0.1, 0.2, 0.4), (), model="fnn3")
        for link in DENSE_STEPS}


class Timed(budgets.Runs):
    """Runs of as many steps as fit into a time."""
    table = os.path.join(store.ROOT, "results", "times.csv")

    def __init__(self, data_dir, dry):
        super().__init__(data_dir, dry)
        self.planned = {(r["link"], r["sync"]): r for r in store.read(STEPS_TABLE)}

    def plan(self, link):
        """The time of a step of each method on the link."""
        missing = [s for s in METHODS if (link, s) not in self.planned]
        if self.dry or not missing:
            return
        words = [store.GRADWIRE, "plan", "--json", "--params", "199210", "--compute", f"{1e6 * COMPUTE:.0f}us",
                 "--workers", str(WORKERS), "--momentum", "0", "--link", link, "--sync", " ".join(missing)]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        for r in json.loads(done.stdout)["rows"]:
            row = dict(link=link, sync=r["sync"], step_s=f"{r['step_s']:.6g}",
                       bytes_per_step=round(r["bytes_per_step"]), version=store.version(), **store.stamp())
            if r["sync"] in missing:
                store.append(STEPS_TABLE, STEP_FIELDS, row)
                self.planned[link, r["sync"]] = row

    def step_s(self, link, sync):
        return float(self.planned[link, sync]["step_s"])

    def steps(self, job, sync):
        budget = DENSE_STEPS[job.title] * self.step_s(job.title, "dense")
        return max(1, min(MOST, int(budget / self.step_s(job.title, sync))))


def run_all(runs, links):
    for link in links:
        runs.plan(link)
        for sync in METHODS:
            runs.tuned(JOBS[link], sync)
    for seed in budgets.SEEDS:
        for link in links:
            for sync in METHODS:
                runs.chosen(JOBS[link], sync, (seed,))


def lines_of(runs, link):
    """The best first."""
    lines = []
    for sync in METHODS:
        found = runs.chosen(JOBS[link], sync)
        if found:
            losses = [loss(r) for r in found]
            lines.append((statistics.mean(losses), losses, sync, found))
    return sorted(lines, key=lambda line: line[0])


def link_table(runs, link):
    lines, out = lines_of(runs, link), []
    best, best_losses = lines[0][:2]
    for mean, losses, sync, found in lines:
        close = mean - best <= noise(losses) + noise(best_losses)
        text = f"**{score(found)}**" if close else score(found)
        steps = runs.steps(JOBS[link], sync)
        out.append([f"`{sync}`", text, f"{steps:,}{' (all)' if steps == MOST else ''}",
                    f"{1000 * runs.step_s(link, sync):.3g} ms", f"{steps * runs.step_s(link, sync):.1f} s",
                    page.number(steps * float(found[0]["bytes_per_step"] or 0) / 1e6), f"{float(found[0]['lr']):g}",
                    len(found)])
    return page.table(["method", "accuracy", "steps", "step", "time", "MB sent", "lr", "seeds"], out)


def write_page(runs):
    parts = [f"### {link}, the time of {DENSE_STEPS[link]} steps of `dense`\n\n{link_table(runs, link)}"
             for link in DENSE_STEPS if (link, "dense") in runs.planned and runs.chosen(JOBS[link], "dense")]
    page.write_between("results-methods.md", "times",
                       f"{page.made_by('reproduce/times.py', runs.rows.values())}\n\n" + "\n".join(parts))


def check(runs):
    """One row again: 0 if its accuracy is within half a point of the stored one."""
    job, sync, row = JOBS["100mbit,100us"], "dense", None
    for row in runs.chosen(job, sync, (1,)):
        made = runs.train(job, sync, float(row["lr"]), 1)
        apart = abs(float(made["accuracy"]) - float(row["accuracy"]))
        print(f"{sync} on {job.title}, seed 1: accuracy {made['accuracy']}, stored {row['accuracy']}: "
              f"{'holds' if apart < 0.005 else 'DOES NOT HOLD'}")
        return 0 if apart < 0.005 else 1
    print("there is no stored result")
    return 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data-dir", default=os.environ.get("DATA_DIR"), help="directory of data sets")
    parser.add_argument("--link", choices=DENSE_STEPS, action="append", help="run only this one")
    parser.add_argument("--page", action="store_true", help="only write the page")
    parser.add_argument("--check", action="store_true", help="run one small row again")
    args = parser.parse_args()
    runs = Timed(args.data_dir, args.page or args.check)
    if args.check:
        return check(runs)
    if not args.page:
        store.need()
        run_all(runs, args.link or DENSE_STEPS)
        runs.dry = True
    write_page(runs)
    print("wrote docs/results-methods.md")
    return 0


if __name__ == "__main__":
    sys.exit(guarded(main))
