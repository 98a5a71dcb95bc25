# SPDX-License-Identifier: Apache-2.0
"""docs/results-outer.md: the tables and the figure of reproduce/outer."""
import os
import statistics

from support import charts, page
from support.outer_runs import (LONGER, METHODS, MORE, MORE_SHORT, MORE_TRIED, MOST, PERIOD, RATES, TRIED, WORKERS,
                                curve_of)
from support.runs import SEEDS, TUNING_SEED
from support.store import ROOT

PAGE = "results-outer.md"
FIGURE = os.path.join(ROOT, "docs", "figures", "outer-loss.svg")
ROUNDED = 1e-4  # curves have five digits


def losses(rows):
    return [float(r["test_loss"]) for r in rows]


def seconds(runs, workers, sync, steps):
    """How long so many steps take on the link; the first ones may be dense."""
    own, dense = (runs.find("plan", workers, s, 0, 1) for s in (sync, "dense"))
    first = min(steps, int(own["steps"]))
    return first * float(dense["sync_s"]) + (steps - first) * float(own["sync_s"])


def steps_to(rows, goal):
    """The step at which the mean curve of the rows reaches a loss, on straight lines between
    its points; None if it does not."""
    points = [(p[0][0], statistics.fmean(loss for _, loss in p)) for p in zip(*map(curve_of, rows))]
    before = None
    for step, loss in points:
        if loss <= goal * (1 + ROUNDED):
            if before is None:
                return step
            return before[0] + (step - before[0]) * min(1, (before[1] - goal) / (before[1] - loss))
        before = (step, loss)
    return None


def time_text(runs, workers, sync, rows, goal):
    steps = steps_to(rows, goal)
    return "not reached" if steps is None else f"{seconds(runs, workers, sync, round(steps)):,.0f} s"


def line_of(runs, workers, sync):
    """A method's row, or None if it was not run."""
    lr, dense_lr = runs.rate(sync), runs.rate("dense")
    rows = [runs.find("whole", workers, sync, lr, seed) for seed in SEEDS]
    dense = [runs.find("whole", workers, "dense", dense_lr, seed) for seed in SEEDS]
    pairs = [(r, d) for r, d in zip(rows, dense) if r and d]
    if not pairs:
        return None
    rows, dense = zip(*pairs)
    base, own = statistics.fmean(losses(dense)), statistics.fmean(losses(rows))
    sent = float(rows[0]["bytes_sent"]) * workers / float(rows[0]["tokens"])
    whole = float(dense[0]["bytes_sent"]) * workers / float(dense[0]["tokens"])
    steps = int(rows[0]["steps"])
    return [workers, f"`{sync}`", f"{lr:g}", page.spread(losses(rows), 3) + ("" if len(rows) == len(SEEDS) else
            f" ({len(rows)})"), f"{100 * (own / base - 1):+.1f} %", page.number(sent), f"1/{whole / sent:.0f}",
            f"{seconds(runs, workers, sync, steps):,.0f} s", time_text(runs, workers, sync, rows, base),
            time_text(runs, workers, sync, rows, 1.15 * base)]


def longer_text(runs):
    """One sentence on the method that reads more text, or nothing."""
    row = runs.find("more", 4, LONGER, runs.rate(LONGER), 1)
    dense = runs.find("whole", 4, "dense", runs.rate("dense"), 1)
    if row is None or dense is None:
        return ""
    times, goal = int(row["tokens"]) / int(dense["tokens"]), float(dense["test_loss"])
    steps, whole = steps_to([row], goal), seconds(runs, 4, "dense", int(dense["steps"]))
    end = (f"reaches {goal:.3f}, the loss of `dense` with that seed, after "
           f"{seconds(runs, 4, LONGER, round(steps)):,.0f} s and {steps / int(row['steps']) * times:.1f} times the text"
           if steps else f"does not reach {goal:.3f}, the loss of `dense` with that seed")
    return (f"With {times:g} times the text, `{LONGER}` (4 workers, seed 1) ends at {float(row['test_loss']):.3f} after "
            f"{seconds(runs, 4, LONGER, int(row['steps'])):,.0f} s and {end}. `dense` takes {whole:,.0f} s.\n")


def tuned_lines(runs):
    lines = []
    for sync in METHODS + TRIED:
        rows = [runs.find("tune", 4, sync, lr, TUNING_SEED) for lr in RATES]
        cells = [f"{float(r['test_loss']):.3f}" if r else "" for r in rows]
        if any(cells):
            lines.append([f"`{sync}`", *cells])
    return lines


def step_lines(runs):
    lines = []
    for workers in WORKERS:
        for sync in METHODS:
            row = runs.find("plan", workers, sync, 0, 1)
            if row:
                step = float(row["sync_s"])
                lines.append([workers, f"`{sync}`", f"{1e3 * float(row['compute_s']):.1f} ms", f"{1e3 * step:.1f} ms",
                              page.number(float(row["bytes_sent"]))])
    return lines


def more_than(row, base):
    return f"{100 * (float(row['test_loss']) / float(base['test_loss']) - 1):+.1f} %"


def tried_lines(runs, part, tried):
    """Beside the best rate of dense."""
    rows = [(sync, runs.find(part, 4, sync, lr, TUNING_SEED)) for sync, lr in tried]
    rows = [(sync, row) for sync, row in rows if row]
    dense = min((row for sync, row in rows if sync == "dense"), key=lambda r: float(r["test_loss"]), default=None)
    order = list(dict.fromkeys(sync for sync, _ in rows))
    rows.sort(key=lambda pair: (order.index(pair[0]), float(pair[1]["lr"])))
    return [[f"`{sync}`", row["lr"], f"{float(row['test_loss']):.3f}", more_than(row, dense) if dense else ""]
            for sync, row in rows]


def longer_lines(runs, part, settings):
    """Of the seeds with which all were run."""
    rows = {sync: [runs.find(part, 4, sync, lr, seed) for seed in SEEDS] for sync, lr in settings}
    seeds = [i for i in range(len(SEEDS)) if all(of[i] for of in rows.values())]
    if not seeds:
        return []
    dense, lines = [rows[settings[0][0]][i] for i in seeds], []
    for sync, lr in settings:
        mine, steps = [rows[sync][i] for i in seeds], int(dense[0]["steps"])
        count = "" if len(seeds) == len(SEEDS) else f" ({len(seeds)})"
        more = statistics.fmean(losses(mine)) / statistics.fmean(losses(dense)) - 1
        lines.append([f"{steps:,}", f"{steps / PERIOD:.0f}", f"`{sync}`", f"{lr:g}",
                      page.spread(losses(mine), 3) + count, f"{100 * more:+.1f} %", f"1/{float(dense[0]['bytes_sent']) / float(mine[0]['bytes_sent']):.1f}"])
    return lines


def write_longer(runs):
    header = ["method", "rate", "loss", "more"]
    page.write_between(PAGE, "longer", page.table(
        ["steps", "periods", "method", "rate", "loss", "more", "part"],
        longer_lines(runs, "more", MORE) + longer_lines(runs, "most", MOST)))
    page.write_between(PAGE, "tried", page.table(header, tried_lines(runs, "tune-more", MORE_TRIED)))


def mean_curve(rows):
    """Steps, and the losses in the mean over seeds."""
    points = [(p[0][0], statistics.fmean(loss for _, loss in p)) for p in zip(*map(curve_of, rows))]
    return [step for step, _ in points], [loss for _, loss in points]


def megabytes(runs, workers, sync, row, steps):
    """What a worker has sent after so many steps. What a method sends more in its beginning than later
    counts before the first point."""
    own = runs.find("plan", workers, sync, 0, 1)
    return [(float(row["bytes_sent"]) - (int(row["steps"]) - s) * float(own["bytes_sent"])) / 1e6 for s in steps]


def draw(runs):
    """Loss against bytes and against time; both have no zero, so their axes are logarithmic."""
    figure = charts.Figure("Test loss against bytes and against time at 100 Mbit/s with 50 ms", columns=2, share_y=True)
    for workers in WORKERS:
        panels = [figure.panel(f"{workers} workers", x=x, y="test loss", log_x=True)
                  for x in ("MB that a worker has sent", "seconds")]
        for sync in METHODS:
            rows = [runs.find("whole", workers, sync, runs.rate(sync), seed) for seed in SEEDS]
            rows = [r for r in rows if r and not r["failed"]]
            if rows and runs.find("plan", workers, sync, 0, 1):
                steps, loss = mean_curve(rows)
                panels[0].line(sync, megabytes(runs, workers, sync, rows[0], steps), loss)
                panels[1].line(sync, [seconds(runs, workers, sync, s) for s in steps], loss)
    figure.write(FIGURE)


def write(runs):
    runs.dry = True
    lines = [line_of(runs, workers, sync) for workers in WORKERS for sync in METHODS]
    made = page.made_by("make results PAPER=outer", runs.rows.values())
    page.write_between(PAGE, "whole", made + "\n\n" + page.table(
        ["P", "method", "rate", "loss", "more", "bytes per token", "part", "time", "to dense's loss",
         "to 1.15 times it"], [line for line in lines if line]) + "\n" + longer_text(runs))
    page.write_between(PAGE, "steps", page.table(
        ["P", "method", "computing", "step on the link", "bytes sent per step"], step_lines(runs)))
    page.write_between(PAGE, "tuned", page.table(["method", *(f"rate {r:g}" for r in RATES)], tuned_lines(runs)))
    write_longer(runs)
    draw(runs)
