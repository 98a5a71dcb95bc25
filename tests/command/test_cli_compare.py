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
    return a == b or (a is not None and b is not None and math.isclose(a, b, rel_tol=1e-5))


def recompute(folder, row, target, dense):
    """The row as the files of its run have it."""
    summary = json.load(open(f"{row['run']}/summary.json"))
    metrics = [json.loads(line) for line in open(f"{row['run']}/metrics.jsonl")]
    steps, workers = summary["steps"], summary["workers"]
    middle = next(m for m in metrics if steps / 2 <= m["step"] < steps)  # past what is different at first

    def later(*keys):
        return sum(summary[k] - middle[k] for k in keys) / (steps - middle["step"])

    step, sent = later("compute_s", "sync_s"), later("bytes_sent")
    ring = 2 * (workers - 1) / workers * 4 * summary["params"]
    hit = [m["seconds"] - m["eval_s"] for m in metrics if m["test_accuracy"] and m["test_accuracy"] >= target]
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
        own = row["sync"].startswith("gtopk")
        check(summary["lr"] == (0.4 if own else 0.05), "own settings")
        check(row["settings"] == ("lr=0.4" if own else None), f"and a column for them: {row['settings']}")
        check(summary["momentum"] == 0.9, "settings that suit dense by default")
        check(row["sync_advised"] == summary["sync_advised"] == ("gtopk:0.1,warmup=64,ladder=64,putback=keep+momentum:0.9"
                                                                 if own else None), "what ran")
    for group in dense:
        inside = [r for r in rows if (r["link"], r["workers"]) == group]
        best = [r for r in inside if r["best"]]
        times = [r["seconds_to_target"] for r in inside if r["seconds_to_target"] is not None]
        check(len(best) == (1 if times else 0), f"one best in {group}")
        check(not best or best[0]["seconds_to_target"] == min(times), f"the best of {group}")
        check([r["seconds_to_target"] for r in inside if r["seconds_to_target"] is not None] ==
              sorted(times), f"{group} is sorted")

    again = succeed(*args)
    check(again.stderr.count("finished before") == 12, "nothing is run twice")
    check(again.stdout == first.stdout, "and the table is the same")
    table = succeed(*args[:-1]).stdout
    check(table.count("best") == len([r for r in rows if r["best"]]), "the best are marked")
    check("  settings" in table and "gtopk:0.1             lr=0.4 " in table, f"the column of settings: {table}")
    check(table.count("gtopk:0.1 ran as gtopk:0.1,warmup=64,ladder=64,putback=keep+momentum:0.9\n") == 1, f"what ran: {table}")
    check("2 workers" in table and "1gbit,10us, 3 workers" in table, "headings")
    expect_error(2, ["other settings"], *args, "--lr", "0.3")


def ties(folder):
    """Accuracies that chance could have made are a tie, and the fastest of these is the best."""
    args = ["compare", *SMALL, "--sync", "dense dense@seed=2,lr=0.051 none@lr=0", "--workers", "2",
            "--out", f"{folder}/t"]
    rows = {r["settings"]: r for r in rows_of(succeed(*args, "--json"))}
    top = max(rows.values(), key=lambda r: r["test_accuracy"])
    p = top["test_accuracy"]
    scatter = math.sqrt(2 * p * (1 - p) / 50)  # samples of the test set
    for name, row in rows.items():
        check(near(row["scatter"], scatter), f"{name}: {row['scatter']} is not {scatter}")
        check(row["ties"] == (row["test_accuracy"] >= p - scatter), f"{name}: {row}")
    check(not rows["lr=0"]["ties"], "what has not learnt is no tie")
    check(not rows["lr=0"]["best"], "nor the best, however fast")
    table = succeed(*args).stdout
    check(f"= a tie: within {100 * scatter:.2f} points of the highest" in table, f"it says so: {table}")
    check(table.count(" % = ") == sum(r["ties"] for r in rows.values()), f"and marks them: {table}")


def seeds(folder):
    """Means over seeds; the runs that are there are used."""
    args = ["compare", *SMALL, "--sync", "dense none", "--workers", "2", "--out", f"{folder}/s"]
    one = {r["sync"]: r for r in rows_of(succeed(*args, "--json"))}
    again = succeed(*args, "--seeds", "3", "--json")
    check(again.stderr.count("finished before") == 2 and ", seed 3: done" in again.stderr, again.stderr)
    for row in rows_of(again):
        check(row["run"] == one[row["sync"]]["run"] and row["seeds"] == 3, f"the first run: {row}")
        runs = [json.load(open(f"{row['run']}{s}/summary.json")) for s in ("", "-seed2", "-seed3")]
        check([r["seed"] for r in runs] == [1, 2, 3], "seeds")
        check(near(row["test_accuracy"], sum(r["test_accuracy"] for r in runs) / 3), f"the mean: {row}")
        span = [r["test_accuracy"] for r in runs]
        p = row["test_accuracy"]
        if p == max(r["test_accuracy"] for r in rows_of(again)):
            most = max(math.sqrt(2 * p * (1 - p) / 50), (max(span) - min(span)) / 2)
            check(near(row["scatter"], most), f"{row['scatter']} is not {most}")
    check("mean of 3 seeds" in succeed(*args, "--seeds", "3").stdout, "the heading says so")
    expect_error(2, ["--seeds 3", "leave out --seed"], *args, "--seeds", "3", "--seed", "4")


def long_names(folder):
    """Specs that differ in their last option alone are two rows with two names."""
    long = "gtopk:density=0.1,putback=own,residual=on,warmup=1,ladder=2,dense_below=3+q:bits=4,bucket=512," \
           "norm=max+momentum:momentum=0.9,clip=0,mask=on,velocity=global,nesterov=off,dampening=0+check:every="
    text = succeed("compare", *SMALL, "--sync", f"dense {long}10 {long}20", "--workers", "2", "--momentum", "0",
                   "--out", f"{folder}/l").stdout
    check(f" {long}10 " in text and f" {long}20 " in text, f"names: {text}")


def outer_steps(folder):
    """Methods with an outer step are rows like others; one that is off is local, in a row of its own."""
    syncs = "dense local:5 local:5+outer:1,0 diloco:5 sparseloco:5"
    r = succeed("compare", *SMALL[:-2], "--steps", "40", "--sync", syncs, "--workers", "4", "--out", f"{folder}/o",
                "--json")
    rows = {row["sync"]: row for row in rows_of(r)}
    check(set(rows) == set(syncs.split()), f"{list(rows)}")
    local, off, outer = (rows[s] for s in ("local:5", "local:5+outer:1,0", "diloco:5"))
    hashes = [json.load(open(f"{row['run']}/summary.json"))["model_hash"] for row in (local, off, outer)]
    check(hashes[0] == hashes[1] != hashes[2], f"off is local: {hashes}")
    check(local["bytes_per_step"] == outer["bytes_per_step"] > rows["sparseloco:5"]["bytes_per_step"], f"{rows}")
    page = succeed("report", f"{folder}/o", "--out", f"{folder}/o.html", "--json").stdout
    check("diloco" in open(f"{folder}/o.html").read(), f"no outer step on the page: {page}")


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
    check("to continue" in err and "not run" in out, f"it says how to go on: {err!r} {out!r}")


def wrong_use(folder):
    out = ["--out", f"{folder}/d"]
    expect_error(2, ["gtopkk", "gtopk"], "compare", *SMALL, *out, "--sync", "dense gtopkk:0.1")
    expect_error(2, ["--lrr", "--lr"], "compare", *SMALL, *out, "--sync", "dense@lrr=1")
    expect_error(2, ["'fast'"], "compare", *SMALL, *out, "--sync", "dense@fast")
    expect_error(2, ["1gbitt"], "compare", *SMALL, *out, "--link", "1gbitt")
    expect_error(2, ["--epoks", "--epochs"], "compare", *SMALL, *out, "--epoks", "3")
    expect_error(2, ["share a directory"], "compare", *SMALL, *out, "--sync", "dense dense")
    expect_error(2, ["an empty list"], "compare", *SMALL, *out, "--sync", " ")
    expect_error(2, ["two"], "compare", *SMALL, *out, "--workers", "two")
    check(not os.path.exists(f"{folder}/d"), "nothing was begun")
    check("--target" in succeed("compare", "--help").stdout, "help")


with tempfile.TemporaryDirectory() as folder:
    figures(folder)
    ties(folder)
    seeds(folder)
    long_names(folder)
    outer_steps(folder)
    failures(folder)
    stop_and_go(folder)
    wrong_use(folder)
finish()
