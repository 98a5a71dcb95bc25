# SPDX-License-Identifier: Apache-2.0
#
# test_results_translation.py - the runs of reproduce/translation are made once and kept,
# larger rates are tried while the largest is the best, a diverged run is kept as failed,
# and tables say what was not run. Nothing is trained here.
import os
import sys
import tempfile

from support_checks import check, finish

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["GRADWIRE_SOURCE"], "reproduce"))
from support import runs as R, translating as T, translating_steps as S  # noqa: E402


class Made(T.Translations):
    """Losses are distances from a rate that is right; nothing is run."""

    def __init__(self, right, dry=False):
        super().__init__("nowhere", dry)
        self.right, self.made = right, []

    def train(self, want):
        self.made.append(float(want["lr"]))
        row = dict(want, batch=T.BATCH, seconds="1", failed="", **R.stamp())
        if float(want["lr"]) > 0.02:
            return dict(row, failed="NaN")
        return T.fill(row, {"loss": abs(float(want["lr"]) - self.right), "train_loss": 1.0, "step_s": 0.1,
                            "exchange_s": 0.01, "bleu": 12.345, "steps": T.STEPS[want["part"]], "params": 7,
                            "bytes_sent": 99, "version": "0"})


def made_once():
    runs = Made(0.004)
    check(runs.best_rate("dense", True) == 0.004 and runs.made == list(T.RATES), f"tried {runs.made}")
    row = runs.get("dense", True, 0.004, 1)
    again = Made(0.004)
    check(again.get("dense", True, 0.004, 1) == row and not again.made, f"made again: {again.made}")
    check(again.get("dense", False, 0.004, 1) is not None and len(again.made) == 1, "layer norm is not in the key")


def larger_rates():
    runs = Made(0.016)
    check(runs.best_rate("drop:0.99", True) == 0.016, f"tried {runs.made}")
    check(runs.made == [*T.RATES, 0.016, 0.032], f"tried {runs.made}")
    kept = [r for r in R.read(T.TABLE) if r["failed"]]
    check(len(kept) == 1 and kept[0]["lr"] == "0.032" and kept[0]["bleu"] == "", f"failed: {kept}")


def a_page_makes_no_runs():
    runs = Made(0.004, dry=True)
    check(runs.best_rate("topk:0.01", True) is None and not runs.made, "a page has run something")


def same_length():
    words = T.Translations("corpus", False).command(dict(part="long", sync="none", layer_norm="1", lr="0.1", seed="3",
                                                         workers="2"), "logs")
    check("--layer-norm" in words and words[words.index("--steps") + 1] == str(T.STEPS["long"]), f"{words}")
    words = T.Translations("corpus", False).command(dict(part="tune", sync="none", layer_norm="0", lr="0.1", seed="3",
                                                         workers="2"), "logs")
    check("--layer-norm" not in words and words[words.index("--test") + 1] == "val", f"{words}")


def times():
    def row(sync, step):
        return {"blas": "SkylakeX", "batch": "32", "rate_mbit": "2500", "sync": sync, "step_s": step, "median_s": step,
                "bytes_per_step": {"none": "0", "dense": "1000", "drop:0.99": "12"}[sync]}

    check(not list(S.lines_of([row("none", "0.08")], "SkylakeX", 32)), "a table of half a measurement")
    rows = [row("none", "0.08"), row("dense", "0.1"), row("drop:0.99", "0.09")]
    lines = {line[3]: line for line in S.lines_of(rows, "SkylakeX", 32)}
    check(lines["`dense`"][6] == "20 %" and lines["`drop:0.99`"][7] == "1.20 %", f"{lines}")
    check(lines["`drop:0.99`"][8:] == ["+11 %", "+25 %", "+22 %"], f"{lines['`drop:0.99`']}")


with tempfile.TemporaryDirectory() as d:
    T.TABLE = os.path.join(d, "translation.csv")
    made_once()
    larger_rates()
    a_page_makes_no_runs()
    same_length()
    times()
finish()
