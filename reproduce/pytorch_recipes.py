#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Every recipe on the PyTorch example: does it train to within a point of plain DDP?

    reproduce/pytorch_recipes.py [--workers 2] [--epochs 3] [--limit 20000] [--only NAME]

Prints a table and ends with 1 if a recipe falls short. a2sgd and none, whose models never
meet, are shown as they are. Needs a built library (GRADWIRE_BUILD, or make).
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
EXAMPLES = os.path.join(ROOT, "python", "examples")
SHORT = 0.01  # of the accuracy of plain DDP
# One or more of each recipe; all with the learning rate of plain DDP.
SPECS = ("dense", "topk:0.01", "gtopk:0.01", "drop:0.99", "qsgd:4", "local:4", "local:grow",
         "oneshot", "spa:4", "pqasgd:4,4", "a2sgd", "none")
EXEMPT = ("a2sgd", "none")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--limit", type=int, default=20000)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--only", help="run only specs whose name contains this, and plain DDP")
    return parser.parse_args()


def train(args, script, *more):
    """Accuracy and MB sent. Workers meet at a port that the system picks for this."""
    with tempfile.TemporaryDirectory() as logs:
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node",
                   str(args.workers), "--rdzv_backend", "c10d", "--rdzv_endpoint",
                   "localhost:0", "--redirects", "1", "--tee", "1", "--log_dir", logs,
                   os.path.join(EXAMPLES, script), "--epochs", str(args.epochs),
                   "--limit", str(args.limit), "--lr", str(args.lr), *more]
        env = dict(os.environ, OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo",
                   PYTHONPATH=os.path.join(ROOT, "python"))
        out = subprocess.run(command, env=env, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
    if out.returncode != 0:
        sys.exit(f"{out.stdout}\n{script} {' '.join(more)} failed with exit status {out.returncode}")
    sent = re.search(r"sent ([\d.]+) MB", out.stdout)
    return (float(re.search(r"accuracy ([\d.]+)", out.stdout)[1]),
            float(sent[1]) if sent else None)


def main():
    args = arguments()
    plain, _ = train(args, "plain_ddp.py")
    print(f"{'plain DDP':16s} {plain:8.4f}", flush=True)
    bad = 0
    for spec in SPECS:
        if args.only and args.only not in spec:
            continue
        accuracy, sent = train(args, "mnist_ddp.py", "--sync", spec)
        short = accuracy < plain - SHORT and spec not in EXEMPT
        bad += short
        print(f"{spec:16s} {accuracy:8.4f} {sent:10.2f} MB  {'SHORT' if short else ''}",
              flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
