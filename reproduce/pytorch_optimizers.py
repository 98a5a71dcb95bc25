#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""The README's line, pasted into a PyTorch script: what does it cost with its optimizer?

    reproduce/pytorch_optimizers.py [--workers 2] [--epochs 1] [--seeds 3] [--only adamw]

Takes python/examples/plain_ddp.py with another optimizer, and the same with the line that
README.md has, trains both on Fashion-MNIST, and prints a table. Ends with 1 if a mean of
the seeds is more than a point lower. Needs a built library (GRADWIRE_BUILD, or make).
"""
import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
EXAMPLES = os.path.join(ROOT, "python", "examples")
SHORT = 1.0  # points
OPTIMIZERS = {"momentum": "torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)",
              "adamw": "torch.optim.AdamW(model.parameters(), lr=0.001)"}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", choices=OPTIMIZERS, help="with this optimizer alone")
    return parser.parse_args()


def readme_line():
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as f:
        return re.search(r"^handle = gradwire\.attach\(.*$", f.read(), re.M)[0]


def replaced(text, pattern, by):
    """There must be something to replace."""
    text, count = re.subn(pattern, lambda _: by, text, flags=re.M)
    assert count == 1, pattern
    return text


def script(optimizer, seed, pasted):
    with open(os.path.join(EXAMPLES, "plain_ddp.py"), encoding="utf-8") as f:
        text = replaced(f.read(), r"torch\.manual_seed\(1\)", f"torch.manual_seed({seed})")
    lines = f"optimizer = {OPTIMIZERS[optimizer]}"
    if pasted:
        text = replaced(text, "^import torch$", "import gradwire\nimport torch")
        lines += "\n" + readme_line()
    return replaced(text, r"^optimizer = .*$", lines)


def train(args, text):
    """The accuracy in percent."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "pasted.py")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", str(args.workers),
                   "--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0", "--redirects", "1", "--tee", "1",
                   "--log_dir", folder, path,
                   "--epochs", str(args.epochs), "--batch", "32"]
        env = dict(os.environ, OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo",
                   PYTHONPATH=os.pathsep.join([os.path.join(ROOT, "python"), EXAMPLES]))
        out = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if out.returncode != 0:
        sys.exit(f"{out.stdout}\nthe script failed with exit status {out.returncode}")
    return 100 * float(re.search(r"accuracy ([\d.]+)", out.stdout)[1])


def main():
    args = arguments()
    print(readme_line())
    short = 0
    for name in [args.only] if args.only else OPTIMIZERS:
        found = [[train(args, script(name, seed, pasted)) for pasted in (False, True)]
                 for seed in range(1, args.seeds + 1)]
        lost = statistics.fmean(ours - plain for plain, ours in found)
        short += lost < -SHORT
        each = "  ".join(f"{plain:.2f} -> {ours:.2f}" for plain, ours in found)
        print(f"{name:9s} {lost:+.2f} points: {each}{'  SHORT' if lost < -SHORT else ''}", flush=True)
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
