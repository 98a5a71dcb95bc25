# SPDX-License-Identifier: Apache-2.0
"""cluster_page.py - writes docs/results-cluster.md from the table."""
import os

from support.page import made_by, table, wrapped
from cluster_table import (EXCHANGE_SYNCS, LATENCY, MODELS, PARAMS, POINTS, ROOT, SIMULATED_SYNCS, TRAIN_RATES,
                           TRAIN_SYNCS)

PAGE = os.path.join(ROOT, "docs", "results-cluster.md")
UNITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
SHOWN = {"1gbit": "1 Gbit/s", "250mbit": "250 Mbit/s", "100mbit": "100 Mbit/s"}
NAMES = {"fnn3": "FNN-3 (199,210 parameters)", "mlp": "MLP 784-2048-2048-2048-10 (10,020,874 parameters)"}


def bits(rate):
    return float(rate[:-4]) * UNITS[rate[-4:]]


def dense_bound(hosts, rate):
    """Seconds that the bytes of an all-reduce take at least."""
    return 2 * (hosts - 1) / hosts * PARAMS * 4 * 8 / bits(rate)


def ms(seconds):
    return f"{1e3 * seconds:,.1f}" if isinstance(seconds, float) else "-"


def judged(value, target, form="{:.2f}"):
    """A figure beside its target."""
    return f"{form.format(value)} (at most {form.format(target)}: {'met' if value <= target else 'MISSED'})"


def exchange_part(rows):
    lines = []
    for hosts, rate in POINTS:
        for sync in EXCHANGE_SYNCS:
            row = rows.best("exchange", hosts, rate, PARAMS, sync)
            if row is None:
                continue
            bound = dense_bound(hosts, rate) if sync.startswith("dense") else row["bytes_per_step"] * 8 / bits(rate)
            lines.append([str(hosts), SHOWN[rate], f"`{sync}`" if "native" not in sync else "MPI_Allreduce",
                          ms(row["step_s"]), ms(row["encode_s"]), ms(row["wait_s"]), ms(row["decode_s"]),
                          f"{row['bytes_per_step']:,.0f}", ms(bound), f"{row['step_s'] / bound:.2f}"])
    return table(["hosts", "wire", "method", "ms", "encode", "messages", "decode", "bytes sent",
                  "least ms", "ratio"], lines)


def exchange_judged(rows):
    dense = rows.best("exchange", 4, "1gbit", PARAMS, "dense")
    gtopk = rows.best("exchange", 4, "1gbit", PARAMS, "gtopk:0.001")
    said = []
    if dense:
        said.append("- The ratio of `dense` on 4 hosts at 1 Gbit/s to the bandwidth bound of 480 ms is " +
                    judged(dense["step_s"] / dense_bound(4, "1gbit"), 1.15))
    if gtopk:
        said.append("- There, `gtopk:0.001` takes from encode to decode, in ms, " + judged(1e3 * gtopk["step_s"], 30, "{:.1f}") +
                    "; the messages take " + judged(1e3 * gtopk["wait_s"], 5, "{:.1f}"))
    return "\n".join(said) + "\n"


def bytes_part(rows):
    lines = []
    for sync in ("dense", "gtopk:0.001"):
        row = rows.best("bytes", 4, "1gbit", PARAMS, sync)
        if row:
            ours = row["bytes_per_step"]
            lines.append([f"`{sync}`", f"{ours:,.0f}", f"{row['interface_bytes']:,.0f}",
                          f"{100 * (row['interface_bytes'] / ours - 1):+.2f} %", f"{row['wire_bytes']:,.0f}",
                          f"{100 * (row['wire_bytes'] / ours - 1):+.2f} %", f"{row['dropped']:.0f}"])
    return table(["method", "counted by gradwire", "by the interfaces", "more", "on the wire", "more",
                  "packets dropped"], lines)


def train_part(rows):
    parts = []
    for model in MODELS:
        lines = []
        for sync in TRAIN_SYNCS:
            cells = [f"`{sync}`"]
            for rate in TRAIN_RATES:
                row, none = (rows.best("train", 4, rate, model, s) for s in (sync, "none"))
                cells += [ms(row["step_s"]), f"{row['step_s'] / none['step_s']:.2f}", ms(row["encode_s"]),
                          ms(row["wait_s"]), ms(row["decode_s"])] if row and none else ["-"] * 5
            lines.append(cells)
        head = ["method"] + [h for rate in TRAIN_RATES for h in
                           (f"{SHOWN[rate]}, ms", "ratio", "encode", "messages", "decode")]
        parts.append(f"### {NAMES[model]}\n\n{table(head, lines)}")
    return "\n".join(parts)


def train_judged(rows):
    said = []
    for rate, sync, target in (("1gbit", "gtopk:0.001", 1.5), ("100mbit", "gtopk:0.001+q:4", 1.8)):
        row, none = (rows.best("train", 4, rate, "mlp", s) for s in (sync, "none"))
        if row and none:
            said.append(f"- MLP, `{sync}`, {SHOWN[rate]}: the ratio to a step without exchange is " +
                        judged(row["step_s"] / none["step_s"], target))
    return "\n".join(said) + "\n"


def shared(sim, hosts):
    """A simulated step on hosts that share cores: coding, which all do at the same time, takes
    as many times as long as there are hosts to a core."""
    coding = sim["encode_s"] + sim["decode_s"]
    return sim["step_s"] + coding * max(0.0, hosts / os.cpu_count() - 1)


def simulated_part(rows):
    lines = []
    for hosts, rate in POINTS:
        for sync in SIMULATED_SYNCS:
            real = rows.best("exchange", hosts, rate, PARAMS, sync)
            sim = rows.best("simulated", hosts, rate, PARAMS, sync)
            if real and sim:
                ratio = shared(sim, hosts) / real["mean_s"]
                lines.append([str(hosts), SHOWN[rate], f"`{sync}`", ms(sim["step_s"]), ms(shared(sim, hosts)),
                              ms(real["mean_s"]), f"{ratio:.2f}" + ("" if 1 / 1.2 <= ratio <= 1.2 else " (off)")])
    return table(["hosts", "wire", "method", "simulated, ms", "with shared cores", "cluster, ms (mean)", "ratio"], lines)


def write(rows):
    kernels, isas = (", ".join(sorted({r[k] for r in rows.rows if r[k]})) for k in ("kernel", "isa"))
    turns = max(int(r["turn"]) for r in rows.rows)
    page = f"""# Results: a cluster with slow wires

{made_by("reproduce/cluster.py", rows.rows)} The kernel was Linux {kernels} with {isas}; the best of {turns} turns counts. All
hosts are namespaces of one machine with shaped wires ([test-cluster.md](test-cluster.md)), so they share its cores: with
four hosts on two cores, computing takes twice as long as on four machines, and the work of TCP comes in addition. Times
are milliseconds per step.

## Exchange

These rows exchange ten million floats of artificial gradients over MPI. *ms* is the step of the slowest rank in the
fastest turn; *encode*, *messages*, *decode* and *bytes sent* are means of rank 0. *Least ms* is the time of the bytes at
the wire's rate: for `dense` the bytes of an all-reduce, 2 (P-1)/P n floats; for the others what rank 0 sent.
*MPI_Allreduce* is Open MPI's own, with its default settings.

{exchange_part(rows)}
{exchange_judged(rows)}
## Bytes

These are bytes per host and step with 4 hosts at 1 Gbit/s. The interfaces also count MPI's headers and rendezvous, TCP's
headers and acknowledgements, and the barriers between steps. *On the wire* includes a header for each piece of 9000
bytes that leaves the host.

{bytes_part(rows)}
## Training

Four hosts train with batches of 32 per rank, one thread, artificial data of Fashion-MNIST's shape and plain SGD. *Ratio*
is the step divided by the step of `none`.

{train_part(rows)}
{train_judged(rows)}
## Simulated and real

`gradwire simulate --link RATE,{LATENCY} --fold off` simulated the same points, with the cost of coding as measured on one
core (folded memory would stay in its cache). Every simulated host has its own core; here the hosts share {os.cpu_count()}. So in
the second column the time of coding is multiplied by the number of hosts per core. This column is compared with the
cluster, mean with mean (target: within 20 %). TCP's work is not simulated and adds time on the cluster; where eight
hosts send at 1 Gbit/s it uses all of the cores.

{simulated_part(rows)}"""
    with open(PAGE, "w") as f:
        f.write(wrapped(page))
    return PAGE
