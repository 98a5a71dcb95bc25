#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""The README's line, pasted into a PyTorch script: what does it cost with its optimizer?

    reproduce/pytorch_optimizers.py [--only adamw] [--seeds 3]   run what is missing, then write the page
    reproduce/pytorch_optimizers.py --page                       only write the page again

Takes python/examples/plain_ddp.py with another optimizer, and the same with the line that
README.md has and the specs below, and trains them on Fashion-MNIST for one epoch with two
processes. Rows are kept in results/pytorch-optimizers.csv, and the table goes to
docs/results-optimizers.md. A run takes half a minute on two free cores. Ends with 1 if the
README's own line costs more than a point with an optimizer. Needs PyTorch in this Python and
a built library (GRADWIRE_BUILD, or make).
"""
import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile

from support import page, store
from support.runs import guarded

EXAMPLES = os.path.join(store.ROOT, "python", "examples")
TABLE = os.path.join(store.ROOT, "results", "pytorch-optimizers.csv")
FIELDS = ["optimizer", "workers", "sync", "seed", "accuracy", "torch", "version", "date", "machine"]
WORKERS = 2
PLAIN = "plain DDP"
# What may be lost, in points.
README_SYNC, README_ROOM = "gtopk:0.01", 1.0
SYNCS = {"topk:0.01": 0.5, "gtopk:0.01": 0.5, "drop:0.99": 0.5, "gtopk:0.001": 1.0}
OPTIMIZERS = {
    "momentum": ("SGD, momentum 0.9", "torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)"),
    "adamw": ("AdamW", "torch.optim.AdamW(model.parameters(), lr=0.001)"),
    "nesterov": ("SGD, Nesterov's 0.9", "torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)"),
    "adam": ("Adam", "torch.optim.Adam(model.parameters(), lr=0.001)"),
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", choices=OPTIMIZERS, help="with this optimizer alone")
    parser.add_argument("--page", action="store_true", help="only write the page; run nothing")
    return parser.parse_args()


# ---- scripts -----------------------------------------------------------------------------


def readme_line(sync):
    with open(os.path.join(store.ROOT, "README.md"), encoding="utf-8") as f:
        line = re.search(r"^handle = gradwire\.attach\(.*$", f.read(), re.M)[0]
    return replaced(line, r'"[a-z]+:[^"]*"', f'"{sync}"')


def replaced(text, pattern, by):
    """There must be something to replace."""
    text, count = re.subn(pattern, lambda _: by, text, flags=re.M)
    assert count == 1, pattern
    return text


def script(optimizer, sync, seed):
    with open(os.path.join(EXAMPLES, "plain_ddp.py"), encoding="utf-8") as f:
        text = replaced(f.read(), r"torch\.manual_seed\(1\)", f"torch.manual_seed({seed})")
    lines = f"optimizer = {OPTIMIZERS[optimizer][1]}"
    if sync != PLAIN:
        text = replaced(text, "^import torch$", "import gradwire\nimport torch")
        lines += "\n" + readme_line(sync)
    return replaced(text, r"^optimizer = .*$", lines)


def train(text):
    """The accuracy of a script."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "pasted.py")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        # Redirecting is what lets the torchrun of PyTorch 1.13 run on Python 3.11.
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", str(WORKERS),
                   "--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0", "--redirects", "1", "--tee", "1",
                   "--log_dir", folder, path, "--epochs", "1", "--batch", "32"]
        env = dict(os.environ, OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo",
                   PYTHONPATH=os.pathsep.join([os.path.join(store.ROOT, "python"), EXAMPLES]))
        out = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if out.returncode != 0:
        sys.exit(f"{out.stdout}\nthe script failed with exit status {out.returncode}")
    return float(re.search(r"accuracy ([\d.]+)", out.stdout)[1])


# ---- rows --------------------------------------------------------------------------------


def key_of(row):
    return row["optimizer"], row["sync"], int(row["seed"])


def torch_version():
    return subprocess.run([sys.executable, "-c", "import torch; print(torch.__version__)"], check=True,
                          capture_output=True, text=True).stdout.strip()


def run_missing(args, rows):
    torch = torch_version()
    for seed in range(1, args.seeds + 1):
        for name in [args.only] if args.only else OPTIMIZERS:
            for sync in [PLAIN, *SYNCS]:
                if (name, sync, seed) in rows:
                    continue
                row = {"optimizer": name, "workers": WORKERS, "sync": sync, "seed": seed,
                       "accuracy": train(script(name, sync, seed)), "torch": torch,
                       "version": store.version(), **store.stamp()}
                print(f"{name:9s} seed {seed}  {sync:12s} {100 * row['accuracy']:.2f} %", flush=True)
                store.append(TABLE, FIELDS, row)
                rows[key_of(row)] = row


def points(rows, name, sync):
    """By seed."""
    return {seed: 100 * float(row["accuracy"]) for (o, s, seed), row in sorted(rows.items()) if (o, s) == (name, sync)}


def gain(plain, ours):
    """The mean difference of the seeds that both have, and how many these are."""
    both = plain.keys() & ours.keys()
    return (statistics.fmean(ours[seed] - plain[seed] for seed in both) if both else 0.0), len(both)


def cell(plain, ours, room):
    lost, seeds = gain(plain, ours)
    if seeds == 0:
        return ""
    text = f"{lost:+.2f}" + ("" if seeds == 3 else f" ({seeds})")
    return f"**{text}**" if lost < -room else text


def write_page(rows):
    lines = []
    for name, (title, _) in OPTIMIZERS.items():
        plain = points(rows, name, PLAIN)
        if plain:
            lines.append([title, page.spread(plain.values()),
                          *(cell(plain, points(rows, name, s), room) for s, room in SYNCS.items())])
    torch = ", ".join(sorted({r["torch"] for r in rows.values()}))
    page.write_between("results-optimizers.md", "pytorch", page.made_by("reproduce/pytorch_optimizers.py",
                       rows.values())[:-1] + f", PyTorch {torch}.\n\n" +
                       page.table(["optimizer", f"{PLAIN}, %", *(f"`{s}`" for s in SYNCS)], lines))


def main():
    args = arguments()
    rows = {key_of(row): row for row in store.read(TABLE)}
    if not args.page:
        run_missing(args, rows)
    write_page(rows)
    print("wrote docs/results-optimizers.md")
    lost = min(gain(points(rows, o, PLAIN), points(rows, o, README_SYNC))[0] for o in OPTIMIZERS)
    return 1 if lost < -README_ROOM else 0


if __name__ == "__main__":
    sys.exit(guarded(main))
