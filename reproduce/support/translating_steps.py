# SPDX-License-Identifier: Apache-2.0
"""Times of a step of the translation on the test cluster, kept in
results/translation-steps.csv: on the link at which communication is the part of a dense
step that it was in the paper."""
import json
import os
import statistics
import subprocess
import sys
import tempfile

from support import page, runs as R, translating as T

TABLE = os.path.join(R.ROOT, "results", "translation-steps.csv")
FIELDS = ["blas", "batch", "rate_mbit", "sync", "step_s", "median_s", "rounds", "bytes_per_step",
          "version", "date", "machine"]
CLUSTER = os.path.join(R.ROOT, "bench", "cluster", "cluster")
STEP = os.path.join(R.ROOT, "reproduce", "support", "translate_step.py")
HOSTS = 2
# Batch of a worker: the part of a dense step, and how much faster dropping was in the paper.
PAPER = {32: (0.17, 0.22), 80: (0.13, 0.11)}
# What is timed: OpenBLAS's kernels and batch. The kernels as installed make the exchange a
# smaller part, so that the link would have to be slower.
SETTINGS = [("SkylakeX", 32), ("SkylakeX", 80)]
SYNCS = ["none", "dense", "drop:0.99"]
ROUNDS, FIRST_RATE, TRIES = 7, 8000, 2
LEAST_RATE, MOST_RATE = 50, 14000  # Mbit/s; above, the cluster cannot shape


def measure(blas, batch, rate, rounds, syncs):
    """What translate_step.py found on a link of so many Mbit/s."""
    env = dict(T.environment(), OPENBLAS_CORETYPE=blas)
    for name in ("GLOO_SOCKET_IFNAME", "GRADWIRE_ADDRESS"):
        env.pop(name)  # the cluster's own
    with tempfile.TemporaryDirectory() as folder:
        result = os.path.join(folder, "result.json")
        words = [CLUSTER, "--hosts", HOSTS, "--rate", f"{rate:.0f}mbit", "--launch", "plain", "--", T.PYTHON, STEP,
                 batch, rounds, result, *syncs]
        status = subprocess.run([str(w) for w in words], env=env).returncode
        if status != 0:
            sys.exit(status)
        with open(result) as f:
            return json.load(f)


def find_rate(blas, batch):
    """The rate at which communication is the paper's part of a dense step: measured at one
    rate, and moved by what the bytes would take more or less."""
    rate, share = float(FIRST_RATE), PAPER[batch][0]
    for _ in range(TRIES):
        found = measure(blas, batch, rate, 3, ["none", "dense"])["syncs"]
        alone, dense = (min(found[s]["seconds"]) for s in ("none", "dense"))
        print(f"at {rate:,.0f} Mbit/s communication is {100 * (dense - alone) / dense:.0f} % of a dense step of "
              f"batch {batch}", flush=True)
        bits = 8 * found["dense"]["bytes_per_step"]
        room = bits / (1e6 * rate) + alone / (1 - share) - dense
        rate = min(MOST_RATE, max(LEAST_RATE, bits / 1e6 / room)) if room > 0 else MOST_RATE
    return rate


def run():
    if os.geteuid() != 0:
        print("step times were not measured, because the test cluster needs root")
        return
    have = {(r["blas"], r["batch"]) for r in R.read(TABLE)}
    for blas, batch in SETTINGS:
        if (blas, str(batch)) in have:
            continue
        rate = find_rate(blas, batch)
        found = measure(blas, batch, rate, ROUNDS, SYNCS)
        for sync, got in found["syncs"].items():
            R.append(TABLE, FIELDS, dict(
                blas=blas, batch=batch, rate_mbit=f"{rate:.0f}", sync=sync, step_s=f"{min(got['seconds']):.5g}",
                median_s=f"{statistics.median(got['seconds']):.5g}", rounds=ROUNDS,
                bytes_per_step=f"{got['bytes_per_step']:.0f}", version=found["version"], **R.stamp()))


# ---- the page ------------------------------------------------------------------------------

def lines_of(rows, blas, batch):
    mine = {r["sync"]: r for r in rows if r["blas"] == blas and r["batch"] == str(batch)}
    if len(mine) < len(SYNCS):
        return
    step = {s: float(r["step_s"]) for s, r in mine.items()}
    for sync in SYNCS:
        faster = "" if sync != "drop:0.99" else f"{100 * (step['dense'] / step[sync] - 1):+.0f} %"
        bound = "" if sync != "drop:0.99" else f"{100 * (step['dense'] / step['none'] - 1):+.0f} %"
        paper = "" if sync != "drop:0.99" else f"{100 * PAPER[batch][1]:+.0f} %"
        yield [blas, batch, f"{float(mine[sync]['rate_mbit']) / 1000:.2g}", f"`{sync}`",
               f"{1000 * step[sync]:.1f}", f"{1000 * float(mine[sync]['median_s']):.1f}",
               page.percent((step[sync] - step["none"]) / step[sync], 0),
               page.percent(float(mine[sync]["bytes_per_step"]) / float(mine["dense"]["bytes_per_step"])),
               faster, bound, paper]


def part():
    rows = R.read(TABLE)
    if not rows:
        return "Not measured yet.\n"
    lines = [line for blas, batch in SETTINGS for line in lines_of(rows, blas, batch)]
    return (page.made_by("make results PAPER=translation", rows) +
            f" It used {HOSTS} hosts of the test cluster with one thread each, layer norm, and {ROUNDS} interleaved "
            "rounds.\n\n" +
            page.table(["OpenBLAS", "batch", "Gbit/s", "method", "least ms", "median ms", "communication",
                        "bytes", "faster", "possible", "paper"], lines))
