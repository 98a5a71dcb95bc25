# SPDX-License-Identifier: Apache-2.0
#
# test_cli_report.py - pages from runs: what is on them is what the runs' files say,
# and broken runs are left out with a note, never with a crash.
import json
import math
import os
import random
import re
import sys
import tempfile

from support_checks import check, expect_error, finish, run, succeed

SMALL = ["--data", "synthetic:train=400,test=50,dim=20,classes=4", "--batch", "8",
         "--model", "softmax", "--workers", "2", "--quiet"]


def page_of(path):
    """The runs that stand in a page."""
    html = open(path, encoding="utf-8").read()
    found = re.search(r'<script type="application/json" id="runs">(.*?)</script>', html, re.S)
    return html, json.loads(found.group(1))


def read_run(folder):
    summary = json.load(open(os.path.join(folder, "summary.json")))
    metrics = [json.loads(line) for line in open(os.path.join(folder, "metrics.jsonl"))]
    return summary, metrics


def near(a, b):
    if a is None or b is None:
        return a is b
    return math.isclose(a, b, rel_tol=1e-7, abs_tol=1e-12)


def figures_are_the_runs(folder):
    """Every number on the page is recomputed from the files."""
    specs = ["dense", "gtopk:0.1", "local:4", "none"]
    for i, spec in enumerate(specs):
        succeed("train", *SMALL, "--epochs", 3, "--eval-every", 20, "--sync", spec, "--momentum", 0,
                "--out", f"{folder}/many/{i}")
    succeed("report", f"{folder}/many", "-o", f"{folder}/page.html", "--title", "four <b>")
    html, data = page_of(f"{folder}/page.html")
    check(data["title"] == "four <b>" and "four <b>" not in html, "the title is escaped")
    check([r["name"] for r in data["runs"]] == specs, "runs are named by their methods")
    check(data["notes"] == [], f"no notes: {data['notes']}")
    for i, made in enumerate(data["runs"]):
        summary, metrics = read_run(f"{folder}/many/{i}")
        steps = summary["steps"]
        check(made["settings"] == summary or all(
            near(v, made["settings"][k]) if isinstance(v, float) else made["settings"][k] == v
            for k, v in summary.items()), f"settings of {specs[i]}")
        check(near(made["step_s"], (summary["compute_s"] + summary["sync_s"]) / steps), "step")
        check(near(made["bytes_step"], summary["bytes_sent"] / steps), "bytes")
        middle = next(m for m in metrics if steps / 2 <= m["step"] < steps)
        left = steps - middle["step"]
        check(near(made["later_bytes_step"], (summary["bytes_sent"] - middle["bytes_sent"]) / left), "later bytes")
        check(near(made["later_step_s"], sum(summary[k] - middle[k] for k in ("compute_s", "sync_s")) / left), "later step")
        check(made["validated"] is False, "no validation set")
        check(near(made["bits"], summary["bits_per_param"]), "bits")
        for part in ["compute", "encode", "wait", "decode"]:
            check(near(made["parts"][part], summary[part + "_s"] / steps), part)
        evaluated = [m["step"] for m in metrics if m["test_accuracy"] is not None]
        check(evaluated == [*range(20, steps, 20), steps], f"evaluated at {evaluated} of {steps}")
        for key, values in made["points"].items():
            there = [m["seconds"] - m["eval_s"] if key == "seconds" else m.get(key) for m in metrics]
            check(len(values) == len(there) and all(map(near, values, there)),
                  f"{key} of {specs[i]}")


def broken_runs(folder):
    """What is damaged is left out, and the page says so."""
    def make(name, **files):
        os.makedirs(f"{folder}/broken/{name}")
        for file, text in files.items():
            with open(f"{folder}/broken/{name}/{file.replace('_', '.')}", "wb") as f:
                f.write(text)

    good = b'{"step": 1, "seconds": 0.5, "loss": 2.5}\n{"step": 2, "seconds": 1, "loss": 1.5}\n'
    summary = json.dumps({"sync": "dense", "model": "fnn3", "steps": 2, "stopped": False}).encode()
    evil = json.dumps({"sync": "</script><script>alert(1)</script>", "model": "\u2028<!--",
                       "steps": 2, "stopped": False}).encode()
    make("a-no-summary", metrics_jsonl=good)
    make("b-half-line", metrics_jsonl=good + b'{"step": 3, "los', summary_json=summary)
    make("c-no-json", metrics_jsonl=b"hello\n\0\n", summary_json=b"{")
    make("d-empty", metrics_jsonl=b"", summary_json=b"")
    make("e-evil", metrics_jsonl=good, summary_json=evil)
    make("f-goes-back", metrics_jsonl=good + good, summary_json=summary)
    make("g-nested", metrics_jsonl=good, summary_json=b'{"a": [1, 2]}')
    r = succeed("report", f"{folder}/broken", "-o", f"{folder}/broken.html")
    html, data = page_of(f"{folder}/broken.html")
    check(len(data["runs"]) == 5, f"five runs have something to show: {len(data['runs'])}")
    check("alert(1)</script>" not in html and "<!--" not in html.split("<body>")[1],
          "names cannot leave their element")
    notes = "\n".join(data["notes"])
    for word in ["c-no-json", "d-empty", "missing", "1 line that is not a record",
                 "2 lines that are not records", "different models"]:
        check(word in notes, f"notes lack {word!r}: {notes}")
    check(r.stderr.count("note:") >= 2, "notes are printed too")
    said = json.loads(succeed("report", f"{folder}/broken", "-o", f"{folder}/broken.html", "--json").stdout)
    check(said["page"] == f"{folder}/broken.html" and said["runs"] == 5 and len(said["notes"]) == r.stderr.count("note:"),
          f"--json: {said}")
    by_name = {r["directory"].split("/")[-1]: r for r in data["runs"]}
    check(by_name["b-half-line"]["points"]["loss"] == [2.5, 1.5], "whole lines are kept")


def names_tell_apart(folder):
    for i, (workers, seed) in enumerate([(2, 1), (2, 2), (3, 1)]):
        succeed("train", *SMALL, "--epochs", 1, "--workers", workers, "--seed", seed,
                "--out", f"{folder}/same/{i}")
    succeed("report", f"{folder}/same", "--out", f"{folder}/same.html")
    names = [r["name"] for r in page_of(f"{folder}/same.html")[1]["runs"]]
    check(len(set(names)) == 3 and all("workers" in n and "seed" in n for n in names), names)


def any_bytes(folder, seed):
    """Files of any bytes give a page or one line, never a crash."""
    print("seed", seed)
    rng = random.Random(seed)
    good = open(f"{folder}/many/0/metrics.jsonl", "rb").read()
    os.makedirs(f"{folder}/any")
    for _ in range(40):
        data = bytearray(good[: rng.randrange(len(good))])
        for _ in range(rng.randrange(6)):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
        for name in ["metrics.jsonl", "summary.json"]:
            open(f"{folder}/any/{name}", "wb").write(data)
        r = run("report", f"{folder}/any", "-o", f"{folder}/any.html")
        check(r.returncode in (0, 1), f"exit {r.returncode}: {r.stderr}")


def wrong_use(folder):
    expect_error(2, ["no run given"], "report")
    expect_error(2, ["--titel", "--title"], "report", "x", "--titel", "y")
    expect_error(1, ["is not a run directory"], "report", f"{folder}/nowhere")
    expect_error(1, ["cannot write"], "report", f"{folder}/many/0", "-o", f"{folder}/no/page.html")
    check("RUN..." in succeed("report", "--help").stdout, "help")


with tempfile.TemporaryDirectory() as folder:
    os.makedirs(f"{folder}/probe")
    open(f"{folder}/probe/metrics.jsonl", "w").write('{"step": 1}\n')
    probe = run("report", f"{folder}/probe", "-o", f"{folder}/probe.html")
    if "has no report page" in probe.stderr:
        print("skipped:", probe.stderr.strip())
        sys.exit(77)
    figures_are_the_runs(folder)
    broken_runs(folder)
    names_tell_apart(folder)
    any_bytes(folder, int(os.environ.get("GW_SEED", random.randrange(2**32))))
    wrong_use(folder)
finish()
