# SPDX-License-Identifier: Apache-2.0
"""Rows that are kept: tables in results/*.csv, and by what, when and where a row was made."""
import csv
import datetime
import os
import platform
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GRADWIRE = os.environ.get("GRADWIRE", os.path.join(ROOT, "build", "gradwire"))


def need(gradwire=GRADWIRE):
    """Ends with one line if the command is not there."""
    if not os.access(gradwire, os.X_OK):
        sys.exit(f"cannot find {gradwire}; run make first")


def version(gradwire=GRADWIRE):
    """A number."""
    return subprocess.run([gradwire, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]


def read(path):
    if not os.path.exists(path):
        return []
    with open(path, newline="") as f:
        return list(csv.DictReader(f))


def append(path, fields, row):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    new = not os.path.exists(path)
    with open(path, "a", newline="") as f:
        writer = csv.DictWriter(f, fields, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(row)


def machine():
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as f:
            model = next(line.split(":", 1)[1].strip() for line in f if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{model}, {os.cpu_count()} cores"


def stamp():
    """When and where a row was made."""
    return {"date": datetime.date.today().isoformat(), "machine": machine()}
