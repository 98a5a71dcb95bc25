#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The page of `gradwire report` in headless Chromium: with one run, with four, with
# thirty of two thousand points each. Pictures stay in page-shots of the build.
set -euo pipefail

skip() {
    echo "skipped: $1"
    exit 77
}

browser=$(command -v chromium || true)
[ -n "$browser" ] || skip "no chromium"
command -v npm >/dev/null || skip "no npm"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
shots=$GRADWIRE_BUILD/page-shots
tools=$GRADWIRE_BUILD/page-test
mkdir -p "$shots" "$tools"

/usr/bin/python3 - "$work" <<'PYTHON'
# Runs as the trainer writes them, but made up: curves that fall, with noise from a
# fixed seed.
import json, os, random, sys

rng = random.Random(7)


def make(folder, name, sync, points, scale):
    os.makedirs(f"{folder}/{name}")
    with open(f"{folder}/{name}/metrics.jsonl", "w") as f:
        for i in range(1, points + 1):
            last = i % (points // 10 or 1) == 0
            f.write(json.dumps({
                "step": 10 * i, "seconds": 0.01 * i * scale, "bytes_sent": int(1000 * i * scale),
                "loss": scale * (2.3 / (1 + 20 * i / points) + 0.1 * rng.random()),
                "test_accuracy": 0.9 - 0.5 / (1 + i) if last else None,
                "residual_norm": 1 + rng.random(), "drift": 0.1 * scale if last else None}) + "\n")
    with open(f"{folder}/{name}/summary.json", "w") as f:
        json.dump({"model": "fnn3", "data": "made-up", "sync": sync, "sync_asked": sync, "workers": 4,
                   "steps": 10 * points, "seed": 1, "batch": 32, "lr": 0.1, "momentum": 0, "link": "1gbit",
                   "compute_s": 1.0, "encode_s": 0.1 * scale, "wait_s": 0.5 * scale, "decode_s": 0.1,
                   "sync_s": 0.6 * scale + 0.1, "wall_s": 3.0, "bytes_sent": 1000 * points,
                   "bits_per_param": 32 / scale, "test_accuracy": 0.9, "test_loss": 0.3, "drift": 0.1,
                   "model_hash": "0123456789abcdef", "stopped": False}, f)


work = sys.argv[1]
make(f"{work}/1", "only", "dense", 50, 1.0)
for i in range(4):
    make(f"{work}/4", f"run-{i}", f"gtopk:0.{i + 1}", 200, 1.0 + i)
for i in range(30):
    make(f"{work}/30", f"run-{i:02}", f"drop:0.{i + 10},threshold=tensor", 2000, 1.0 + 0.3 * i)
PYTHON

"$GRADWIRE" report "$work/1" -o "$work/probe.html" 2>"$work/err" ||
    { grep -q "no report page" "$work/err" && skip "this build has no page"; cat "$work/err"; exit 1; }
cp "$GRADWIRE_SOURCE"/tests/page/{package.json,package-lock.json,.npmrc,check_page.mjs} "$tools"
(cd "$tools" && npm ci --no-audit --no-fund --ignore-scripts >npm.log 2>&1) || skip "npm got no playwright-core"
for runs in 1 4 30; do
    "$GRADWIRE" report "$work/$runs" -o "$work/$runs.html"
    node "$tools/check_page.mjs" "$browser" "$work/$runs.html" "$runs" "$shots"
done
