/* SPDX-License-Identifier: Apache-2.0
 *
 * support_values.h - floats that kernels have trouble with, from a seed that can
 * be given again. */
#ifndef GW_SUPPORT_VALUES_H
#define GW_SUPPORT_VALUES_H

#include <stddef.h>
#include <stdint.h>

typedef enum values_kind {
    VALUES_PLAIN,   /* of about normal size, none special */
    VALUES_HEAVY,   /* many small, few large, as gradients are */
    VALUES_EQUAL,   /* all of one magnitude, signs at random */
    VALUES_FEW,     /* a handful of different magnitudes: ties everywhere */
    VALUES_ZERO,    /* 0 and -0 */
    VALUES_TINY,    /* denormals and 0 */
    VALUES_RISING,  /* ever larger magnitudes */
    VALUES_FALLING, /* ever smaller ones */
    VALUES_HOSTILE, /* NaN, infinities, -0, denormals, largest, and plain ones */
    VALUES_KINDS
} values_kind;

/* Prints the seed, from GW_TEST_SEED if that is set, and begins anew with it. */
void values_seed(void);

/* The next random number, and one below limit, which is not 0. */
uint64_t values_random(void);
size_t values_below(size_t limit);

void values_fill(float *x, size_t n, values_kind kind);

/* The bits of x, all NaN being one. */
uint32_t values_bits(float x);

/* The first i with different values_bits, n if there is none. */
size_t values_differ(const float *x, const float *y, size_t n);

#endif
