/* SPDX-License-Identifier: Apache-2.0
 *
 * means_loops.h - the two sums over a stripe that AVX2 and AVX-512 share. The file that
 * includes this has defined, all of it for steps of STEP = 16 entries,
 *
 *     GWI_TARGET                   the attribute that allows its intrinsics
 *     two_lanes, two_lanes_add()   both sums in 16 lanes each, and how many are below 0
 *     two_lanes_sums()             what the lanes add up to
 *     lanes, lanes_add()           the sum of magnitudes in 16 lanes
 *     lanes_sum()                  what they add up to
 *     put_signs()                  writes the signs of m entries, of 16 at most
 *
 * Lanes whose bits are all 0 are a sum of nothing. */
#include <string.h>

#include "kernels/ahead.h"

/* The last m floats of a stripe, fewer than a step, followed by zeros, which no sum
 * and no sign notices. */
static const float *pad(float *rest, const float *v, size_t m)
{
    memset(rest, 0, STEP * sizeof *rest);
    return memcpy(rest, v, m * sizeof *v);
}

/* A stripe has fewer than 2^31 entries per lane of the counter, far more than
 * fit into memory. */
GWI_TARGET static void two_sums_loop(const float *v, size_t n, gwi_two_sums *out)
{
    two_lanes s = {0};
    float rest[STEP];

    for (size_t j = 0; j < n; j += STEP, v += STEP) {
        if (n - j < STEP)
            v = pad(rest, v, n - j);
        gwi_fetch_ahead(v);
        two_lanes_add(&s, v);
    }
    *out = two_lanes_sums(&s, n);
}

GWI_TARGET static double sign_encode_loop(const float *v, size_t n, uint8_t *signs)
{
    lanes s = {0};
    float rest[STEP];

    for (size_t j = 0; j < n; j += STEP, v += STEP, signs += STEP / 8) {
        if (n - j < STEP)
            v = pad(rest, v, n - j);
        gwi_fetch_ahead(v);
        lanes_add(&s, v);
        put_signs(signs, v, n - j);
    }
    return lanes_sum(&s);
}
