/* SPDX-License-Identifier: Apache-2.0
 *
 * bf16.h - floats of 16 bits: the upper half of a float.
 *
 * A number is rounded to the nearest, ties to even; what is beyond the largest
 * bf16, 0x1.FEp127, by half a step or more becomes an infinity, as that rounding has
 * it. A NaN keeps its sign and upper bits and becomes quiet. Each takes two bytes,
 * the low one first.
 *
 * Everything here is EXACT: the same bits on every instruction set and for any
 * number of threads. No pointer needs alignment; nothing outside the arrays is
 * read or written. */
#ifndef GWI_BF16_H
#define GWI_BF16_H

#include <stddef.h>
#include <stdint.h>

/* The loops, each on one thread. `bytes` has 2 * n bytes. */
typedef struct gwi_bf16_kernels {
    const char *isa;

    void (*encode)(const float *v, size_t n, uint8_t *bytes);
    /* The same, and subtracts from v the values that were encoded. */
    void (*encode_subtract)(float *v, size_t n, uint8_t *bytes);
    void (*decode)(const uint8_t *bytes, float *out, size_t n);
    /* acc += value. */
    void (*decode_add)(const uint8_t *bytes, float *acc, size_t n);
} gwi_bf16_kernels;

/* The kernels that flags allow, those of this CPU, and the parts of the former;
 * kernels.h has the convention. */
void gwi_bf16_for(unsigned flags, gwi_bf16_kernels *k);
const gwi_bf16_kernels *gwi_bf16(void);
void gwi_bf16_avx2(gwi_bf16_kernels *k);
void gwi_bf16_avx512(gwi_bf16_kernels *k);

/* One number. */
uint16_t gwi_bf16_of(float x);
float gwi_bf16_value(uint16_t b);

/* Whole vectors, spread over the thread pool when they are long. */
void gwi_bf16_encode(const float *v, size_t n, uint8_t *bytes);
void gwi_bf16_encode_subtract(float *v, size_t n, uint8_t *bytes);
void gwi_bf16_decode(const uint8_t *bytes, float *out, size_t n);
void gwi_bf16_decode_add(const uint8_t *bytes, float *acc, size_t n);

#endif
