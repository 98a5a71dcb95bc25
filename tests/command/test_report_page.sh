#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The page of `gradwire report` in headless Chromium: with one run, four methods, a grid of
# sixteen runs, thirty with seeds, and thirty methods of two thousand points each. What it
# says is computed again from the runs' files. Pictures stay in page-shots of the build.
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
cp "$GRADWIRE_SOURCE"/tests/page/{package.json,package-lock.json,.npmrc,check_axes.mjs,check_page.mjs,check_verdict.mjs} "$tools"
(cd "$tools" && npm ci --no-audit --no-fund --ignore-scripts >npm.log 2>&1) || skip "npm got no playwright-core"
node "$tools/check_axes.mjs" "$GRADWIRE_BUILD/report/src"
for runs in 1 4 16 30 many; do
    "$GRADWIRE" report "$work/$runs" -o "$work/$runs.html"
    /usr/bin/python3 "$GRADWIRE_SOURCE/tests/page/recompute.py" "$work/$runs" >"$work/$runs.json"
    node "$tools/check_page.mjs" "$browser" "$work/$runs.html" "$work/$runs.json" "$runs" "$shots"
done
