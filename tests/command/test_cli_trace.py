# SPDX-License-Identifier: Apache-2.0
#
# test_cli_trace.py - timelines: every worker is on them, stretches do not overlap,
# and what they add up to is what the summary counts.
import json
import tempfile

from support_checks import check, expect_error, finish, succeed

SMALL = ["--data", "synthetic:train=400,test=50,dim=20,classes=4", "--batch", "8",
         "--model", "softmax", "--quiet", "--momentum", "0"]


def timeline(folder, sync, workers, *more):
    r = succeed("train", *SMALL, "--sync", sync, "--workers", workers, "--trace",
                f"{folder}/trace.json", "--force", "--json", "--out", f"{folder}/run", *more)
    return json.load(open(f"{folder}/trace.json")), json.loads(r.stdout)


def stretches_of(trace, worker):
    mine = [e for e in trace["traceEvents"] if e["tid"] == worker and e["ph"] == "X"]
    return sorted(mine, key=lambda e: e["ts"])


def check_timeline(folder, sync, workers, *more):
    trace, summary = timeline(folder, sync, workers, "--steps", 20, *more)
    what = f"{sync}, {workers} workers {more}"
    names = [e["args"]["name"] for e in trace["traceEvents"] if e["ph"] == "M"]
    check(names == [f"worker {r}" for r in range(workers)], f"{what}: {names}")
    check(trace["dropped"] == 0, f"{what}: nothing is dropped")
    for r in range(workers):
        mine = stretches_of(trace, r)
        overlaps = [(a, b) for a, b in zip(mine, mine[1:]) if a["ts"] + a["dur"] > b["ts"] + 0.01]
        check(not overlaps, f"{what}: {overlaps[:1]}")
        check(len([e for e in mine if e["name"] == "compute"]) == 40, f"{what}: two per step")
    sent = [e for e in trace["traceEvents"] if e["tid"] == 0 and e["name"] == "send"]
    check(sum(e["args"]["bytes"] for e in sent) == summary["bytes_sent"], f"{what}: bytes")
    check(len(sent) == summary["messages_sent"], f"{what}: messages")
    for name in ["encode", "wait", "decode", "compute"]:
        total = sum(e["dur"] for e in stretches_of(trace, 0) if e["name"] == name) / 1e6
        there = summary[name + "_s"]
        check(abs(total - there) <= 1e-6 * there + 1e-6, f"{what}: {name} {total} is not {there}")


def check_late(folder):
    """The exchange of a step is on the timeline though it runs beside the next one."""
    trace, summary = timeline(folder, "topk:0.1,delay=1", 3, "--steps", 20)
    sent = [e for e in trace["traceEvents"] if e["tid"] == 0 and e["name"] == "send"]
    check(sum(e["args"]["bytes"] for e in sent) == summary["bytes_sent"], "late: bytes")
    check(len([e for e in stretches_of(trace, 0) if e["name"] == "compute"]) >= 40, "late: two per step")


with tempfile.TemporaryDirectory() as folder:
    check_late(folder)
    check_timeline(folder, "dense", 2)
    check_timeline(folder, "gtopk:0.1", 3)
    check_timeline(folder, "qsgd:4", 4, "--spawn", "threads")
    check_timeline(folder, "dense", 1)
    short, _ = timeline(folder, "dense", 2, "--steps", 30, "--trace-steps", 5)
    computed = [e for e in stretches_of(short, 1) if e["name"] == "compute"]
    check(len(computed) == 10, "five steps were asked for")
    expect_error(1, ["cannot write", "nowhere"], "train", *SMALL, "--workers", 2, "--out",
                 f"{folder}/x", "--trace", f"{folder}/nowhere/t.json")
finish()
