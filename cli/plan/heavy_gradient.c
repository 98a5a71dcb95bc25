/* SPDX-License-Identifier: Apache-2.0
 *
 * heavy_gradient.c - made-up gradients. */
#include "plan/heavy_gradient.h"

#include <math.h>

enum { BLOCK = 4096, SEED = 1 };

/* What a random number is for. */
enum { VALUE = 0, TAIL = 1, SCALE = 2 };

/* A bell curve from 64 random bits: the sum of four uniform numbers, which is
 * within 3.5 standard deviations. */
static float bell(uint64_t bits)
{
    float sum = 0.0f;

    for (int i = 0; i < 4; i++)
        sum += (float)(int)((bits >> (16 * i)) & 0xffff);
    return (sum - 131070.0f) / 37837.0f;
}

/* The product of a bell curve and an exponential: most entries are small, a few are
 * ten times the standard deviation. */
static float heavy(uint64_t i)
{
    uint64_t bits = gwt_random(SEED, GWT_STREAM_MADE_UP, VALUE, i);
    uint64_t tail = gwt_random(SEED, GWT_STREAM_MADE_UP, TAIL, i);
    float uniform = (float)(int)(1 + (tail >> 40)) * 0x1p-24f;

    return -logf(uniform) * bell(bits);
}

void gwc_heavy_gradient(float *g, size_t n)
{
    for (size_t begin = 0; begin < n; begin += BLOCK) {
        /* The scale is between 1/8 and 8, and its logarithm is uniform. */
        uint64_t bits =
            gwt_random(SEED, GWT_STREAM_MADE_UP, SCALE, begin % GWC_HEAVY_PERIOD);
        float spread = (float)(int)(bits >> 40) * 0x1p-24f;
        float scale = exp2f(6.0f * spread - 3.0f);
        size_t end = n - begin < BLOCK ? n : begin + BLOCK;
        for (size_t i = begin; i < end; i++)
            g[i] = scale * heavy(i);
    }
}
