/* SPDX-License-Identifier: Apache-2.0
 *
 * dct.h - the cosine transform (DCT-II) of tiles, and its inverse, which is its
 * transpose:
 *
 *     y[b] = s_b sum over j of x[j] cos(pi (2j + 1) b / 2N)
 *     s_0 = sqrt(1 / N), s_b = sqrt(2 / N)
 *
 * Sums of x[j] and x[N-1-j] have all that goes into even b, and differences all that
 * goes into odd b. Even b are a transform of half the length, so that is done again
 * until the length is odd:
 *
 *     N = 12    6 differences -> b = 1, 3, 5, 7, 9, 11
 *               6 sums
 *     M = 6     3 differences -> b = 2, 6, 10
 *               3 sums
 *     M = 3     1 difference  -> b = 4
 *               1 sum, and the one in the middle -> b = 0, 8
 *
 * What is left are products with square matrices. Of M > 16 differences y, M even,
 * there is none: with H = M / 2 and w = pi (2j + 1) / 4M they become
 *
 *     p[j] = cos(w) y[j] + sin(w) y[M-1-j]
 *     q[j] = (-1)^j (cos(w) y[M-1-j] - sin(w) y[j])
 *
 * two vectors of H floats each, whose transforms P and Q, without the factors s, give
 * P[d] + Q[H-d] for number 2d of odd b and P[d] - Q[H-d] for number 2d - 1, with
 * Q[H] = P[H] = 0. In all, 64 floats take 9 multiplications each and not 64.
 *
 * Every kernel here is EXACT. A product begins with its first term and adds the others
 * in their order; matrices have the floats that are nearest to their entries. */
#ifndef GWI_DCT_H
#define GWI_DCT_H

#include <stddef.h>

enum { GWI_DCT_MOST = 64 }; /* the longest transform */

/* Even b of a length, which is halved until it is odd. Matrices have a row for each
 * sum; those of odd b are symmetric. */
typedef struct gwi_dct_chain {
    size_t n;
    float *odd[7];           /* of each length */
    float *even, *even_back; /* of the last length, forward and back */
} gwi_dct_chain;

/* The transform of one length. */
typedef struct gwi_dct_plan {
    size_t n;
    gwi_dct_chain whole, part; /* part: of H floats; its n is 0 where there is none */
    float *cosines, *sines;    /* of p, H of each, and those of q behind them */
} gwi_dct_plan;

/* The floats of memory that one needs, and makes it in them. 1 <= n <= GWI_DCT_MOST. */
size_t gwi_dct_floats(size_t n);
void gwi_dct_init(gwi_dct_plan *dct, size_t n, float *memory);

/* A tile of down->n rows and across->n columns. Rows begin `step` floats after each
 * other. Its coefficients are one column after the other: the one of b down and c
 * across is at c * down->n + b. */
typedef struct gwi_dct_tile {
    const gwi_dct_plan *down, *across;
    size_t step;
} gwi_dct_tile;

typedef struct gwi_dct_kernels {
    const char *isa; /* "c", "avx2" or "avx512" */
    /* Columns are transformed first, and last on the way back. */
    void (*forward)(const gwi_dct_tile *tile, const float *from, float *to);
    void (*back)(const gwi_dct_tile *tile, const float *from, float *to);
} gwi_dct_kernels;

/* The kernels that flags allow, those of this CPU, and the parts of the former;
 * kernels.h has the convention. */
void gwi_dct_for(unsigned flags, gwi_dct_kernels *k);
const gwi_dct_kernels *gwi_dct(void);
void gwi_dct_avx2(gwi_dct_kernels *k);
void gwi_dct_avx512(gwi_dct_kernels *k);

/* A dimension of a matrix, cut into `count` runs whose lengths differ by at most 1. */
typedef struct gwi_dct_cut {
    size_t floats, count;
} gwi_dct_cut;

/* Cuts into runs of at most `most` floats: of the largest length that divides all, if
 * that is more than half of the most, and otherwise into as few as possible. */
gwi_dct_cut gwi_dct_cut_of(size_t floats, size_t most);

static inline size_t gwi_dct_begin(const gwi_dct_cut *cut, size_t i)
{
    return i * cut->floats / cut->count;
}

static inline size_t gwi_dct_run(const gwi_dct_cut *cut, size_t i)
{
    return gwi_dct_begin(cut, i + 1) - gwi_dct_begin(cut, i);
}

/* Rows of a matrix that are cut together: its tiles lie side by side. */
typedef struct gwi_dct_strip {
    const gwi_dct_plan *all; /* by length, from 0 to GWI_DCT_MOST */
    size_t rows;
    gwi_dct_cut across;
} gwi_dct_strip;

/* Transforms all tiles of a strip, on up to gwi_threads() threads; `from` and `to` do
 * not overlap. Coefficients are one tile after the other. */
void gwi_dct_forward(const gwi_dct_strip *strip, const float *from, float *to);
void gwi_dct_back(const gwi_dct_strip *strip, const float *from, float *to);

#endif
