# SPDX-License-Identifier: Apache-2.0
#
# test_cli_examples.py - the examples of --help and of the pages are settings that work: the
# command has nothing to warn of. Each is run on small data, with what decides about warnings:
# the method, the optimizer, the number of workers and that of steps, if it is small.
import glob
import os
import re
import shlex
import subprocess
import sys
import tempfile

GRADWIRE = os.path.abspath(os.environ["GRADWIRE"])
SOURCE = os.environ["GRADWIRE_SOURCE"]
SMALL = ["--model", "softmax", "--data", "synthetic:train=400,test=50,dim=20,classes=4",
         "--batch", "8", "--spawn", "threads"]
DECIDE = {"--sync", "--optimizer", "--momentum", "--nesterov", "--workers", "--advice", "--steps"}
# More than methods begin with; examples without a number of steps are longer.
STEPS = 330
# A page may show what a method does that it advises against.
SHOWN = {"results.md", "measuring.md"}
failures = []


def check(ok, what):
    if not ok:
        failures.append(what)
        print("FAILED:", what)


def pages():
    """What to read, by name: the help of every command, and the pages."""
    top = subprocess.run([GRADWIRE, "--help"], capture_output=True, text=True).stdout
    found = {"gradwire --help": top}
    for command in ("train", "compare"):
        found[f"{command} --help"] = subprocess.run([GRADWIRE, command, "--help"], capture_output=True,
                                                    text=True).stdout
    for path in [f"{SOURCE}/README.md", *sorted(glob.glob(f"{SOURCE}/docs/*.md"))]:
        if os.path.basename(path) not in SHOWN:
            with open(path) as f:
                found[os.path.basename(path)] = f.read()
    return found


def examples(text):
    """The commands in a page, each as its words; only lines that are nothing else."""
    for line in text.replace("\\\n", " ").splitlines():
        if not re.match(r"\s*(sudo |mpirun |srun |salloc |build/|gradwire )", line):
            continue
        try:
            words = shlex.split(line, comments=True)
        except ValueError:
            continue
        at = next((i for i, w in enumerate(words) if os.path.basename(w) == "gradwire"), None)
        if at is not None and words[at + 1:at + 2] in (["train"], ["compare"]):
            yield words[:at], words[at + 1], words[at + 2:]


def decisive(before, args):
    """The flags that count, and how many workers a launcher starts."""
    flags = {a: b for a, b in zip(args, args[1:]) if a in DECIDE}
    if "-n" in before:
        flags["--workers"] = before[before.index("-n") + 1]
    return flags


def try_one(tmp, page, before, args, sync):
    flags = decisive(before, args)
    most = flags.get("--workers", "4").split()[0].split(":")[-1]  # of MIN:MAX
    steps = min(STEPS, int(flags.get("--steps", STEPS)))
    flags.update({"--sync": sync, "--workers": most, "--steps": str(steps)})
    words = [w for flag in flags.items() for w in flag]
    r = subprocess.run([GRADWIRE, "train", *SMALL, *words, "--out", f"{tmp}/run", "--force"],
                       capture_output=True, text=True, timeout=60)
    check(r.returncode == 0 and "warning:" not in r.stderr, f"{page}: {args}: {r.stderr!r}")


with tempfile.TemporaryDirectory() as folder:
    count = 0
    for page, text in pages().items():
        for before, command, args in examples(text):
            syncs = decisive(before, args).get("--sync", "dense")
            for sync in syncs.split() if command == "compare" else [syncs]:
                try_one(folder, page, before, args, sync.split("@")[0])
                count += 1
    check(count > 15, f"only {count} examples are found")
print(f"{count} examples, {len(failures)} failed")
sys.exit(1 if failures else 0)
