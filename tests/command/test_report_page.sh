#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The page of `gradwire report` in headless Chromium: with one run, four methods, a grid of
# sixteen runs, thirty with seeds, and thirty methods of two thousand points each. What it
# says is computed again from the runs' files, also of real ones. Pictures stay in page-shots of the build.
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

/usr/bin/python3 "$GRADWIRE_SOURCE/tests/page/make_runs.py" "$work"
"$GRADWIRE" report "$work/1" -o "$work/probe.html" 2>"$work/err" ||
    { grep -q "no report page" "$work/err" && skip "this build has no page"; cat "$work/err"; exit 1; }
cp "$GRADWIRE_SOURCE"/tests/page/{package.json,package-lock.json,.npmrc,check_axes.mjs,check_page.mjs,check_verdict.mjs,check_words.mjs} "$tools"
(cd "$tools" && npm ci --no-audit --no-fund --ignore-scripts >npm.log 2>&1) || skip "npm got no playwright-core"
node "$tools/check_axes.mjs" "$GRADWIRE_BUILD/report/src"
node "$tools/check_words.mjs" "$GRADWIRE_BUILD/report/src"
"$GRADWIRE" compare --data synthetic:train=800,test=500,dim=20,classes=4 --model softmax --batch 8 --epochs 6 \
    --workers 2 --sync 'dense topk:0.1 local:4 none' --link '100mbit,100us 1gbit,50us' --eval-every 20 --seeds 2 \
    --quiet --out "$work/real" >"$work/real.log" 2>&1 || { cat "$work/real.log"; exit 1; }
for runs in 1 4 16 30 many real; do
    "$GRADWIRE" report "$work/$runs" -o "$work/$runs.html"
    /usr/bin/python3 "$GRADWIRE_SOURCE/tests/page/recompute.py" "$work/$runs" >"$work/$runs.json"
    node "$tools/check_page.mjs" "$browser" "$work/$runs.html" "$work/$runs.json" "$runs" "$shots"
done
