# SPDX-License-Identifier: Apache-2.0
"""cluster_table.py - what is measured on the cluster, and the table of what was."""
import os
import platform

from support.store import ROOT, append, read, stamp

TABLE = os.path.join(ROOT, "results", "cluster.csv")

PARAMS = 10_000_000
POINTS = [(4, "1gbit"), (4, "250mbit"), (8, "1gbit"), (8, "250mbit")]  # hosts, rate
EXCHANGE_SYNCS = ["dense", "dense native", "topk:0.001", "gtopk:0.001"]
SIMULATED_SYNCS = ["dense", "topk:0.001", "gtopk:0.001"]
LATENCY = "50us"  # of a simulated message: TCP, MPI and a rank that wakes up
BYTES_STEPS = {"dense": (2, 8), "gtopk:0.001": (2, 52)}
MODELS = ["fnn3", "mlp"]
TRAIN_RATES = ["1gbit", "100mbit"]
TRAIN_SYNCS = ["none", "dense", "topk:0.001", "gtopk:0.001", "gtopk:0.001+q:4"]

KEY = ["kind", "hosts", "rate", "what", "sync", "turn"]
FIELDS = KEY + ["step_s", "mean_s", "compute_s", "encode_s", "wait_s", "decode_s", "bytes_per_step",
                "interface_bytes", "wire_bytes", "dropped", "isa", "kernel", "version", "date", "machine"]
NUMBERS = FIELDS[len(KEY):FIELDS.index("isa")]


class Rows:
    """The rows there are; new ones are written at once."""

    def __init__(self, version=""):
        """version: of what is going to be measured."""
        self.version = version
        self.rows = read(TABLE)

    def has(self, *key):
        return any(tuple(r[k] for k in KEY) == tuple(map(str, key)) for r in self.rows)

    def add(self, *key, **values):
        row = dict.fromkeys(FIELDS, "")
        row.update(zip(KEY, map(str, key)))
        row.update({k: f"{v:.9g}" if isinstance(v, float) else str(v) for k, v in values.items()})
        row.update(kernel=platform.release().split("-")[0], version=self.version, **stamp())
        append(TABLE, FIELDS, row)
        self.rows.append(row)

    def best(self, kind, hosts, rate, what, sync):
        """The turn with the shortest step; numbers as floats. None if there is none."""
        mine = [r for r in self.rows if tuple(r[k] for k in KEY[:5]) ==
                (kind, str(hosts), rate, str(what), sync)]
        if not mine:
            return None
        row = min(mine, key=lambda r: float(r["step_s"] or 0))
        return {k: float(v) if k in NUMBERS and v != "" else v for k, v in row.items()}
