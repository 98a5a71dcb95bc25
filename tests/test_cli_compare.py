# SPDX-License-Identifier: Apache-2.0
#
# test_cli_compare.py - comparisons: every figure of the table is recomputed from the
# runs' files, failures become rows, and a stopped comparison goes on.
import json
import math
import os
import signal
import subprocess
import tempfile
import time

from support_checks import GRADWIRE, check, expect_error, finish, run, succeed

SMALL = ["--data", "synthetic:train=400,test=50,dim=20,classes=4", "--batch", "8",
         "--model", "softmax", "--epochs", "2"]


def rows_of(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


def near(a, b):
    return a == b or (a is not None and b is not None and math.isclose(a, b, rel_tol=1e-6))


def recompute(folder, row, target, dense):
    """The row as the files of its run have it."""
    summary = json.load(open(f"{row['run']}/summary.json"))
    metrics = [json.loads(line) for line in open(f"{row['run']}/metrics.jsonl")]
    steps, workers = summary["steps"], summary["workers"]
    step = (summary["compute_s"] + summary["sync_s"]) / steps
    sent = summary["bytes_sent"] / steps
    ring = 2 * (workers - 1) / workers * 4 * summary["params"]
    hit = [m["seconds"] for m in metrics if m["test_accuracy"] and m["test_accuracy"] >= target]
    return {"test_accuracy": summary["test_accuracy"], "step_s": step, "bytes_per_step": sent,
            "of_dense": sent / ring, "speedup": dense and dense / step,
            "seconds_to_target": hit[0] if hit else None}


def figures(folder):
    args = ["compare", *SMALL, "--sync", "dense gtopk:0.1@lr=0.4 none", "--workers", "2 3",
            "--link", "none 1gbit,10us", "--target", "0.3", "--out", f"{folder}/a", "--json"]
    first = succeed(*args)
    rows = rows_of(first)
    check(len(rows) == 12, f"twelve rows: {len(rows)}")
    check(first.stderr.count("done in") == 12, "progress names every run")
    dense = {(r["link"], r["workers"]): r["step_s"] for r in rows if r["sync"] == "dense"}
    for row in rows:
        there = recompute(folder, row, 0.3, dense[row["link"], row["workers"]])
        for key, value in there.items():
            check(near(row[key], value), f"{row['run']} {key}: {row[key]} is not {value}")
        summary = json.load(open(f"{row['run']}/summary.json"))
        check(summary["lr"] == (0.4 if row["sync"].startswith("gtopk") else 0.2), "own settings")
        check(summary["momentum"] == 0, "no momentum by default")
    for group in dense:
        inside = [r for r in rows if (r["link"], r["workers"]) == group]
        best = [r for r in inside if r["best"]]
        times = [r["seconds_to_target"] for r in inside if r["seconds_to_target"] is not None]
        check(len(best) == (1 if times else 0), f"one best in {group}")
        check(not best or best[0]["seconds_to_target"] == min(times), f"the best of {group}")
        check([r["seconds_to_target"] for r in inside if r["seconds_to_target"] is not None] ==
              sorted(times), f"{group} is sorted")

    again = succeed(*args)
    check(again.stderr.count("has been run") == 12, "nothing is run twice")
    check(again.stdout == first.stdout, "and the table is the same")
    table = succeed(*args[:-1]).stdout
    check(table.count("best") == len([r for r in rows if r["best"]]), "the best are marked")
    check("2 workers" in table and "1gbit,10us, 3 workers" in table, "headings")
    expect_error(2, ["other settings"], *args, "--lr", "0.3")


def failures(folder):
    r = run("compare", *SMALL, "--sync", "dense local:4@batch=4000 none", "--workers", "2",
            "--out", f"{folder}/b")
    check(r.returncode == 1, f"a failed run is a failure: {r.returncode}")
    check("failed: " in r.stdout and "make --batch smaller" in r.stdout, f"its row says why: {r.stdout}")
    check(r.stdout.count(" ms") == 2, "the others went on")
    check("1 of 3 runs failed" in r.stderr, r.stderr)


def stop_and_go(folder):
    args = ["compare", *SMALL, "--sync", "dense none", "--workers", "2", "--epochs", "300",
            "--link", "1mbit,5ms", "--out", f"{folder}/c"]
    env = {**os.environ}
    p = subprocess.Popen([GRADWIRE, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         text=True, env=env)
    metrics = f"{folder}/c/dense-1mbit-5ms-2w/metrics.jsonl"
    for _ in range(600):
        if os.path.exists(metrics) and os.path.getsize(metrics) > 0:
            break
        time.sleep(0.1)
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=60)
    check(p.returncode == 130, f"Ctrl-C: {p.returncode}, {err}")
    check("goes on" in err and "not run" in out, f"it says how to go on: {err!r} {out!r}")


def wrong_use(folder):
    out = ["--out", f"{folder}/d"]
    expect_error(2, ["gtopkk", "gtopk"], "compare", *SMALL, *out, "--sync", "dense gtopkk:0.1")
    expect_error(2, ["--lrr", "--lr"], "compare", *SMALL, *out, "--sync", "dense@lrr=1")
    expect_error(2, ["'fast'"], "compare", *SMALL, *out, "--sync", "dense@fast")
    expect_error(2, ["1gbitt"], "compare", *SMALL, *out, "--link", "1gbitt")
    expect_error(2, ["--epoks", "--epochs"], "compare", *SMALL, *out, "--epoks", "3")
    expect_error(2, ["share a directory"], "compare", *SMALL, *out, "--sync", "dense dense")
    expect_error(2, ["names nothing"], "compare", *SMALL, *out, "--sync", " ")
    expect_error(2, ["two"], "compare", *SMALL, *out, "--workers", "two")
    check(not os.path.exists(f"{folder}/d"), "nothing was begun")
    check("--target" in succeed("compare", "--help").stdout, "help")


with tempfile.TemporaryDirectory() as folder:
    figures(folder)
    failures(folder)
    stop_and_go(folder)
    wrong_use(folder)
finish()
