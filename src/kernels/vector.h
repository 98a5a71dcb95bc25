/* SPDX-License-Identifier: Apache-2.0
 *
 * vector.h - plain arithmetic on vectors of floats.
 *
 * No kernel needs alignment or padding; none reads or writes outside [0, n).
 * Every kernel here is EXACT: the same bits on every instruction set and for
 * every number of threads, as ranks may differ in hardware and must still agree.
 * The one freedom left is which NaN a NaN result is. */
#ifndef GWI_VECTOR_H
#define GWI_VECTOR_H

#include <stddef.h>
#include <stdint.h>

/* The loops, each on one thread. */
typedef struct gwi_vector_kernels {
    const char *isa; /* "c", "avx2", "avx512" or "neon" */

    void (*add)(float *y, const float *x, size_t n);           /* y += x */
    void (*scale)(float *y, float a, size_t n);                /* y *= a */
    void (*divide)(float *y, float a, size_t n);               /* y /= a, truly */
    void (*axpy)(float *y, float a, const float *x, size_t n); /* y += a * x, no FMA */

    /* d = x - z; d may be x or z. */
    void (*subtract)(float *d, const float *x, const float *z, size_t n);

    /* y[index[i]] += v[i] in the order of i; v[i] = y[index[i]]. */
    void (*scatter_add)(float *y, const uint32_t *index, const float *v, size_t n);
    void (*gather)(float *v, const float *y, const uint32_t *index, size_t n);

    /* The sum of squares in double. The squares are exact; the square of x[i] is
     * added to lane i % 16, and the lanes are added in halves: j and j + 8, then
     * j and j + 4, and so on. */
    double (*sumsq)(const float *x, size_t n);

    /* The largest magnitude: 0 for n = 0, a positive quiet NaN if there is a NaN. */
    float (*absmax)(const float *x, size_t n);

    /* The index of the first NaN or infinity, n if there is none. */
    size_t (*first_nonfinite)(const float *x, size_t n);
} gwi_vector_kernels;

/* The kernels that flags allow, those of this CPU, and the parts of the former;
 * kernels.h has the convention. */
void gwi_vector_for(unsigned flags, gwi_vector_kernels *k);
const gwi_vector_kernels *gwi_vector(void);
void gwi_vector_avx2(gwi_vector_kernels *k);
void gwi_vector_avx512(gwi_vector_kernels *k);
void gwi_vector_neon(gwi_vector_kernels *k);

/* The same on up to gwi_threads() threads when n is large. */
void gwi_add(float *y, const float *x, size_t n);
void gwi_scale(float *y, float a, size_t n);
void gwi_divide(float *y, float a, size_t n);
void gwi_axpy(float *y, float a, const float *x, size_t n);
void gwi_subtract(float *d, const float *x, const float *z, size_t n);
float gwi_absmax(const float *x, size_t n);
size_t gwi_first_nonfinite(const float *x, size_t n);

/* The sum of squares of any number of floats: sumsq of every GWI_SUMSQ_BLOCK
 * floats, added up from the first block to the last. */
enum { GWI_SUMSQ_BLOCK = 1 << 20 };
double gwi_sumsq(const float *x, size_t n);

#endif
