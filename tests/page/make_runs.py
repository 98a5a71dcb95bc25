# SPDX-License-Identifier: Apache-2.0
#
# make_runs.py - runs as the trainer writes them, but made up: losses that fall with
# noise from a fixed seed, methods and links that differ as real ones do.
#
#   python3 make_runs.py FOLDER
import json
import os
import random
import sys

rng = random.Random(7)
LINKS = {"100mbit,100us": 100e6, "1gbit,50us": 1e9}
PARAMS = 199210
# Spec: bytes per step, seconds of computing per step, accuracy at the end, drift.
METHODS = {
    "dense": (1195320, 0.001, 0.8513, None),
    "drop:0.99": (31500, 0.0014, 0.8495, None),
    "gtopk:0.01": (19700, 0.0022, 0.8444, None),
    "local:8": (149400, 0.001, 0.8423, 1e-6),
    "none": (0, 0.001, 0.7934, 0.18),
    "a2sgd": (40, 0.0012, 0.8089, 0.025),
    "pqasgd:8,4": (19000, 0.0012, 0.8434, 1e-6),
    "qsgd:4": (152000, 0.0012, 0.8534, None),
}


def write_run(folder, settings, records, finals):
    os.makedirs(folder)
    with open(f"{folder}/metrics.jsonl", "w") as f:
        for record in records:
            f.write(json.dumps(record) + "\n")
    summary = {"model": "fnn3", "data": "made-up", "sync": settings["sync_asked"], "sync_advised": None, "workers": 4,
               "params": PARAMS, "steps": records[-1]["step"], "epochs": 1, "seed": 1, "batch": 32,
               "test_samples": 10000, "lr": 0.05, "momentum": 0.9, "optimizer": "sgd", "link": None,
               "test_loss": 0.3, "drift": records[-1]["drift"], "skipped": 0, "stopped": False,
               "model_hash": "0123456789abcdef", "version": "0.1.0"}
    with open(f"{folder}/summary.json", "w") as f:
        json.dump({**summary, **settings, **finals}, f)


def make(folder, sync, link, seed=1, points=100, tests=10, figures=None, **extra):
    """A run of 10 steps per record, tested `tests` times."""
    sent, compute, top, drift = figures or METHODS[sync]
    wait = 8 * sent / LINKS[link] + 1e-4
    top += 0.002 * rng.random() * (seed > 1)
    records = []
    for i in range(1, points + 1):
        test = i % (points // tests) == 0
        share = i / points
        records.append({
            "step": 10 * i, "seconds": 10 * i * (compute + wait) * (1 + 0.02 * rng.random()) if i == points or
            not records else max(records[-1]["seconds"], 10 * i * (compute + wait)),
            "compute_s": 10 * i * compute, "sync_s": 10 * i * wait, "bytes_sent": 10 * i * sent,
            "loss": 2.3 / (1 + 20 * share) + 0.3 + 0.05 * rng.random(),
            "test_accuracy": top - 0.3 * (1 - share) ** 2 if test else None,
            "test_loss": 0.4 + 0.5 * (1 - share) if test else None,
            "residual_norm": 5 * share + rng.random() if sync[0] in "dg" and sync != "dense" else 0,
            "drift": drift if test else None})
    if seed == 1 and sync != "dense":  # runs that say what their tests took; others are of before
        for r in records:
            r["eval_s"] = 0.7 * sum(q["test_accuracy"] is not None for q in records if q["step"] <= r["step"])
            r["seconds"] += r["eval_s"]
    finals = {"compute_s": records[-1]["compute_s"], "sync_s": records[-1]["sync_s"], "wall_s": records[-1]["seconds"],
              "encode_s": 0.05 * records[-1]["sync_s"], "wait_s": 0.9 * records[-1]["sync_s"],
              "decode_s": 0.05 * records[-1]["sync_s"], "bytes_sent": records[-1]["bytes_sent"],
              "bits_per_param": 8 * sent / PARAMS, "test_accuracy": records[-1]["test_accuracy"]}
    write_run(folder, {"sync_asked": sync, "link": link, "seed": seed, **extra}, records, finals)


def main(work):
    make(f"{work}/1/only", "dense", "1gbit,50us", tests=1)
    for i, sync in enumerate(["dense", "drop:0.99", "qsgd:4", "none"]):
        make(f"{work}/4/run-{i}", sync, "100mbit,100us")
    for link in LINKS:
        for sync in METHODS:
            own = {"momentum": 0} if sync == "a2sgd" else {}
            make(f"{work}/16/{sync}-{link}".replace(":", "-"), sync, link, tests=1, **own)
    # Five methods with three seeds each, on two links.
    for link in LINKS:
        for sync in ["dense", "drop:0.99", "local:8", "qsgd:4", "none"]:
            for seed in [1, 2, 3]:
                make(f"{work}/30/{sync}-{link}-{seed}".replace(":", "-"), sync, link, seed, points=200, tests=20)
    # Thirty methods, whose names are long, on one link.
    for i in range(30):
        figures = (1195320 / 1.3**i, 0.001 + 0.0001 * i, 0.86 - 0.0003 * i * (i % 7), None)
        spec = "dense" if i == 0 else f"drop:0.{i + 10},threshold=tensor"
        make(f"{work}/many/run-{i:02}", spec, "100mbit,100us", points=2000, tests=10, figures=figures)


main(sys.argv[1])
