/* SPDX-License-Identifier: Apache-2.0
 *
 * dots.h - products of two vectors with each other and themselves. */
#ifndef GWI_DOTS_H
#define GWI_DOTS_H

#include <stddef.h>

typedef struct gwi_dots {
    double ab, aa, bb;
} gwi_dots;

/* EXACT: products in double at i are added to lane i % 16, and the lanes are added in
 * halves: l and l + 8, then l and l + 4, and so on. */
gwi_dots gwi_dots_of(const float *a, const float *b, size_t n);

/* a = x a + y b, each product rounded to a float. EXACT, and the same for (b, y, a, x).
 */
void gwi_add_multiples(float *a, float x, const float *b, float y, size_t n);

#endif
