#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""What gradwire costs on a cluster with slow wires, beside bounds, MPI and simulation.

    sudo reproduce/cluster.py             measure what is missing (15 minutes), write the page
    sudo reproduce/cluster.py --fresh     the same, from nothing
    reproduce/cluster.py --page           only write the page again

The cluster is bench/cluster on this machine: it needs root. Everything runs in turns, so
that what slows the machine for a while slows all of it, and the best turn counts. Rows go
to results/cluster.csv as they come, and what is there is not run again; the page is
docs/results-cluster.md.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import cluster_page
from cluster_table import (BYTES_STEPS, EXCHANGE_SYNCS, LATENCY, MODELS, PARAMS, POINTS, ROOT, SIMULATED_SYNCS, TABLE,
                           TRAIN_RATES, TRAIN_SYNCS, Rows)

BUILD = os.environ.get("GRADWIRE_BUILD", os.path.join(ROOT, "build"))
GRADWIRE = os.path.join(BUILD, "gradwire")
EXCHANGE = os.path.join(BUILD, "gradwire-exchange")
CLUSTER = os.path.join(ROOT, "bench", "cluster", "cluster")
# The shape of Fashion-MNIST, without a test set that takes longer than the steps.
DATA = "synthetic:train=6400,test=10,dim=784,classes=10"
PARTS = ["bytes", "exchange", "train", "simulate"]
SKIP = 3  # first steps of a training, in which memory is touched for the first time


def call(words):
    """Standard output of a command that must succeed."""
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    if done.returncode != 0:
        sys.exit(f"cluster.py: '{' '.join(words)}' failed with exit status {done.returncode}")
    return done.stdout


def objects(text):
    """The JSON objects that stand on lines of their own."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def on_cluster(hosts, rate, *command, count=None):
    more = ["--count", count] if count else []
    return call([CLUSTER, "--hosts", str(hosts), "--rate", rate, "--urgent", *more, "--", *command])


def step_row(found):
    """What a line of gradwire-exchange says, in the table's words."""
    return {"step_s": found["step_min_s"], "mean_s": found["step_s"], "encode_s": found["encode_s"],
            "wait_s": found["wait_s"], "decode_s": found["decode_s"],
            "bytes_per_step": found["bytes_sent"], "isa": found["isa"]}


# ---- exchange ------------------------------------------------------------------------------


def exchange(rows, turn):
    """Part 1 and the real half of part 3: syncs on made-up gradients."""
    for hosts, rate in POINTS:
        todo = [s for s in EXCHANGE_SYNCS if not rows.has("exchange", hosts, rate, PARAMS, s, turn) and
                (rate == "1gbit" or "native" not in s)]  # MPI's own takes its time on slower wires
        if not todo:
            continue
        print(f"turn {turn}: exchange, {hosts} hosts, {rate}: {' '.join(todo)}", flush=True)
        for sync in todo:
            name, native = (sync[:-7], ["--native"]) if sync.endswith(" native") else (sync, [])
            steps, warmup = ("3", "1") if name == "dense" else ("12", "6")
            found = objects(on_cluster(hosts, rate, EXCHANGE, "--params", str(PARAMS), "--steps", steps,
                                       "--warmup", warmup, "--sync", name, *native))
            rows.add("exchange", hosts, rate, PARAMS, sync, turn, **step_row(found[0]))


def counted(hosts, rate, sync, steps):
    """Bytes that all hosts' interfaces, their wires and gradwire counted."""
    with tempfile.NamedTemporaryFile() as file:
        text = on_cluster(hosts, rate, EXCHANGE, "--params", str(PARAMS), "--steps", str(steps), "--warmup",
                          "0", "--sync", sync, count=file.name)
        hosts_rows = json.load(file)
    found = objects(text)[0]
    return (found["bytes_sent_all"] * steps, sum(h["tx_bytes"] for h in hosts_rows),
            sum(h["tx_wire_bytes"] for h in hosts_rows), sum(h["dropped"] for h in hosts_rows))


def count_bytes(rows):
    """The difference of a long and a short run: the start of MPI is not in it."""
    hosts, rate = POINTS[0]
    for sync in BYTES_STEPS:
        if rows.has("bytes", hosts, rate, PARAMS, sync, 1):
            continue
        print(f"bytes: {sync}", flush=True)
        steps = BYTES_STEPS[sync]
        short, long = (counted(hosts, rate, sync, n) for n in steps)
        ours, interfaces, wires = (b - a for a, b in zip(short[:3], long[:3]))
        per = (steps[1] - steps[0]) * hosts
        rows.add("bytes", hosts, rate, PARAMS, sync, 1, bytes_per_step=ours / per,
                 interface_bytes=interfaces / per, wire_bytes=wires / per, dropped=long[3])


# ---- training ------------------------------------------------------------------------------


def train(rows, turn):
    """Part 2: steps of a training, without exchange and with it."""
    for rate in TRAIN_RATES:
        for model in MODELS:
            for sync in TRAIN_SYNCS:
                if not rows.has("train", 4, rate, model, sync, turn):
                    print(f"turn {turn}: train {model}, {rate}, {sync}", flush=True)
                    rows.add("train", 4, rate, model, sync, turn, **train_once(model, rate, sync))


def train_once(model, rate, sync):
    steps = 60 if model == "fnn3" else 6 if sync == "dense" else 16
    with tempfile.TemporaryDirectory() as tmp:
        out = os.path.join(tmp, "run")
        on_cluster(4, rate, GRADWIRE, "train", "--model", model, "--data", DATA, "--batch", "32", "--threads",
                   "1", "--lr", "0.01", "--momentum", "0", "--steps", str(steps), "--log-every", "1",
                   "--eval-every", "0", "--sync", sync, "--advice", "off", "--out", out, "--quiet", "--json")
        with open(os.path.join(out, "metrics.jsonl")) as f:
            log = [r for r in map(json.loads, f) if r["loss"] is not None]
        with open(os.path.join(out, "summary.json")) as f:
            summary = json.load(f)
    def per_step(*keys):
        return sum(log[-1][k] - log[SKIP - 1][k] for k in keys) / (log[-1]["step"] - log[SKIP - 1]["step"])
    return {"step_s": per_step("compute_s", "sync_s"), "compute_s": per_step("compute_s"),
            "encode_s": per_step("encode_s"), "wait_s": per_step("wait_s"), "decode_s": per_step("decode_s"),
            "bytes_per_step": per_step("bytes_sent"), "isa": summary["isa"]}


# ---- simulation ----------------------------------------------------------------------------


def simulate(rows):
    """The other half of part 3: the same points simulated, every host with a core of its own."""
    for hosts, rate in POINTS:
        if all(rows.has("simulated", hosts, rate, PARAMS, s, 1) for s in SIMULATED_SYNCS):
            continue
        print(f"simulated, {hosts} hosts, {rate}", flush=True)
        text = call([GRADWIRE, "simulate", "--fold", "off", "--sync", " ".join(SIMULATED_SYNCS), "--workers", str(hosts), "--params",
                     str(PARAMS), "--link", f"{rate},{LATENCY}", "--steps", "2", "--warmup", "4", "--json"])
        for found in objects(text):
            rows.add("simulated", hosts, rate, PARAMS, found["sync"], 1, step_s=found["step_s"],
                     encode_s=found["encode_s"], wait_s=found["wire_s"], decode_s=found["decode_s"],
                     bytes_per_step=found["bytes_sent"])


# ---- all of it -----------------------------------------------------------------------------


def version():
    """Of gradwire, a number."""
    for program in (GRADWIRE, EXCHANGE):
        if not os.access(program, os.X_OK):
            sys.exit(f"cluster.py: cannot find {program}; install MPI (libopenmpi-dev) and run make")
    return call([GRADWIRE, "--version"]).split()[-1]


def measure(rows, turns, parts):
    call([CLUSTER, "--check"])
    if "bytes" in parts:
        count_bytes(rows)
    for turn in range(1, turns + 1):
        if "exchange" in parts:
            exchange(rows, turn)
        if "train" in parts:
            train(rows, turn)
    if "simulate" in parts:
        simulate(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=3, help="number of times to measure everything (3)")
    parser.add_argument("--only", nargs="+", choices=PARTS, help="measure only these parts")
    parser.add_argument("--fresh", action="store_true", help="discard earlier measurements")
    parser.add_argument("--page", action="store_true", help="only write the page")
    args = parser.parse_args()
    if args.fresh and os.path.exists(TABLE):
        os.remove(TABLE)
    rows = Rows("" if args.page else version())
    if not args.page:
        measure(rows, args.turns, args.only or PARTS)
    print("wrote", os.path.relpath(cluster_page.write(rows)))


if __name__ == "__main__":
    main()
