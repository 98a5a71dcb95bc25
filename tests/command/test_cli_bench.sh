#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# gradwire bench: every benchmark runs and every row can be read by a program. What
# the times are is no business of a test.
set -euo pipefail
: "${GRADWIRE:?}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "test_cli_bench: $*" >&2
    exit 1
}

tls=$("$GRADWIRE" bench --help | grep -qw tls && echo tls || true)
"$GRADWIRE" bench kernels wire link exchange train model $tls --quick --json >rows
/usr/bin/python3 - rows $tls <<'PYTHON' || fail "a row is not as it should be"
import json, math, sys

TEXTS = {"group", "name", "of", "isa"}
COUNTS = {"n", "threads"}
REALS = {"density", "bits", "ns", "rate", "limit_ns", "ratio", "ratio_median", "target"}
REST = {"unit", "limit", "met"}
LEAST = {"kernels": 15, "wire": 20, "link": 12, "exchange": 12, "train": 2, "model": 1}
LEAST.update({"tls": 2} if "tls" in sys.argv else {})

def refuse(constant):
    raise ValueError(constant + " is not JSON")

seen = {}
for line in open(sys.argv[1]):
    row = json.loads(line, parse_constant=refuse)
    assert set(row) == TEXTS | COUNTS | REALS | REST, row
    assert all(isinstance(row[k], str) and row[k] for k in TEXTS), row
    assert all(isinstance(row[k], int) and row[k] > 0 for k in COUNTS), row
    assert all(row[k] is None or row[k] > 0 for k in REALS), row
    # A row says a time or a size, and what a ratio is to.
    assert row["ns"] is not None or row["rate"] is not None, row
    assert (row["rate"] is None) == (row["unit"] is None), row
    assert row["ratio"] is None or row["limit"], row
    if row["ns"] and row["limit_ns"]:
        assert math.isclose(row["ratio"], row["ns"] / row["limit_ns"], rel_tol=1e-6), row
    assert row["met"] is None and row["target"] is None, row
    # Whatever runs elsewhere, messages have the length they have.
    if row["name"] == "index size, random positions" and row["density"] >= 0.001:
        assert 1.0 <= row["ratio"] <= 1.03, row
    seen[row["group"]] = seen.get(row["group"], 0) + 1
assert set(seen) == set(LEAST), seen
assert all(seen[g] >= LEAST[g] for g in LEAST), seen
PYTHON

# A table, a filter, names anywhere, another instruction set.
"$GRADWIRE" bench --filter "index size" --quick wire >table
grep -q '^wire ' table || fail "the table has no heading"
grep -q '^index size, random positions ' table || fail "the filter dropped its rows"
! grep -q 'index encode' table || fail "the filter kept other rows"
GW_CPU_OFF=avx512,avx2,neon "$GRADWIRE" bench kernels --quick --json --filter "two means" >rows
grep -q '"isa": "c"' rows || fail "GW_CPU_OFF is not heeded"
! grep -q -v '"isa": "c"' rows || fail "GW_CPU_OFF is not heeded by every row"
"$GRADWIRE" bench kernels --quick --json --filter bf16 --threads 2 >rows
grep -q '"threads": 2' rows || fail "--threads is not heeded"

# A page with a section for each CPU: added the first time, replaced the second.
"$GRADWIRE" bench exchange --quick --json --filter "small message" >>rows
printf '# Kernels\n\nText.\n\n## Another CPU\n\nIts rows.\n' >page
for _ in 1 2; do
    "$GRADWIRE_SOURCE/bench/machine" --page page --name "This CPU" rows
done
[ "$(grep -c '^## This CPU$' page)" -eq 1 ] || fail "a section is not replaced: $(cat page)"
grep -q '^|bf16: encode|100,000|' page || fail "a row is missing: $(cat page)"
grep -q '^|small message, one way, 2 processes|8 B||[0-9.]* [mun]*s||||$' page ||
    fail "a row has no time: $(cat page)"
[ "$(grep -c '^Its rows.$' page)" -eq 1 ] || fail "the section of another CPU is not kept"
GW_CPU_OFF=avx512 "$GRADWIRE_SOURCE/bench/machine" --page page --name "This CPU" rows
[ "$(grep -c '^## This CPU\(, GW_CPU_OFF=avx512\)\?$' page)" -eq 2 ] ||
    fail "what ran without AVX-512 has no section of its own: $(cat page)"

# Workers that encrypt what they send, and workers that do not.
if ! "$GRADWIRE" meet 2>&1 | grep -q "no OpenSSL"; then
    "$GRADWIRE_SOURCE/bench/encryption" --quick --rounds 1 --gradwire "$GRADWIRE" >table
    [ "$(grep -c 'ms encrypted' table)" -eq 2 ] || fail "encryption: $(cat table)"
    # Not every machine lets this one make networks.
    "$GRADWIRE_SOURCE/bench/join_time" --quick --rounds 1 --gradwire "$GRADWIRE" >table 2>error ||
        grep -q "^join_time: \(only root\|ip\|tc\|mount\)\|unshare" error || fail "join_time: $(cat error)"
    [ -s error ] || grep -q 'of 1 rounds' table || fail "join_time: $(cat table)"
fi

# Wrong usage.
code=0
"$GRADWIRE" bench kernel --quick 2>error || code=$?
[ $code -eq 2 ] || fail "a wrong name exits with $code"
grep -q "did you mean kernels" error || fail "a wrong name gets no hint: $(cat error)"
code=0
"$GRADWIRE" bench --n many 2>error || code=$?
[ $code -eq 2 ] || fail "a wrong number exits with $code"
