# SPDX-License-Identifier: Apache-2.0
#
# test_cli_logs.py - --log csv and --log tensorboard hold what metrics.jsonl holds, also
# after a run was resumed. Event files are read here from their description alone.
import csv
import glob
import json
import os
import struct
import subprocess
import sys
import tempfile
import time

GRADWIRE = os.path.abspath(os.environ["GRADWIRE"])
JOB = ["train", "--model", "softmax", "--data", "synthetic:train=400,test=50,dim=20,classes=4",
       "--batch", "8", "--workers", "2", "--spawn", "threads", "--quiet", "--lr-schedule", "constant",
       "--checkpoint-every", "10", "--log-every", "7"]
failures = []


def check(ok, what):
    if not ok:
        failures.append(what)
        print("FAILED:", what)


def run(*args):
    return subprocess.run([GRADWIRE, *args], capture_output=True, timeout=120)


def crc32c(data):
    c = 0xffffffff
    for byte in data:
        c ^= byte
        for _ in range(8):
            c = c >> 1 ^ (0x82f63b78 if c & 1 else 0)
    return c ^ 0xffffffff


def masked(data):
    c = crc32c(data)
    return ((c >> 15 | c << 17) + 0xa282ead8) & 0xffffffff


def records(path):
    with open(path, "rb") as f:
        data = f.read()
    at = 0
    while at < len(data):
        n, = struct.unpack_from("<Q", data, at)
        check(masked(data[at:at + 8]) == struct.unpack_from("<I", data, at + 8)[0], "check of a length")
        yield data[at + 12:at + 12 + n]
        check(masked(data[at + 12:at + 12 + n]) == struct.unpack_from("<I", data, at + 12 + n)[0],
              "check of a record")
        at += 16 + n
    check(at == len(data), f"{path}: {at} is not its end")


def varint(data, at):
    x, shift = 0, 0
    while True:
        x |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            return x, at


def fields(data):
    """The fields of a message: number and value."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 2:
            n, at = varint(data, at)
            value, at = data[at:at + n], at + n
        else:
            size = {1: 8, 5: 4}[kind]
            value, at = struct.unpack_from({1: "<d", 5: "<f"}[kind], data, at)[0], at + size
        yield number, value


def events(path):
    """The file's version, and (time, step, numbers by name) of each event."""
    version, out = None, []
    for data in records(path):
        event = dict(fields(data))
        if 3 in event:
            version = event[3]
        else:
            values = [dict(fields(v)) for _, v in fields(event[5])]
            out.append((event[1], event.get(2, 0), {v[1].decode(): v[2] for v in values}))
    return version, out


def compare_logs(out, what, begin):
    with open(f"{out}/metrics.jsonl") as f:
        lines = [json.loads(line) for line in f]
    with open(f"{out}/metrics.csv") as f:
        table = list(csv.DictReader(f))
    check(len(table) == len(lines) > 3, f"{what}: {len(table)} rows, {len(lines)} lines")
    for row, line in zip(table, lines):
        check(list(row) == list(line), f"{what}: columns {list(row)}")
        for key, value in line.items():
            text = row[key]
            same = text == "" if value is None else text == value if isinstance(value, str) else float(text) == value
            check(same, f"{what}: {key}: {text!r} is not {value!r}")
    files = glob.glob(f"{out}/events.out.tfevents.*.gradwire")
    check(len(files) == 1, f"{what}: event files {files}")
    version, found = events(files[0])
    check(version == b"brain.Event:2", f"{what}: version {version}")
    check([e[1] for e in found] == [line["step"] for line in lines], f"{what}: steps of events")
    for (when, _, values), line in zip(found, lines):
        numbers = {k: v for k, v in line.items() if isinstance(v, (int, float)) and k != "step"}
        check(set(values) == set(numbers), f"{what}: tags {set(values) ^ set(numbers)}")
        check(all(struct.unpack("<f", struct.pack("<f", v))[0] == values.get(k) for k, v in numbers.items()),
              f"{what}: values")
        check(begin - 60 < when < time.time() + 60, f"{what}: an event at {when}")


def main(tmp):
    check(crc32c(b"123456789") == 0xe3069283, "the test's own CRC-32C")
    out, begin = f"{tmp}/run", time.time()
    r = run(*JOB, "--steps", "33", "--log", "csv,tensorboard", "--out", out)
    check(r.returncode == 0, f"a run: {r.stderr!r}")
    compare_logs(out, "a run", begin)
    # A log that was cut off is made anew, and a run goes on with its --log.
    with open(f"{out}/metrics.csv", "a") as f:
        f.write("1,2,")
    r = run("train", "--resume", "--out", out, "--steps", "60", "--quiet")
    check(r.returncode == 0, f"a resumed run: {r.stderr!r}")
    compare_logs(out, "a resumed run", begin)
    r = run(*JOB, "--steps", "10", "--out", out, "--force")
    left = [n for n in os.listdir(out) if "csv" in n or "tfevents" in n]
    check(r.returncode == 0 and not left, f"files of an earlier run: {left}")
    r = run(*JOB, "--log", "cvs", "--out", f"{tmp}/none")
    check(r.returncode == 2 and b"did you mean csv" in r.stderr, f"--log cvs: {r.stderr!r}")
    check(run(*JOB, "--steps", "10", "--log", "csv", "--out", f"{tmp}/one").returncode == 0, "--log csv")
    check(not glob.glob(f"{tmp}/one/*tfevents*"), "events that nobody asked for")


with tempfile.TemporaryDirectory() as folder:
    main(folder)
print(f"{len(failures)} failures")
sys.exit(1 if failures else 0)
