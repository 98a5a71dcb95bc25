# SPDX-License-Identifier: Apache-2.0
#
# test_results_runs.py - the experiments of reproduce/: runs are made once and kept, use
# the same number of gradients whatever the method, rates are tuned, what fails is kept
# as failed; and every page is what its script makes of the data that is checked in.
import math
import os
import shutil
import subprocess
import sys
import tempfile

from support_checks import GRADWIRE, check, finish

SOURCE = os.environ["GRADWIRE_SOURCE"]
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(SOURCE, "reproduce"))
from support import page, runs as R  # noqa: E402

PAPERS = {"a2sgd": ["results-a2sgd.md"], "pqasgd": ["results-pqasgd.md", "figures/pqasgd-loss.svg"],
          "gtopk": ["results-gtopk.md", "figures/gtopk-loss.svg"], "dropping": ["results-dropping.md"],
          "optimizers": ["results-optimizers.md"], "outer": ["results-outer.md"],
          "translation": ["results-translation.md"], "methods.py": ["results-methods.md"],
          "gtopk-scaling": ["results-scaling.md", "results.md"], "plan-check": ["plan.md"],
          "cluster.py": ["results-cluster.md"],
          "local-sgd": ["results-local-sgd.md", "figures/local-sgd-logistic.svg", "figures/local-sgd-least-squares.svg"]}
TOY = R.Task("toy", "fnn3", "synthetic:train=800,test=100,dim=8", 5, 1, {"whole": 400, "tune": 200},
             (0.1, 0.4, 1e6), ("--momentum", "0"))


class Counted(R.Runs):
    """Counts the runs that are made."""
    made = 0

    def train(self, want):
        self.made += 1
        return super().train(want)


def fresh():
    return Counted(gradwire=GRADWIRE)


def made_once():
    runs = fresh()
    rows = runs.seeds("toy", 2, "topk:0.5", seeds=(1, 2))
    # Three rates are tried, two seeds run with the best.
    check(runs.made == 5 and len(rows) == 2, f"{runs.made} runs made, {len(rows)} rows")
    check(rows[0]["lr"] in ("0.1", "0.4"), f"rate {rows[0]['lr']} was chosen")
    worst = runs.get("toy", 4, "topk:0.5", 1e6, R.TUNING_SEED, "tune")
    check("NaN" in worst["failed"] and R.test_loss(worst) == math.inf, f"failed: {worst['failed']!r}")
    again = fresh()
    same = again.seeds("toy", 2, "topk:0.5", seeds=(1, 2))
    check(again.made == 0, f"{again.made} runs made again")
    check([r["model_hash"] for r in rows] == [r["model_hash"] for r in same], "kept rows differ")
    steps, losses = R.curve_of(rows[0])
    check(steps[-1] == int(rows[0]["steps"]) == 40 and len(steps) == len(losses), f"curve {rows[0]['curve']!r}")


def same_gradients():
    runs = fresh()
    for workers in (1, 2, 4):
        row = runs.get("toy", workers, "dense", 0.1, 1)
        check(int(row["steps"]) * workers * TOY.batch == 400, f"{workers} workers: {row['steps']} steps")


def a_page_makes_no_runs():
    runs = fresh()
    runs.dry = True
    check(runs.get("toy", 3, "dense", 0.1, 1) is None and runs.made == 0, "--page has run something")
    check(runs.seeds("toy", 3, "qsgd:4", seeds=(1,)) == [], "rows from nowhere")


def missing_data_is_told_once():
    runs = fresh()
    check(runs.get("nowhere", 1, "dense", 0.1, 1) is None, "a run without data")
    check(runs.get("nowhere", 2, "dense", 0.1, 1) is None and runs.made == 1, "tried again")
    check(not any(r["task"] == "nowhere" for r in R.read(R.TABLE)), "it was kept")


def losses_and_tables():
    row = {"failed": "", "curve": "10:4 20:3 30:2 40:1", "test_loss": "nan"}
    check(R.final_loss(row) == 1.0, "the last tenth")
    check(R.final_loss(dict(row, failed="NaN")) == math.inf and R.test_loss(row) == math.inf, "failed runs")
    check(R.smooth([4, 2, 6], 2) == [4, 3, 4], f"{R.smooth([4, 2, 6], 2)}")
    check(page.spread([1.0, 3.0]) == "2.00 ± 1.41" and page.spread([1.0], 1) == "1.0", "spread")
    check(page.table(["a", "b"], [[1, "x"]]) == "| a | b |\n|---|---|\n| 1 | x |\n", "table")


def text_of(*parts):
    with open(os.path.join(*parts)) as f:
        return f.read()


def pages_are_made_of_the_data(directory):
    """Writes every page again in a copy of the tree."""
    for name in ("reproduce", "docs", "results"):
        shutil.copytree(os.path.join(SOURCE, name), os.path.join(directory, name))
    for paper, files in PAPERS.items():
        done = subprocess.run([sys.executable, "-B", os.path.join(directory, "reproduce", paper), "--page"],
                              capture_output=True, text=True)
        check(done.returncode == 0, f"{paper} --page: {done.stderr}")
        for name in files:
            check(text_of(directory, "docs", name) == text_of(SOURCE, "docs", name),
                  f"docs/{name} is not what reproduce/{paper} --page makes of results/")


def unknown_names():
    done = subprocess.run([os.path.join(SOURCE, "reproduce", "results"), "atsgd"], capture_output=True, text=True)
    check(done.returncode == 2 and done.stderr.count("\n") == 1 and "a2sgd" in done.stderr, f"{done}")


with tempfile.TemporaryDirectory() as d:
    R.TABLE = os.path.join(d, "training.csv")
    R.TASKS["toy"] = TOY
    R.TASKS["nowhere"] = R.Task("nowhere", "softmax", "idx:" + os.path.join(d, "nowhere"), 5, 1, {"whole": 100}, (0.1,))
    made_once()
    same_gradients()
    a_page_makes_no_runs()
    missing_data_is_told_once()
    losses_and_tables()
    pages_are_made_of_the_data(os.path.join(d, "copy"))
    unknown_names()
finish()
