# SPDX-License-Identifier: Apache-2.0
#
# test_cli_terminal.py - what the command shows on terminals of several widths: the line of
# progress never wraps, since a line that does cannot be replaced, and tables fit.
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios

GRADWIRE = os.path.abspath(os.environ["GRADWIRE"])
failures = []


def check(ok, what):
    if not ok:
        failures.append(what)
        print("FAILED:", what)


def on_terminal(columns, *args, cwd):
    """Everything that the command writes to a terminal of that width."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    p = subprocess.Popen([GRADWIRE, *args], stdin=slave, stdout=slave, stderr=slave, cwd=cwd)
    os.close(slave)
    out = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        out += part
    os.close(master)
    check(p.wait(timeout=60) == 0, f"{args}: exit {p.returncode}: {out[-300:]!r}")
    return out.decode(errors="replace")


def shown(text):
    """What is drawn at once: lines, and each state of one that is replaced."""
    return [re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", part) for part in re.split(r"[\r\n]+", text)]


def redrawn(text):
    """The states of the line that is replaced."""
    return re.findall(r"\r([^\r\n\x1b]+)\x1b\[K", text)


def progress_fits(tmp):
    args = ["train", "--model", "fnn3", "--data", "synthetic:train=40000,test=50,dim=400,classes=4",
            "--workers", "2", "--batch", "8", "--steps", "90", "--sync", "local:2", "--force", "--out", "run"]
    for columns in (100, 60, 40, 20):
        text = on_terminal(columns, *args, cwd=tmp)
        lines = redrawn(text)
        check(len(lines) > 0, f"{columns} columns: no progress")
        longest = max(lines, key=len, default="")
        check(len(longest) < columns, f"{columns} columns: {longest!r}")
        check(all(re.match(r"step \d+/90", line) for line in lines), f"{columns} columns: {lines[:3]}")
        check(columns < 100 or all("left" in line and "samples/s" in line for line in lines), f"{lines[:3]}")
    text = on_terminal(60, *args, cwd=tmp)
    rows = shown(text)
    rows = rows[next(i for i, r in enumerate(rows) if r.startswith("model ")):]
    wide = [r for r in rows if len(r) > 60]
    check(not wide, f"60 columns: {wide}")
    check(any(r.startswith(" " * 11) and "decode" in r for r in rows), f"rows do not go on below: {rows}")


def tables_fit(tmp):
    args = ["compare", "--model", "softmax", "--data", "synthetic:train=400,test=50,dim=20,classes=4",
            "--workers", "2", "--batch", "8", "--epochs", "1", "--sync", "dense local:4 topk:0.1,warmup=0+momentum:0.9",
            "--out", "all"]
    narrow = on_terminal(60, *args, "--target", "0.1", cwd=tmp)
    wide = on_terminal(140, *args, "--target", "0.1", cwd=tmp)
    piped = subprocess.run([GRADWIRE, *args, "--target", "0.1"], cwd=tmp, capture_output=True, text=True)
    check(piped.stdout.splitlines()[1] in wide.replace("\r", ""), "a pipe has another table than a wide terminal")
    table = [r for r in shown(narrow) if r]
    first = next(i for i, r in enumerate(table) if r.startswith("no link"))
    last = next(i for i, r in enumerate(table) if "a tie" in r)
    long = [r for r in table[first:last + 1] if len(r) > 60]
    check(not long, f"60 columns: {long}")
    for method in ("dense", "local:4", "topk:0.1,warmup=0+momentum:0.9"):
        check(any(r.startswith((f"  {method}", f"* {method}")) for r in table), f"no {method}: {table}")
    figures = [r for r in table[first:last] if " ms" in r]
    check(len(figures) == 3 and len({r.index(" ms") for r in figures}) == 1, f"columns: {figures}")


def texts_fit(tmp):
    """Lists and descriptions have every letter of what a pipe gets, in lines that fit."""
    for args in (["list"], ["list", "gtopk"], ["help", "local:16+gtopk:0.01+q:4"], ["data", "list"], ["train", "--help"],
                 ["bench", "--help"]):
        piped = subprocess.run([GRADWIRE, *args], cwd=tmp, capture_output=True, text=True).stdout
        for columns in (60, 45):
            text = on_terminal(columns, *args, cwd=tmp)
            check("".join(text.split()) == "".join(piped.split()), f"{args} at {columns} columns: other words")
            prose = "--help" in args  # the sentences of a help text are left to the terminal
            long = [r for r in shown(text) if len(r) > columns and not (prose and not r.startswith("  --"))]
            check(not long, f"{args} at {columns} columns: {long[:3]}")


def figures_fit(tmp):
    """Tables of figures keep their columns below each other."""
    for args in (["convex", "--sync", "oneshot:average=polyak local:1,average=polyak", "--gradients", "200"],
                 ["bench", "recipes", "--n", "1000", "--filter", "top-k"],
                 ["plan", "--params", "2k", "--workers", "2", "--link", "1gbit,50us", "--compute", "10ms",
                  "--sync", "dense topk:0.01 local:8"]):
        rows = shown(on_terminal(60, *args, cwd=tmp))
        long = [r for r in rows if len(r) > 60]
        check(not long, f"{args}: {long[:3]}")
        wide = shown(on_terminal(200, *args, cwd=tmp))
        heads = [r for r in wide if re.match(r"(  )?(sync|recipes) ", r)]
        check(len(heads) == 1 and all(any(t in r.split() for r in rows) for t in heads[0].split()), f"{args}: {heads}, {rows[:9]}")
    args = ["plan", "--params", "2k", "--workers", "2", "--compute", "10ms", "--sync", "local:8 diloco:30,fragments=4,delay=5"]
    piped = subprocess.run([GRADWIRE, *args], cwd=tmp, capture_output=True, text=True).stdout
    steps = {r.find(" ms ") for r in piped.splitlines() if re.match(r"[ *] (dense|local|diloco)", r)}
    check(len(steps) == 1, f"a long spec moves its row: {piped}")
    ends = {len(r) for r in rows if r.endswith("x") or r.endswith("of dense")}
    check(len(ends) <= 2, f"figures are not below their titles: {rows}")


with tempfile.TemporaryDirectory() as folder:
    texts_fit(folder)
    figures_fit(folder)
    progress_fits(folder)
    tables_fit(folder)
print(f"{len(failures)} failures")
sys.exit(1 if failures else 0)
