/* SPDX-License-Identifier: Apache-2.0
 *
 * means.c - the definition of the kernels for means and signs, their choice, and
 * the walk over the stripes of a vector. */
#include "kernels/means.h"

#include <assert.h>
#include <math.h>

#include "kernels/cpu.h"
#include "kernels/pool.h"

enum { LANES = 16, STRIPES = 64, STRIPE_MIN = 4096 };

/* ---- one stripe, in C ------------------------------------------------------ */

/* Adds up the lanes and leaves them changed. */
static double fold(double *lane)
{
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

static void two_sums_c(const float *v, size_t n, gwi_two_sums *out)
{
    double plus[LANES] = {0}, minus[LANES] = {0};
    uint64_t below = 0;

    for (size_t j = 0; j < n; j++) {
        plus[j % LANES] += v[j] > 0.0f ? (double)v[j] : 0.0;
        minus[j % LANES] += v[j] < 0.0f ? (double)v[j] : 0.0;
        below += v[j] < 0.0f;
    }
    *out = (gwi_two_sums){fold(plus), fold(minus), n - below, below};
}

static void two_shift_c(float *v, size_t n, float plus, float minus)
{
    for (size_t j = 0; j < n; j++)
        v[j] += v[j] < 0.0f ? minus : plus;
}

static double sign_encode_c(const float *v, size_t n, uint8_t *signs)
{
    double sum[LANES] = {0};

    for (size_t j = 0; j < n; j++) {
        unsigned bit = signbit(v[j]) != 0;
        sum[j % LANES] += (double)fabsf(v[j]);
        signs[j / 8] = (uint8_t)(j % 8 == 0 ? bit : signs[j / 8] | bit << j % 8);
    }
    return fold(sum);
}

static void sign_subtract_c(float *v, size_t n, float mean)
{
    for (size_t j = 0; j < n; j++)
        v[j] -= signbit(v[j]) ? -mean : mean;
}

static float sign_value(const uint8_t *signs, float mean, size_t j)
{
    return signs[j / 8] >> j % 8 & 1 ? -mean : mean;
}

static void sign_decode_c(const uint8_t *signs, float mean, float *out, size_t n)
{
    for (size_t j = 0; j < n; j++)
        out[j] = sign_value(signs, mean, j);
}

static void sign_decode_add_c(const uint8_t *signs, float mean, float *acc, size_t n)
{
    for (size_t j = 0; j < n; j++)
        acc[j] += sign_value(signs, mean, j);
}

/* ---- the choice ------------------------------------------------------------ */

static const gwi_means_kernels reference = {
    .isa = "c",
    .two_sums = two_sums_c,
    .two_shift = two_shift_c,
    .sign_encode = sign_encode_c,
    .sign_subtract = sign_subtract_c,
    .sign_decode = sign_decode_c,
    .sign_decode_add = sign_decode_add_c,
};

void gwi_means_for(unsigned flags, gwi_means_kernels *k)
{
    *k = reference;
#if defined(__x86_64__)
    if (flags & GWI_CPU_AVX2)
        gwi_means_avx2(k);
    if (flags & GWI_CPU_AVX512)
        gwi_means_avx512(k);
#endif
    (void)flags;
}

/* ---- whole vectors --------------------------------------------------------- */

/* One walk over the stripes of a vector. Each operation uses the members it needs
 * and writes only what belongs to its stripe, so that any thread may do any. */
typedef struct walk {
    const gwi_means_kernels *k;
    size_t n, stripe;
    const float *source;
    float *target;
    float plus, minus;
    gwi_two_sums sums[STRIPES];
    /* Does stripe s, which has m entries and begins at entry `at`. */
    void (*each)(struct walk *w, size_t s, size_t at, size_t m);
} walk;

static void walk_stripe(void *arg, size_t s)
{
    walk *w = arg;
    size_t at = s * w->stripe;
    size_t left = w->n - at;

    w->each(w, s, at, left < w->stripe ? left : w->stripe);
}

/* Returns the number of stripes. */
static size_t walk_all(walk *w)
{
    size_t stripes;

    w->k = gwi_means();
    w->stripe = gwi_means_stripe(w->n);
    stripes = w->n / w->stripe + (w->n % w->stripe != 0);
    assert(stripes <= STRIPES);
    gwi_parallel(stripes, walk_stripe, w);
    return stripes;
}

size_t gwi_means_stripe(size_t n)
{
    size_t stripe = (n / STRIPES + 1 + 63) / 64 * 64;

    return stripe < STRIPE_MIN ? STRIPE_MIN : stripe;
}

float gwi_mean_of(double sum, uint64_t count)
{
    return count > 0 ? (float)(sum / (double)count) : 0.0f;
}

static void two_sums_each(walk *w, size_t s, size_t at, size_t m)
{
    w->k->two_sums(w->source + at, m, &w->sums[s]);
}

gwi_two_sums gwi_two_sums_of(const float *v, size_t n)
{
    walk w = {.n = n, .source = v, .each = two_sums_each};
    size_t stripes = walk_all(&w);
    gwi_two_sums total = {0};

    for (size_t s = 0; s < stripes; s++) {
        total.plus += w.sums[s].plus;
        total.minus += w.sums[s].minus;
        total.plus_count += w.sums[s].plus_count;
        total.minus_count += w.sums[s].minus_count;
    }
    return total;
}

static void two_shift_each(walk *w, size_t s, size_t at, size_t m)
{
    (void)s;
    w->k->two_shift(w->target + at, m, w->plus, w->minus);
}

void gwi_two_shift(float *v, size_t n, float plus, float minus)
{
    walk w = {
        .n = n, .target = v, .plus = plus, .minus = minus, .each = two_shift_each};

    walk_all(&w);
}
