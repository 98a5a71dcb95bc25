/* SPDX-License-Identifier: Apache-2.0
 *
 * means_avx2.c - the kernels for means and signs in AVX2. */
#include "kernels/means.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "kernels/ahead.h"

#define AVX2 __attribute__((target("avx2")))

enum { STEP = 16 };

/* The last m floats of a stripe, fewer than a step, followed by zeros, which no sum
 * and no sign notices. */
static const float *pad(float *rest, const float *v, size_t m)
{
    memset(rest, 0, STEP * sizeof *rest);
    return memcpy(rest, v, m * sizeof *v);
}

/* Adds up 16 lanes, halves first, as fold() in means.c does. */
AVX2 static double fold(__m256d s0, __m256d s1, __m256d s2, __m256d s3)
{
    __m256d s = _mm256_add_pd(_mm256_add_pd(s0, s2), _mm256_add_pd(s1, s3));
    __m128d half = _mm_add_pd(_mm256_castpd256_pd128(s), _mm256_extractf128_pd(s, 1));

    return _mm_cvtsd_f64(_mm_add_sd(half, _mm_unpackhi_pd(half, half)));
}

/* Four lanes of both sums. maxpd and minpd give their second operand, here 0, when
 * the first is NaN. */
typedef struct pair {
    __m256d plus, minus;
} pair;

AVX2 static inline pair pair_add(pair p, const float *v)
{
    const __m256d zero = _mm256_setzero_pd();
    __m256d x = _mm256_cvtps_pd(_mm_loadu_ps(v));

    p.plus = _mm256_add_pd(p.plus, _mm256_max_pd(x, zero));
    p.minus = _mm256_add_pd(p.minus, _mm256_min_pd(x, zero));
    return p;
}

/* Counts 8 entries below zero, negatively: a mask is -1. */
AVX2 static inline __m256i count_below(__m256i count, const float *v)
{
    __m256 below = _mm256_cmp_ps(_mm256_loadu_ps(v), _mm256_setzero_ps(), _CMP_LT_OQ);

    return _mm256_add_epi32(count, _mm256_castps_si256(below));
}

/* A stripe has fewer than 2^31 entries per lane of the counter, far more than
 * fit into memory. */
AVX2 static void two_sums_avx2(const float *v, size_t n, gwi_two_sums *out)
{
    pair p0 = {_mm256_setzero_pd(), _mm256_setzero_pd()}, p1 = p0, p2 = p0, p3 = p0;
    __m256i count = _mm256_setzero_si256();
    float rest[STEP];
    int32_t lane[8];
    uint64_t below = 0;

    for (size_t j = 0; j < n; j += STEP, v += STEP) {
        if (n - j < STEP)
            v = pad(rest, v, n - j);
        gwi_fetch_ahead(v);
        p0 = pair_add(p0, v);
        p1 = pair_add(p1, v + 4);
        p2 = pair_add(p2, v + 8);
        p3 = pair_add(p3, v + 12);
        count = count_below(count_below(count, v), v + 8);
    }
    _mm256_storeu_si256((void *)lane, count);
    for (int i = 0; i < 8; i++)
        below += (uint64_t)(-(int64_t)lane[i]);
    *out =
        (gwi_two_sums){fold(p0.plus, p1.plus, p2.plus, p3.plus),
                       fold(p0.minus, p1.minus, p2.minus, p3.minus), n - below, below};
}

AVX2 static inline __m256 shift_of(__m256 x, __m256 plus, __m256 minus)
{
    __m256 below = _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_LT_OQ);

    return _mm256_add_ps(x, _mm256_blendv_ps(plus, minus, below));
}

AVX2 static void two_shift_avx2(float *v, size_t n, float plus, float minus)
{
    const __m256 p = _mm256_set1_ps(plus), m = _mm256_set1_ps(minus);
    size_t j = 0;

    for (; j + 8 <= n; j += 8)
        _mm256_storeu_ps(v + j, shift_of(_mm256_loadu_ps(v + j), p, m));
    for (; j < n; j++)
        v[j] += v[j] < 0.0f ? minus : plus;
}

/* ---- signs ----------------------------------------------------------------- */

/* Adds the magnitudes of four entries to four lanes. */
AVX2 static inline __m256d add_magnitudes(__m256d sum, const float *v)
{
    const __m256d sign = _mm256_set1_pd(-0.0);

    return _mm256_add_pd(sum, _mm256_andnot_pd(sign, _mm256_cvtps_pd(_mm_loadu_ps(v))));
}

AVX2 static double sign_encode_avx2(const float *v, size_t n, uint8_t *signs)
{
    __m256d s0 = _mm256_setzero_pd(), s1 = s0, s2 = s0, s3 = s0;
    float rest[STEP];

    for (size_t j = 0; j < n; j += STEP, v += STEP) {
        if (n - j < STEP)
            v = pad(rest, v, n - j);
        gwi_fetch_ahead(v);
        s0 = add_magnitudes(s0, v);
        s1 = add_magnitudes(s1, v + 4);
        s2 = add_magnitudes(s2, v + 8);
        s3 = add_magnitudes(s3, v + 12);
        signs[j / 8] = (uint8_t)_mm256_movemask_ps(_mm256_loadu_ps(v));
        if (n - j > 8)
            signs[j / 8 + 1] = (uint8_t)_mm256_movemask_ps(_mm256_loadu_ps(v + 8));
    }
    return fold(s0, s1, s2, s3);
}

AVX2 static void sign_subtract_avx2(float *v, size_t n, float mean)
{
    const __m256 sign = _mm256_set1_ps(-0.0f), m = _mm256_set1_ps(mean);
    size_t j = 0;

    for (; j + 8 <= n; j += 8) {
        __m256 x = _mm256_loadu_ps(v + j);
        __m256 sent = _mm256_xor_ps(m, _mm256_and_ps(x, sign));
        _mm256_storeu_ps(v + j, _mm256_sub_ps(x, sent));
    }
    for (; j < n; j++)
        v[j] -= signbit(v[j]) ? -mean : mean;
}

/* The values of 8 entries whose signs are the bits of one byte: each lane moves its
 * bit to the top. */
AVX2 static inline __m256 values_of(__m256 mean, uint8_t signs)
{
    const __m256i up = _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24);
    const __m256i sign = _mm256_set1_epi32(INT32_MIN);
    __m256i bit = _mm256_sllv_epi32(_mm256_set1_epi32(signs), up);

    return _mm256_xor_ps(mean, _mm256_castsi256_ps(_mm256_and_si256(bit, sign)));
}

AVX2 static void sign_decode_avx2(const uint8_t *signs, float mean, float *out,
                                  size_t n)
{
    const __m256 m = _mm256_set1_ps(mean);
    size_t j = 0;

    for (; j + 8 <= n; j += 8)
        _mm256_storeu_ps(out + j, values_of(m, signs[j / 8]));
    for (; j < n; j++)
        out[j] = signs[j / 8] >> j % 8 & 1 ? -mean : mean;
}

AVX2 static void sign_decode_add_avx2(const uint8_t *signs, float mean, float *acc,
                                      size_t n)
{
    const __m256 m = _mm256_set1_ps(mean);
    size_t j = 0;

    for (; j + 8 <= n; j += 8) {
        __m256 x = values_of(m, signs[j / 8]);
        _mm256_storeu_ps(acc + j, _mm256_add_ps(_mm256_loadu_ps(acc + j), x));
    }
    for (; j < n; j++)
        acc[j] += signs[j / 8] >> j % 8 & 1 ? -mean : mean;
}

void gwi_means_avx2(gwi_means_kernels *k)
{
    k->isa = "avx2";
    k->two_sums = two_sums_avx2;
    k->two_shift = two_shift_avx2;
    k->sign_encode = sign_encode_avx2;
    k->sign_subtract = sign_subtract_avx2;
    k->sign_decode = sign_decode_avx2;
    k->sign_decode_add = sign_decode_add_avx2;
}

#endif
