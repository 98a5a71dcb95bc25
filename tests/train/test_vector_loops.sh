#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Loops with exp in them are vector code also for CPUs without AVX-512. gcc once left
# them scalar there, which no result shows: only the instructions do.
set -euo pipefail
: "${GRADWIRE:?}"

fail() {
    echo "test_vector_loops: $*" >&2
    exit 1
}

command -v objdump >/dev/null || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
objdump -d --no-show-raw-insn "$GRADWIRE" >"$work/code"
# Only gcc makes a copy for each instruction set (GWT_VECTOR), and no sanitizer has any.
grep -q '^[0-9a-f]* <step_forward\.avx2' "$work/code" || exit 77

# An exp has ten multiplications.
for loop in exponentials sum_exponentials step_forward softmax; do
    found=$(awk "/<$loop\\.avx2(\\.[0-9]+)?>:/,/^\$/" "$work/code" |
        grep -c 'vmulps.*%ymm' || true)
    [ "$found" -ge 10 ] ||
        fail "$loop for AVX2 has $found multiplications of vectors; expected 10 or more"
done
