#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# gradwire convex: what it prints can be read, wrong usage is told in one line, and
# simulated workers end where threads do.
set -euo pipefail
: "${GRADWIRE:?}"

fail() {
    echo "test_cli_convex: $*" >&2
    exit 1
}

# Runs the command, which must end with status 2 and one line that has the word in it.
refused() {
    local word=$1 status=0 said
    shift
    said=$("$GRADWIRE" convex "$@" 2>&1 >/dev/null) || status=$?
    [[ $status == 2 && $said == gradwire:* && $said == *"$word"* && $said != *$'\n'* ]] ||
        fail "$*: status $status, '$said'"
}

refused "did you mean --workers" --wrokers 3
refused "logistic|least-squares" --problem ridge
refused "--dim" --dim 1000
refused "locl" --sync "oneshot locl:4"
refused "the list is empty" --sync " "
refused "cannot be simulated" --sync topk:0.1
refused "cannot be simulated" --sync local:4,start=2
refused "gradient each" --gradients 3 --workers 4

"$GRADWIRE" convex --help | grep -q "Usage: gradwire convex" || fail "no help"
"$GRADWIRE" convex --gradients 100 | grep -q "oneshot:average=polyak" || fail "no table"

both="oneshot:average=polyak local:5,average=polyak"
rows() {
    "$GRADWIRE" convex --json --gradients 2000 --workers 4 --sync "$both" "$@"
}
/usr/bin/python3 - "$(rows)" "$(rows --spawn threads)" <<'PYTHON' || fail "rows differ"
import json, sys

simulated, real = ([json.loads(line) for line in text.splitlines()] for text in sys.argv[1:])
assert [r["rounds"] for r in simulated] == [1, 100], simulated
for a, b in zip(simulated, real, strict=True):
    assert a["sync"] == b["sync"] and a["rounds"] == b["rounds"], (a, b)
    assert 0 < a["excess_risk"] < 1, a
    assert abs(a["excess_risk"] / b["excess_risk"] - 1) < 1e-3, (a, b)
PYTHON
