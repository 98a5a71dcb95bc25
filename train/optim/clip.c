/* SPDX-License-Identifier: Apache-2.0
 *
 * clip.c - the length of a gradient, and its limit. */
#include "optim/clip.h"

#include <math.h>

enum { LANES = 16, BLOCK = 4096 };

/* LANES sums of floats side by side, which each block hands over to a double: exact
 * enough for vectors of any length, and the same order on every machine. */
GWT_VECTOR static double sum_squares(const float *g, size_t n)
{
    float lane[LANES] = {0};
    double sum = 0.0;
    size_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] += g[i + l] * g[i + l];
    for (size_t l = 0; i < n; i++, l++)
        lane[l] += g[i] * g[i];
    for (size_t l = 0; l < LANES; l++)
        sum += (double)lane[l];
    return sum;
}

GWT_VECTOR static void scale(float *g, size_t n, float factor)
{
    for (size_t i = 0; i < n; i++)
        g[i] *= factor;
}

void gwt_clip(float *g, size_t n, double limit)
{
    double square = 0.0;

    for (size_t i = 0; i < n; i += BLOCK)
        square += sum_squares(g + i, n - i < BLOCK ? n - i : BLOCK);
    if (isfinite(square) && square > limit * limit)
        scale(g, n, (float)(limit / sqrt(square)));
}
