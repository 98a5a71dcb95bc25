/* SPDX-License-Identifier: Apache-2.0
 *
 * lowrank.h - products of a matrix with thin ones, for low-rank approximations.
 *
 * m is a matrix of `rows` rows and `cols` columns, one row after the other. The factors
 * are stored by columns: p has `rank` columns of `rows` floats, q has `rank` columns of
 * `cols` floats, each column one after the other.
 *
 * Every kernel here is EXACT: the same bits on every instruction set and for every
 * number of threads. The order of each sum is below. */
#ifndef GWI_LOWRANK_H
#define GWI_LOWRANK_H

#include <stddef.h>
#include <stdint.h>

typedef struct gwi_lowrank_shape {
    size_t rows, cols, rank;
} gwi_lowrank_shape;

/* The loops, each on one thread, for a part of the matrix. */
typedef struct gwi_lowrank_kernels {
    const char *isa; /* "c", "avx2" or "avx512" */

    /* p = m q for rows [begin, end). The product at column j is added to lane j % 16,
     * and the lanes are added in halves: l and l + 8, then l and l + 4, and so on. */
    void (*project)(const float *m, const float *q, float *p, gwi_lowrank_shape shape,
                    size_t begin, size_t end);

    /* q = m^T p for columns [begin, end), from the first row to the last. */
    void (*project_back)(const float *m, const float *p, float *q,
                         gwi_lowrank_shape shape, size_t begin, size_t end);

    /* out = p q^T for rows [begin, end), from the first column of the factors to the
     * last; then m -= out, unless m is NULL. */
    void (*expand)(const float *p, const float *q, float *out, float *m,
                   gwi_lowrank_shape shape, size_t begin, size_t end);
} gwi_lowrank_kernels;

/* The kernels that flags allow, those of this CPU, and the parts of the former;
 * kernels.h has the convention. */
void gwi_lowrank_for(unsigned flags, gwi_lowrank_kernels *k);
const gwi_lowrank_kernels *gwi_lowrank(void);
void gwi_lowrank_avx2(gwi_lowrank_kernels *k);
void gwi_lowrank_avx512(gwi_lowrank_kernels *k);

/* The same for whole matrices, on up to gwi_threads() threads. */
void gwi_project(const float *m, const float *q, float *p, gwi_lowrank_shape shape);
void gwi_project_back(const float *m, const float *p, float *q,
                      gwi_lowrank_shape shape);
void gwi_expand(const float *p, const float *q, float *out, float *m,
                gwi_lowrank_shape shape);

/* Makes the `rank` columns of n floats at x orthonormal, one after the other
 * (Gram-Schmidt, twice). Sums are made in double from the first float on. A column that
 * depends on those before it becomes 0, or, if key is not NULL, another one is drawn in
 * its place by random bits of *key. */
void gwi_orthonormalize(float *x, size_t n, size_t rank, const uint64_t *key);

#endif
