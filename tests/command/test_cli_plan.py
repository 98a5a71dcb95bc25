# SPDX-License-Identifier: Apache-2.0
#
# test_cli_plan.py - plans: where the network decides, predictions are what its rate
# says; advice fits the numbers; wrong use is one line. Nothing here depends on how
# fast the machine is.
import csv
import json
import math
import os
import re
import shlex
import socket
import statistics
import subprocess
import tempfile

from support_checks import GRADWIRE, check, expect_error, finish, run, succeed


ROOT = os.environ["GRADWIRE_SOURCE"]


def whole(*args):
    """The plan for one link."""
    r = succeed("plan", "--json", *args)
    return json.loads(r.stdout)


def plan(*args):
    return {row["sync"]: row for row in whole(*args)["rows"]}


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


def whole_periods():
    """A step of a method with periods costs a part of its exchange, however long the period is."""
    job = ["--params", 200000, "--compute", 5, "--workers", 4, "--link", "1mbit,1ms"]
    shares = "sparta:0.05,resync=30+outer"
    rows = plan(*job, "--sync", f"diloco:30 local:12 local:100 sparseloco:30 sparta:0.05 {shares} a2sgd:resync=30")
    for sync, period in [("diloco:30", 30), ("local:12", 12), ("local:100", 100)]:
        want = rows["dense"]["bytes_per_step"] / period
        check(near(rows[sync]["bytes_per_step"], want, 0.01), f"{sync} sends {rows[sync]}, not {want}")
    sent = {name: row["bytes_per_step"] for name, row in rows.items()}
    check(near(sent[shares], (sent["dense"] + 29 * sent["sparta:0.05"]) / 30, 0.01), f"shares and whole models: {sent}")
    check(near(sent["a2sgd:resync=30"], sent["dense"] / 30, 0.02), f"whole models now and then: {sent}")
    entries = 200000 / 64 * 3 / 30
    sent = rows["sparseloco:30"]["bytes_per_step"]
    check(9 * entries <= 8 * sent <= 10.5 * entries, f"sparseloco: {sent} bytes of {entries} entries")


def beside_computing():
    """A ring takes 96 ms. Each of two exchanges in a period has `delay` steps beside it."""
    job = ["--params", 200000, "--workers", 4, "--link", "100mbit,1us", "--compute"]
    late = "diloco:20,fragments=2,delay=4"
    for compute in (100, 5):
        rows = plan(*job, compute, "--sync", f"diloco:20 diloco:20,fragments=2 {late} dense:delay=1")
        hidden = 2 * 4 / 20 * compute * 1e-3
        for sync, want in ((late, max(0, 96e-3 / 20 - hidden)), ("diloco:20,fragments=2", 96e-3 / 20),
                           ("dense:delay=1", max(0, 96e-3 - compute * 1e-3))):
            took = rows[sync]["step_s"] - compute * 1e-3
            check(abs(took - want) <= 0.3 * want + 2e-3, f"{sync} at {compute} ms: {took}, not {want}")
    check(near(rows[late]["bytes_per_step"], rows["diloco:20"]["bytes_per_step"], 0.01), "bytes in fragments")


def outer_steps():
    """The period, and whether to send few entries, follow from the time of an exchange: 9.6 s in a ring."""
    job = ["--params", 200000, "--workers", 4, "--link", "1mbit,1ms"]
    both = ["--sync", "diloco:30 sparseloco:30"]
    slow = whole(*job, "--compute", "5s", *both)["advice"]
    check(slow["outer"]["sync"] == "diloco:20" and slow["outer"]["period"] == 20, f"{slow['outer']}")
    check(near(slow["outer"]["exchange_s"], 9.6, 0.05) and slow["outer"]["part_of_time"] <= 0.1, f"{slow['outer']}")
    for words in ("diloco:20 suits this link", "lr=0.7,momentum=0.9", "This assumes", "docs/results-outer.md",
                  "not trained yet, diloco:20,momentum=0.6,start=N"):
        check(words in slow["text"], f"no '{words}' in {slow['text']}")
    fast = whole(*job, "--compute", "100ms", *both)["advice"]["outer"]
    check(fast["sync"] == f"sparseloco:{fast['period']}" and 5 <= fast["period"] <= 20, f"{fast}")
    check("density=0.015625" in fast["in_full"], f"{fast}")
    own = whole(*job, "--compute", "5s", "--sync", "diloco:every=30,lr=0.4")["advice"]["outer"]
    check(own["sync"] == "diloco:every=20,lr=0.4", f"{own}")
    check("not trained yet" not in whole(*job, "--compute", "5s", "--sync", "diloco:every=30,lr=0.4")["advice"]["text"],
          "settings that the user has chosen")
    check(whole(*job, "--compute", "5s", "--sync", "local:8")["advice"]["outer"] is None, "no outer step")
    for sync, words in (("sparseloco:30", "sparseloco:5,start=N with"), ("local:30+outer", "local:20,start=N+outer with"),
                        ("local:30+topk:0.01", "local:5,start=N+topk:0.01 with")):
        text = whole(*job, "--compute", "5s", "--sync", sync)["advice"]["text"]
        check(f"not trained yet, {words}" in text, f"{sync}: no '{words}' in {text}")
    text = whole(*job, "--compute", "5s", "--sync", "pqasgd:30,4")["advice"]["text"]
    check("not trained yet" not in text, f"pqasgd has no start: {text}")


def parts_add_up():
    for row in plan("--params", 300000, "--compute", 2, "--link", "10mbit").values():
        parts = sum(row[key] for key in ["compute_s", "encode_s", "wire_s", "decode_s"])
        check(near(parts, row["step_s"], 0.05), f"{row['sync']}: {parts} of {row['step_s']}")


def long_periods():
    """What is sent once in a period is counted, however long the period is."""
    rows = plan("--params", 100000, "--workers", 4, "--compute", 2, "--link", "10mbit",
                "--sync", "local:8 local:30 diloco:30 sparseloco:30")
    sent = {name: row["bytes_per_step"] for name, row in rows.items()}
    check(near(sent["local:30"] * 30, sent["local:8"] * 8, 0.01), f"bytes: {sent}")
    check(near(sent["diloco:30"], sent["local:30"], 0.01), f"bytes: {sent}")
    check(0 < sent["sparseloco:30"] < sent["diloco:30"] / 20, f"bytes: {sent}")


def matrices():
    """A model of which only the size is known is not one vector."""
    rows = plan("--params", "4m", "--workers", 2, "--compute", 2, "--link", "10mbit", "--sync", "dense lowrank:4")
    sent = {name: row["bytes_per_step"] for name, row in rows.items()}
    check(sent["lowrank:4"] < sent["dense"] / 20, f"bytes: {sent}")


SLOW = ["--params", "300k", "--compute", "100ms", "--link", "10mbit,1ms"]
# A step that computes for ten minutes has nothing to gain.
FAST = ["--params", "100k", "--compute", "600s", "--link", "100gbit,1us"]


def advice():
    slow = whole(*SLOW)
    rows = {row["sync"]: row for row in slow["rows"]}
    best = [name for name, row in rows.items() if row["best"]]
    check(len(best) == 1 and best[0] not in ("dense", "a2sgd"), f"a slow network: {best}")
    check(slow["advice"]["sync"] == best[0], f"advised and marked: {slow['advice']}")
    trusted = [row for row in rows.values() if row["trust"] in ("safe", "costly", "drifting")]
    check(rows[best[0]]["speedup"] >= max(r["speedup"] for r in trusted) / 1.31,
          "nothing that may be advised is much faster")
    fast = plan(*FAST)
    check(fast["dense"]["best"], "a fast network: dense")
    text = succeed("plan", *FAST).stdout
    check("Take dense." in text and "DistributedDataParallel" in text, text)
    text = succeed("plan", *SLOW).stdout
    check("Take " in text and text.count("\n* ") == 1, text)


def models_stay_equal():
    """A method that lets models drift apart is not advised for a small gain."""
    pair = "qsgd:4 local:8"
    rows = plan(*SLOW, "--workers", 4, "--sync", pair)
    check(near(rows["local:8"]["speedup"], rows["qsgd:4"]["speedup"], 0.25), f"about as fast: {rows}")
    check(rows["qsgd:4"]["best"], f"the one that keeps models equal: {rows}")
    # One that is many times as fast is, and the risk is named.
    drifting = whole(*SLOW, "--workers", 4, "--momentum", 0, "--sync", "pqasgd:8,4 qsgd:4")
    check(drifting["advice"]["sync"] == "pqasgd:8,4", f"{drifting['advice']}")
    for words in ("drift apart", "0.72 points of accuracy below", "docs/results-methods.md"):
        check(words in drifting["advice"]["text"], f"no '{words}' in {drifting['advice']['text']}")
    # What lost more than a point is not, however fast; but it is named, with what it lost.
    lossy = whole(*SLOW, "--workers", 8, "--optimizer", "adam", "--sync", "local:8")
    check(lossy["advice"]["sync"] == "dense", f"{lossy['advice']}")
    check("local:8 would take" in lossy["advice"]["text"] and "lost 1.51 points" in lossy["advice"]["text"],
          lossy["advice"]["text"])
    # Neither is what was never measured.
    new = whole(*SLOW, "--sync", "local:16+gtopk:0.01")
    check(new["advice"]["sync"] == "dense" and "have not measured" in new["advice"]["text"], f"{new['advice']}")


def over_one_machine():
    """The gain over one machine is P computations by the time of a step."""
    p = whole("--params", "200k", "--compute", "50ms", "--workers", 4, "--link", "10mbit,1ms", "--sync", "qsgd:4")
    for row in p["rows"]:
        check(near(row["of_one"], 4 * 0.05 / row["step_s"], 1e-6), f"{row}")
    check("times the work of one machine" in p["advice"]["text"], p["advice"]["text"])
    hopeless = whole("--params", "1m", "--compute", "1ms", "--link", "1mbit", "--sync", "qsgd:4")["advice"]
    check("Train on one machine" in hopeless["text"] and hopeless["beats_one_machine"] is False, hopeless["text"])
    shared = whole("--params", 1000, "--compute", 1, "--here", "--sync", "qsgd:4")
    check(shared["rows"][0]["of_one"] is None and "share this machine" in shared["advice"]["text"], f"{shared}")
    alone = whole("--params", 1000, "--compute", 1, "--workers", 1)
    check(alone["advice"]["sync"] == "dense" and "One worker" in alone["advice"]["text"], f"{alone['advice']}")


def crossing():
    """Above the rate that is named dense is faster, below it is not."""
    job = ["--params", "300k", "--compute", "20ms", "--workers", 2, "--sync", "gtopk:0.01"]
    p = whole(*job, "--link", "100mbit,10us")["advice"]
    rate, overlapped = p["dense_faster_from_bit_s"], p["dense_faster_from_overlapped_bit_s"]
    check(overlapped > 1e8 and (rate is None or rate > overlapped), f"dense is faster from {rate}, {overlapped}")
    check("dense" in p["text"] and "overlap" in p["text"], p["text"])
    check(p["dense_overlapped_s"] >= 0.02, f"{p}")
    if rate is not None and rate < 5e10:
        for factor in (0.1, 10):
            rows = plan(*job, "--link", f"{factor * rate / 1e6:.3f}mbit,10us")
            check((rows["gtopk:0.01"]["speedup"] > 1) == (factor < 1), f"{factor} times {rate}: {rows}")


def of_the_optimizer():
    """Specs run as gw_spec_advise() says, but without their first, dense steps."""
    job = ["--params", "200k", "--compute", "50ms", "--link", "10mbit", "--sync", "gtopk:0.01"]
    moved = {}
    for optimizer, runs_as, first in [
            (["sgd"], "gtopk:0.01,warmup=64,ladder=64,putback=keep+momentum:0.9", 64),
            (["sgd", "--momentum", "0.5"], "gtopk:0.01,warmup=64,ladder=64,putback=keep+momentum:0.5", 64),
            (["sgd", "--momentum", "0"], "gtopk:0.01", 0),
            (["adamw"], "update:scale=auto+gtopk:0.01,warmup=64,ladder=64+momentum:0.6,dampening=0.6", 64)]:
        row = plan(*job, "--optimizer", *optimizer)["gtopk:0.01"]
        check(row["runs_as"] == runs_as, f"{optimizer}: {row['runs_as']}")
        check(row["first_steps"] == first, f"{optimizer}: {row['first_steps']}")
        # Three rungs of a ladder are above 0.01, which send 25, 6.25 and 1.5625 times as much.
        rungs = 64 * 32.8125 if "ladder" in runs_as else 0
        check(row["ladder_steps"] == (192 if rungs else 0), f"{optimizer}: {row['ladder_steps']}")
        check(abs(row["ladder_bytes"] - rungs * row["bytes_per_step"]) <= 1e-6 * rungs * row["bytes_per_step"], f"{row}")
        moved[" ".join(optimizer)] = row["bytes_per_step"]
    check(max(moved.values()) < 1.2 * min(moved.values()), f"bytes: {moved}")
    own = plan(*job[:-1], "gtopk:0.01,warmup=1000", "--momentum", 0)["gtopk:0.01,warmup=1000"]
    check(own["first_steps"] == 1000 and own["bytes_per_step"] < 1e5, f"{own}")


def numbers():
    """Numbers and models as people write them; test_command_shapes has more of them."""
    p = whole("--params", "1.5K", "--compute", "0.2s", "--sync", "dense")
    check(p["params"] == 1500 and p["compute_s"] == 0.2, f"{p}")
    for text, seconds in [("250", 0.25), ("250ms", 0.25), ("2s", 2), ("50us", 5e-5)]:
        p = whole("--params", 10, "--compute", text, "--workers", 1, "--sync", "dense")
        check(near(p["compute_s"], seconds, 1e-9), f"{text}: {p['compute_s']}")
    for text in ["fast", "2h", "-1", "s", "1e99"]:
        expect_error(2, ["--compute", "0.2s"], "plan", "--params", 10, f"--compute={text}")
    for text in ["124q", "-5", "1e99"]:
        expect_error(2, ["--params", text], "plan", f"--params={text}", "--compute", 1)
        expect_error(2, ["--params", text], "simulate", f"--params={text}")
    p = whole("--model", "fnn3", "--compute", "1s", "--sync", "dense")
    check(p["params"] == 199210 and p["model"] == "fnn3" and not p["compute_measured"], f"{p}")
    expect_error(2, ["resnet50", "--compute"], "plan", "--model", "resnet50")
    expect_error(2, ["resnet51", "resnet50"], "plan", "--model", "resnet51", "--compute", 1)
    expect_error(2, ["resnet51", "resnet50"], "simulate", "--model", "resnet51")
    expect_error(2, ["llama-7b", "plan"], "simulate", "--model", "llama-7b")


def several_links():
    r = succeed("plan", "--json", "--params", 1000, "--compute", 1, "--link", "10mbit 1gbit,1ms", "--sync", "qsgd:4")
    links = [json.loads(line)["link"] for line in r.stdout.splitlines()]
    check(links == ["10mbit", "1gbit,1ms"], f"{links}")
    expect_error(2, ["2gbitt"], "plan", "--params", 1000, "--compute", 1, "--link", "1gbit 2gbitt")
    expect_error(2, ["--link"], "plan", "--params", 1000, "--compute", 1, "--link", " ")


def exact_lines():
    """The line for the trainer trains."""
    data = "synthetic:train=400,test=50,dim=20,classes=4"
    p = whole("--model", "softmax", "--data", data, "--batch", 8, "--workers", 2, "--here", "--link", "1mbit",
              "--optimizer", "adamw", "--sync", "qsgd:4")["advice"]
    with tempfile.TemporaryDirectory() as out:
        words = shlex.split(p["train"])
        check(words[:2] == ["gradwire", "train"], p["train"])
        r = succeed(*words[1:], "--steps", 5, "--quiet", "--json", "--out", os.path.join(out, "run"))
        s = json.loads(r.stdout)
        check((s["model"], s["workers"], s["optimizer"]) == ("softmax", 2, "adamw"), f"{s}")
    p = whole("--params", "20k", "--compute", "0.25s", "--workers", 2, "--link", "1mbit", "--sync", "qsgd:4")["advice"]
    check(p["train"].startswith("mpirun -n 2 ") and p["train"].endswith("--sync qsgd:4 --optimizer sgd --momentum 0.9"),
          p["train"])
    check(p["pytorch"] == 'handle = gradwire.attach(model, "qsgd:4", optimizer)', p["pytorch"])


def expected_results():
    """The differences from dense, by the rows of results."""
    with open(os.path.join(ROOT, "results", "training.csv"), newline="") as f:
        rows = [r for r in csv.DictReader(f)]
    with open(os.path.join(ROOT, "reproduce", "support", "runs.py")) as f:
        tuning_seed = re.search(r"TUNING_SEED = (\d+)", f.read())[1]
    found = {}
    for task in ("fashion-sgd", "cnn-sgd", "fashion-adam", "cnn-adam"):
        tuned = [r for r in rows if r["task"] == task and r["part"] == "tune" and r["sync"] == "dense" and
                 r["workers"] == "4" and r["seed"] == tuning_seed]
        lr = min(tuned, key=lambda r: float(r["test_loss"]))["lr"]
        for r in rows:
            if r["task"] == task and r["part"] == "whole" and float(r["lr"]) == float(lr):
                found.setdefault((task, int(r["workers"]), r["sync"]), []).append(r)
    with open(os.path.join(ROOT, "results", "methods.csv"), newline="") as f:
        rows = [r for r in csv.DictReader(f) if r["kind"] == "accuracy" and r["data"] == "fashion-mnist"]
    for sync in {r["sync"] for r in rows}:
        tuned = [r for r in rows if r["sync"] == sync and r["workers"] == "4" and r["seed"] == "1"]
        lr = max(tuned, key=lambda r: float(r["accuracy"]))["lr"]
        for r in rows:
            if r["sync"] == sync and r["lr"] == lr:
                found.setdefault(("fashion-plain", int(r["workers"]), sync), []).append(r)
    mean = {k: statistics.fmean(100 * float(r["accuracy"] or 0) for r in v) for k, v in found.items() if len(v) == 3}
    return {k: v - mean[k[0], k[1], "dense"] for k, v in mean.items() if k[2] != "dense"}


def cited_results():
    """What the advice says of accuracy is what results/*.csv say."""
    with open(os.path.join(ROOT, "cli", "plan", "plan_results.c")) as f:
        table = re.findall(r'{"([a-z-]+)", (\d+), "([^"]+)", (-?[\d.]+)}', f.read())
    expected = expected_results()
    check(len(table) > 60, f"{len(table)} rows")
    for task, workers, sync, points in table:
        want = expected.get((task, int(workers), sync))
        check(want is not None and abs(want - float(points)) < 0.006,
              f'plan_results.c: {{"{task}", {workers}, "{sync}", {points}}} should be {want}')
    with open(os.path.join(ROOT, "docs", "results-optimizers.md")) as f:
        check("-1.51" in f.read(), "the page has what is cited")


def every_recipe():
    """Without --sync: an example of each recipe that talks while it trains, and what is usual."""
    rows = plan("--params", 1000, "--compute", 1, "--link", "1gbit")
    for sync in json.loads(succeed("list", "--json").stdout)["syncs"]:
        told = json.loads(succeed("list", sync["name"], "--json").stdout)
        check((sync["example"] in rows) == (told["period"] > 0), f"{sync['example']}: {list(rows)}")
    check({"dense+bf16", "topk:0.01", "gtopk:0.01"} <= set(rows), f"the usual: {list(rows)}")
    raw, coded = rows["qsgd:4"], rows["qsgd:4,code=entropy"]
    check(raw["accuracy"] == coded["accuracy"] is not None, "coded once more: the same models, the same points")
    several = plan("--params", 1000, "--compute", 1, "--link", "1gbit", "--sync", "none all")
    check(set(several) == set(rows) | {"none"}, f"none and all: {list(several)}")


def more_than_32_bits():
    """Seven billion parameters are ordinary."""
    n = 7000000000
    p = whole("--params", n, "--compute", 900, "--workers", 2, "--link", "10gbit,20us", "--sync", "topk:0.001")
    rows = {row["sync"]: row for row in p["rows"]}
    check(p["params"] == n, f"{p['params']} parameters")
    check(near(rows["dense"]["bytes_per_step"], 4 * n, 0.01), f"{rows['dense']}")


def of_a_model():
    p = whole("--model", "softmax", "--data", "synthetic:train=400,test=50,dim=20,classes=4",
              "--batch", 8, "--workers", 2, "--here", "--link", "1mbit")
    rows = {row["sync"]: row for row in p["rows"]}
    check(p["params"] == 84 and p["compute_measured"] and rows["dense"]["compute_s"] > 0, f"{rows['dense']}")
    check(all(math.isfinite(r["step_s"]) for r in rows.values()), "finite")


def listener(port=0):
    """Waits for a measurement; its port is in what it says first."""
    p = subprocess.Popen([GRADWIRE, "plan", "--measure-listen", str(port)], stderr=subprocess.PIPE, text=True)
    first = p.stderr.readline()
    found = re.search(r":(\d+)'", first)
    check(found, f"the listener says {first!r}")
    return p, int(found[1]) if found else 0


def ended(p, code, *words):
    err = p.stderr.read()
    check(p.wait(60) == code, f"the listener: exit {p.returncode}, {err!r}")
    check(err.count("\n") == 1 and all(w in err for w in words), f"the listener says {err!r}, not {words}")


def real_link():
    """Two processes measure the link between them, here the loopback."""
    there, port = listener()
    p = whole("--params", 1000, "--compute", 1, "--sync", "qsgd:4", "--measure", f"127.0.0.1:{port}")
    check(p["link_measured_with"] == f"127.0.0.1:{port}", f"{p}")
    check(re.fullmatch(r"[\d.]+[mg]bit,\d+us", p["link"]), p["link"])
    ended(there, 0, "127.0.0.1", "has measured")
    # It listens once only.
    expect_error(1, ["cannot connect", str(port), "--measure-listen"], "plan", "--params", 1000, "--compute", 1,
                 "--measure", f"127.0.0.1:{port}")


def strangers():
    """Whoever else connects gets nowhere."""
    for said in (b"GET / HTTP/1.1\r\nHost: here\r\n\r\n" * 20, b"", b"\xff" * 5000):
        there, port = listener()
        with socket.create_connection(("127.0.0.1", port)) as s:
            s.sendall(said)
            s.shutdown(socket.SHUT_WR)
            ended(there, 1, "gradwire: ")
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        expect_error(1, ["cannot listen"], "plan", "--measure-listen", taken.getsockname()[1])
    # A server of another kind is no listener.
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        asking = subprocess.Popen([GRADWIRE, "plan", "--params", "1000", "--compute", "1", "--measure",
                                   f"127.0.0.1:{port}"], stderr=subprocess.PIPE, text=True)
        with other.accept()[0] as s:
            s.sendall(b"220 mail.example ESMTP\r\n" * 100)
            s.recv(16)
        ended(asking, 1, "127.0.0.1")


def wrong_use():
    for address, words in [("localhost", ["HOST:PORT"]), ("::1:5", ["HOST:PORT"]), ("localhost:x", ["port"]),
                           ("localhost:99999", ["port", "65535"]), ("mpi", ["mpirun"])]:
        expect_error(2, ["--measure", *words], "plan", "--params", 10, "--compute", 1, "--measure", address)
    expect_error(2, ["--link", "--measure"], "plan", "--link", "1gbit", "--measure", "localhost:5")
    expect_error(2, ["not both"], "plan", "--measure-listen", 0, "--measure", "localhost:5")
    expect_error(2, ["--compute"], "plan", "--params", 1000)
    expect_error(2, ["not both"], "plan", "--params", 1000, "--model", "fnn3")
    expect_error(2, ["1gbitt"], "plan", "--params", 1000, "--compute", 1, "--link", "1gbitt")
    expect_error(2, ["gtopkk"], "plan", "--params", 1000, "--compute", 1, "--sync", "gtopkk:1")
    expect_error(2, ["fnn33", "fnn3"], "plan", "--model", "fnn33")
    expect_error(2, ["--workers"], "plan", "--workers", 0)
    expect_error(2, ["adamm", "adam"], "plan", "--params", 1000, "--compute", 1, "--optimizer", "adamm")
    check("--here" in succeed("plan", "--help").stdout, "help")


slow_network()
whole_periods()
beside_computing()
outer_steps()
parts_add_up()
long_periods()
matrices()
advice()
models_stay_equal()
over_one_machine()
crossing()
of_the_optimizer()
numbers()
several_links()
exact_lines()
cited_results()
every_recipe()
more_than_32_bits()
of_a_model()
real_link()
strangers()
wrong_use()
finish()
