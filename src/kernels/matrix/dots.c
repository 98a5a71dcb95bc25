/* SPDX-License-Identifier: Apache-2.0
 *
 * dots.c - products of two vectors in C, which all instruction sets share: what they
 * are used for waits for the network. */
#include "kernels/matrix/dots.h"

enum { LANES = 16 };

static double fold(double *lane)
{
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

gwi_dots gwi_dots_of(const float *a, const float *b, size_t n)
{
    double ab[LANES] = {0}, aa[LANES] = {0}, bb[LANES] = {0};

    for (size_t i = 0; i < n; i++) {
        double x = a[i], y = b[i];
        ab[i % LANES] += x * y;
        aa[i % LANES] += x * x;
        bb[i % LANES] += y * y;
    }
    return (gwi_dots){fold(ab), fold(aa), fold(bb)};
}

void gwi_add_multiples(float *a, float x, const float *b, float y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        a[i] = x * a[i] + y * b[i];
}
