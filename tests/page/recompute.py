# SPDX-License-Identifier: Apache-2.0
#
# recompute.py - what a page of runs must say, computed from metrics.jsonl and
# summary.json without the page's code: the rules are those of docs/report.md.
#
#   python3 recompute.py FOLDER >EXPECTED.json
import json
import math
import os
import sys


def read(folder):
    with open(f"{folder}/summary.json") as f:
        summary = json.load(f)
    with open(f"{folder}/metrics.jsonl") as f:
        records = list(map(json.loads, f))
    summary["step_s"] = step_seconds(summary, records)
    for r in records:  # evaluations are not part of training
        r["seconds"] -= r.get("eval_s") or 0
    return summary, [r for r in records if r["test_accuracy"] is not None]


def step_seconds(summary, records):
    """In the second half of the run, as docs/comparing.md has it."""
    steps = summary["steps"]
    middle = next((r for r in records if steps / 2 <= r["step"] < steps), {"step": 0, "compute_s": 0, "sync_s": 0})
    return sum(summary[k] - middle[k] for k in ("compute_s", "sync_s")) / (steps - middle["step"])


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def describe(name, runs):
    """A method's figures in a group; runs differ in their seeds."""
    last = [tests[-1] for _, tests in runs]
    ends = [r["test_accuracy"] for r in last]
    return {"name": name, "end": mean(ends), "low": min(ends), "high": max(ends), "seeds": len(runs),
            "seconds": mean(r["seconds"] for r in last), "bytes": mean(r["bytes_sent"] for r in last),
            "step": mean(s["step_s"] for s, _ in runs), "samples": runs[0][0]["test_samples"], "runs": runs,
            "worst": min(max(r["test_accuracy"] for r in tests) for _, tests in runs)}


def scatter(top):
    """As docs/comparing.md defines a tie."""
    p = top["end"]
    return max(math.sqrt(2 * p * (1 - p) / top["samples"]), (top["high"] - top["low"]) / 2)


def target(reference, chance):
    level = min(reference["end"] - chance, reference["worst"])
    parts = 100 if level <= 0.9 else 1000 if level <= 0.99 else 10000
    return math.floor(level * parts + 1e-9) / parts


def arrive(method, goal):
    """Mean seconds and bytes of the first tests that reach the goal, if all runs do."""
    hits = [next((r for r in tests if r["test_accuracy"] >= goal), None) for _, tests in method["runs"]]
    if None in hits:
        return None
    return mean(r["seconds"] for r in hits), mean(r["bytes_sent"] for r in hits)


def frontier(methods, cost):
    def beaten(m):
        return any(o["end"] >= m["end"] and o[cost] <= m[cost] and (o["end"], -o[cost]) != (m["end"], -m[cost])
                   for o in methods)

    return sorted(m["name"] for m in methods if not beaten(m))


def judge(methods):
    top = max(methods, key=lambda m: m["end"])
    dense = next((m for m in methods if m["name"] == "dense"), None)
    chance = scatter(top)
    goal = target(dense or top, chance)
    there = {m["name"]: arrive(m, goal) for m in methods}
    racing = [m for m in methods if there[m["name"]] and m["name"] != "none"]
    first = min(racing, key=lambda m: there[m["name"]][0])
    safe = min((m for m in racing if m["end"] >= top["end"] - chance), key=lambda m: there[m["name"]][0])
    steady = min((m for m in methods if m["name"] != "none" and m["end"] >= top["end"] - chance), key=lambda m: m["step"])
    better = steady["name"] not in (first["name"], safe["name"]) and steady["step"] <= 0.9 * safe["step"]
    return {"target": goal, "steady": steady["name"] if better else None, "chance": chance, "first": first["name"], "safe": safe["name"],
            "seconds": there[first["name"]][0], "dense_seconds": dense and there["dense"][0],
            "share": dense and there[first["name"]][1] / there["dense"][1],
            "end": first["end"], "dense_end": dense and dense["end"], "safe_end": safe["end"],
            "safe_seconds": there[safe["name"]][0], "never": sorted(n for n, hit in there.items() if hit is None),
            "frontier_seconds": frontier(methods, "seconds"), "frontier_bytes": frontier(methods, "bytes")}


def main(folder):
    groups = {}
    names = [name for name in sorted(os.listdir(folder)) if os.path.isdir(f"{folder}/{name}")]
    for name in names:
        summary, tests = read(f"{folder}/{name}")
        group = groups.setdefault((summary["link"], summary["workers"]), {})
        group.setdefault(summary["sync_asked"], []).append((summary, tests))
    rates = {"100mbit,100us": 1e8, "1gbit,50us": 1e9}
    made = []
    for (link, workers), methods in sorted(groups.items(), key=lambda g: rates[g[0][0]]):
        described = [describe(name, runs) for name, runs in methods.items()]
        made.append({"link": link, "workers": workers, "methods": len(methods), "steps": sorted(m["step"] for m in described),
                     "ends": {m["name"]: m["end"] for m in described}, **(judge(described) if len(methods) > 1 else {})})
    json.dump({"runs": len(names), "groups": made,
               "seeds": max(len(runs) for g in groups.values() for runs in g.values())}, sys.stdout)


main(sys.argv[1])
