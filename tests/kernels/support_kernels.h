/* SPDX-License-Identifier: Apache-2.0
 *
 * support_kernels.h - the kernels of every instruction set, and the places in memory
 * where they are tried. */
#ifndef GW_SUPPORT_KERNELS_H
#define GW_SUPPORT_KERNELS_H

#include "kernels/kernels.h"
#include "support_guard.h"
#include "support_values.h"

/* The kernels of the instruction sets that this machine has, C first, and then those
 * of AVX-512 in emulation if there is SIMDe. */
extern gwi_kernels kernels_tested[4];
extern size_t kernels_tested_count;

/* Buffers for what a kernel reads and writes. */
extern guard kernels_floats, kernels_bytes;

/* Fills the tables and begins with a new seed; the buffers get room for that many
 * floats and bytes. Always 0, for cmocka. */
int kernels_setup(size_t floats, size_t bytes);
/* Frees the buffers; kernels and threads are the usual ones again. */
int kernels_teardown(void **unused);

/* Where n entries lie, `offset` entries away from a guard page, and what they are. */
typedef struct kernels_place {
    size_t n;
    guard_side side;
    size_t offset;
    values_kind kind;
} kernels_place;

typedef void kernels_check(const gwi_kernels *k, const kernels_place *p);

/* Calls check with the kernels of every instruction set for all lengths up to 67 and
 * some longer ones up to `most`, at 16 distances from the guard page behind, with all
 * kinds of values, and from the one in front, with hostile values. Emulation is slow,
 * and cares little where things lie: of the distances it gets every emulated_step-th.
 */
void kernels_everywhere(kernels_check *check, size_t most, size_t emulated_step);

/* Fails unless the floats have the same bits, all NaN being one, and nothing was
 * written beside kernels_floats. `what` names the kernel. */
void kernels_same_floats(const char *isa, const char *what, const float *got,
                         const float *want, size_t n);

/* Fails unless the two have the same bits or are both NaN. */
void kernels_same_double(double got, double want);

#endif
