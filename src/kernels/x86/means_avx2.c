/* SPDX-License-Identifier: Apache-2.0
 *
 * means_avx2.c - the kernels for means and signs in AVX2. */
#include "kernels/means.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <math.h>

#define AVX2       __attribute__((target("avx2")))
#define GWI_TARGET AVX2

/* Keeps lanes in registers: an addition that is called needs them in memory. */
#define ALWAYS __attribute__((always_inline))

enum { STEP = 16 };

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

typedef struct two_lanes {
    pair p0, p1, p2, p3;
    __m256i count;
} two_lanes;

AVX2 ALWAYS static inline void two_lanes_add(two_lanes *s, const float *v)
{
    s->p0 = pair_add(s->p0, v);
    s->p1 = pair_add(s->p1, v + 4);
    s->p2 = pair_add(s->p2, v + 8);
    s->p3 = pair_add(s->p3, v + 12);
    s->count = count_below(count_below(s->count, v), v + 8);
}

AVX2 ALWAYS static inline gwi_two_sums two_lanes_sums(const two_lanes *s, size_t n)
{
    int32_t lane[8];
    uint64_t below = 0;

    _mm256_storeu_si256((void *)lane, s->count);
    for (int i = 0; i < 8; i++)
        below += (uint64_t)(-(int64_t)lane[i]);
    return (gwi_two_sums){fold(s->p0.plus, s->p1.plus, s->p2.plus, s->p3.plus),
                          fold(s->p0.minus, s->p1.minus, s->p2.minus, s->p3.minus),
                          n - below, below};
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

typedef struct lanes {
    __m256d s0, s1, s2, s3;
} lanes;

AVX2 ALWAYS static inline void lanes_add(lanes *s, const float *v)
{
    s->s0 = add_magnitudes(s->s0, v);
    s->s1 = add_magnitudes(s->s1, v + 4);
    s->s2 = add_magnitudes(s->s2, v + 8);
    s->s3 = add_magnitudes(s->s3, v + 12);
}

AVX2 ALWAYS static inline double lanes_sum(const lanes *s)
{
    return fold(s->s0, s->s1, s->s2, s->s3);
}

AVX2 static inline void put_signs(uint8_t *signs, const float *v, size_t m)
{
    signs[0] = (uint8_t)_mm256_movemask_ps(_mm256_loadu_ps(v));
    if (m > 8)
        signs[1] = (uint8_t)_mm256_movemask_ps(_mm256_loadu_ps(v + 8));
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

#include "kernels/x86/means_loops.h"

void gwi_means_avx2(gwi_means_kernels *k)
{
    k->isa = "avx2";
    k->two_sums = two_sums_loop;
    k->two_shift = two_shift_avx2;
    k->sign_encode = sign_encode_loop;
    k->sign_subtract = sign_subtract_avx2;
    k->sign_decode = sign_decode_avx2;
    k->sign_decode_add = sign_decode_add_avx2;
}

#endif
