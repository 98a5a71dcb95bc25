# SPDX-License-Identifier: Apache-2.0
#
# test_cli_plan.py - plans: where the network decides, predictions are what its rate
# says; advice fits the numbers; wrong use is one line. Nothing here depends on how
# fast the machine is.
import json
import math

from support_checks import check, expect_error, finish, run, succeed


def plan(*args):
    r = succeed("plan", "--json", *args)
    return {row["sync"]: row for row in map(json.loads, r.stdout.splitlines())}


def near(a, b, part):
    return abs(a - b) <= part * abs(b)


def slow_network():
    """At 1 Mbit/s a step is what the wire takes: bytes by rate, and delays."""
    n, delay, beta = 200000, 1e-3, 8 / 1e6
    for workers in [2, 3, 4, 7]:
        rows = plan("--params", n, "--compute", 5, "--workers", workers, "--link", "1mbit,1ms",
                    "--sync", "topk:0.01 gtopk:0.01 local:8 none")
        ring = 2 * (workers - 1) / workers * 4 * n * beta + 2 * (workers - 1) * delay
        check(near(rows["dense"]["step_s"], ring + 5e-3, 0.1),
              f"dense, {workers} workers: {rows['dense']['step_s']} where the ring takes {ring}")
        check(near(rows["dense"]["bytes_per_step"], 8 * n * (workers - 1) / workers, 0.01), "bytes")
        check(near(rows["local:8"]["step_s"], ring / 8 + 5e-3, 0.15), f"local:8: {rows['local:8']}")
        sent = rows["topk:0.01"]["bytes_per_step"]
        check(near(rows["topk:0.01"]["wire_s"], sent * beta + delay, 0.2),
              f"topk, {workers} workers: {rows['topk:0.01']}")
        check(rows["none"]["bytes_per_step"] == 0, "none sends nothing")
        check(rows["none"]["step_s"] < 20e-3, "none takes no time")


def parts_add_up():
    for row in plan("--params", 300000, "--compute", 2, "--link", "10mbit").values():
        parts = sum(row[key] for key in ["compute_s", "encode_s", "wire_s", "decode_s"])
        check(near(parts, row["step_s"], 0.05), f"{row['sync']}: {parts} of {row['step_s']}")


def advice():
    slow = plan("--params", 1000000, "--compute", 5, "--link", "10mbit,1ms")
    best = [name for name, row in slow.items() if row["best"]]
    check(len(best) == 1 and best[0] not in ("dense", "a2sgd"), f"a slow network: {best}")
    check(slow[best[0]]["speedup"] == max(r["speedup"] for n, r in slow.items() if n != "a2sgd"),
          "the fastest is advised")
    # A step that computes for ten minutes has nothing to gain.
    fast = plan("--params", 100000, "--compute", 600000, "--link", "100gbit,1us")
    check(fast["dense"]["best"], "a fast network: dense")
    text = succeed("plan", "--params", 100000, "--compute", 600000, "--link", "100gbit,1us").stdout
    check("dense is best here" in text and "Do not compress" in text, text)
    text = succeed("plan", "--params", 1000000, "--compute", 5, "--link", "10mbit,1ms").stdout
    check("pays here" in text and text.count("\n* ") == 1, text)


def every_recipe():
    """Without --sync: an example of each recipe that talks while it trains."""
    rows = plan("--params", 1000, "--compute", 1, "--link", "1gbit")
    for sync in json.loads(succeed("list", "--json").stdout)["syncs"]:
        told = json.loads(succeed("list", sync["name"], "--json").stdout)
        check((sync["example"] in rows) == (told["period"] > 0), f"{sync['example']}: {list(rows)}")
    several = plan("--params", 1000, "--compute", 1, "--link", "1gbit", "--sync", "none all")
    check(set(several) == set(rows) | {"none"}, f"none and all: {list(several)}")


def more_than_32_bits():
    """Seven billion parameters are ordinary."""
    n = 7000000000
    rows = plan("--params", n, "--compute", 900, "--workers", 2, "--link", "10gbit,20us", "--sync", "topk:0.001")
    check(near(rows["dense"]["bytes_per_step"], 4 * n, 0.01), f"{rows['dense']}")
    check(rows["dense"]["params"] == n, f"{rows['dense']}")


def of_a_model():
    rows = plan("--model", "softmax", "--data", "synthetic:train=400,test=50,dim=20,classes=4",
                "--batch", 8, "--workers", 2, "--here", "--link", "1mbit")
    check(rows["dense"]["params"] == 84 and rows["dense"]["compute_s"] > 0, f"{rows['dense']}")
    check(all(math.isfinite(r["step_s"]) for r in rows.values()), "finite")


def wrong_use():
    expect_error(2, ["--compute"], "plan", "--params", 1000)
    expect_error(2, ["not both"], "plan", "--params", 1000, "--model", "fnn3")
    expect_error(2, ["1gbitt"], "plan", "--params", 1000, "--compute", 1, "--link", "1gbitt")
    expect_error(2, ["gtopkk"], "plan", "--params", 1000, "--compute", 1, "--sync", "gtopkk:1")
    expect_error(2, ["fnn33", "fnn3"], "plan", "--model", "fnn33")
    expect_error(2, ["--workers"], "plan", "--workers", 0)
    check("--here" in succeed("plan", "--help").stdout, "help")


slow_network()
parts_add_up()
advice()
every_recipe()
more_than_32_bits()
of_a_model()
wrong_use()
finish()
