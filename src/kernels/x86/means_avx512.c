/* SPDX-License-Identifier: Apache-2.0
 *
 * means_avx512.c - the kernels for means and signs in AVX-512. */
#include "kernels/means.h"

#if defined(__x86_64__) || defined(GWI_EMULATE_AVX512)

#include "kernels/x86/simd512.h"

#define GWI_TARGET GWI_AVX512

/* Keeps lanes in registers: an addition that is called needs them in memory. */
#define ALWAYS __attribute__((always_inline))

enum { STEP = 16 };

/* The lanes of the first m entries, fewer than 16. */
static __mmask16 first(size_t m)
{
    return (__mmask16)((1u << m) - 1);
}

/* Adds up 16 lanes, halves first, as fold() in means.c does. */
GWI_AVX512 static double fold(__m512d s0, __m512d s1)
{
    __m512d s = _mm512_add_pd(s0, s1);
    __m256d quarter =
        _mm256_add_pd(_mm512_castpd512_pd256(s), _mm512_extractf64x4_pd(s, 1));
    __m128d half =
        _mm_add_pd(_mm256_castpd256_pd128(quarter), _mm256_extractf128_pd(quarter, 1));

    return _mm_cvtsd_f64(_mm_add_sd(half, _mm_unpackhi_pd(half, half)));
}

/* Eight lanes of both sums. maxpd and minpd give their second operand, here 0, when
 * the first is NaN. */
typedef struct pair {
    __m512d plus, minus;
} pair;

GWI_AVX512 static inline pair pair_add(pair p, const float *v)
{
    const __m512d zero = _mm512_setzero_pd();
    __m512d x = _mm512_cvtps_pd(_mm256_loadu_ps(v));

    p.plus = _mm512_add_pd(p.plus, _mm512_max_pd(x, zero));
    p.minus = _mm512_add_pd(p.minus, _mm512_min_pd(x, zero));
    return p;
}

GWI_AVX512 static inline __mmask16 below_zero(__m512 x)
{
    return _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ);
}

typedef struct two_lanes {
    pair p0, p1;
    __m512i count;
} two_lanes;

GWI_AVX512 ALWAYS static inline void two_lanes_add(two_lanes *s, const float *v)
{
    __mmask16 below = below_zero(_mm512_loadu_ps(v));

    s->p0 = pair_add(s->p0, v);
    s->p1 = pair_add(s->p1, v + 8);
    s->count = _mm512_mask_add_epi32(s->count, below, s->count, _mm512_set1_epi32(1));
}

GWI_AVX512 ALWAYS static inline gwi_two_sums two_lanes_sums(const two_lanes *s,
                                                            size_t n)
{
    uint32_t lane[STEP];
    uint64_t below = 0;

    _mm512_storeu_si512((void *)lane, s->count);
    for (int i = 0; i < STEP; i++)
        below += lane[i];
    return (gwi_two_sums){fold(s->p0.plus, s->p1.plus), fold(s->p0.minus, s->p1.minus),
                          n - below, below};
}

GWI_AVX512 static inline __m512 shift_of(__m512 x, __m512 plus, __m512 minus)
{
    return _mm512_add_ps(x, _mm512_mask_blend_ps(below_zero(x), plus, minus));
}

GWI_AVX512 static void two_shift_avx512(float *v, size_t n, float plus, float minus)
{
    const __m512 p = _mm512_set1_ps(plus), m = _mm512_set1_ps(minus);
    size_t j = 0;

    for (; j + STEP <= n; j += STEP)
        _mm512_storeu_ps(v + j, shift_of(_mm512_loadu_ps(v + j), p, m));
    if (j < n) {
        __m512 x = _mm512_maskz_loadu_ps(first(n - j), v + j);
        _mm512_mask_storeu_ps(v + j, first(n - j), shift_of(x, p, m));
    }
}

/* ---- signs ----------------------------------------------------------------- */

/* Adds the magnitudes of eight entries to eight lanes. */
GWI_AVX512 static inline __m512d add_magnitudes(__m512d sum, const float *v)
{
    const __m512d sign = _mm512_set1_pd(-0.0);

    return _mm512_add_pd(sum,
                         _mm512_andnot_pd(sign, _mm512_cvtps_pd(_mm256_loadu_ps(v))));
}

typedef struct lanes {
    __m512d s0, s1;
} lanes;

GWI_AVX512 ALWAYS static inline void lanes_add(lanes *s, const float *v)
{
    s->s0 = add_magnitudes(s->s0, v);
    s->s1 = add_magnitudes(s->s1, v + 8);
}

GWI_AVX512 ALWAYS static inline double lanes_sum(const lanes *s)
{
    return fold(s->s0, s->s1);
}

GWI_AVX512 static inline void put_signs(uint8_t *signs, const float *v, size_t m)
{
    unsigned bits =
        gwi_mask_bits(_mm512_movepi32_mask(_mm512_loadu_si512((const void *)v)));

    signs[0] = (uint8_t)bits;
    if (m > 8)
        signs[1] = (uint8_t)(bits >> 8);
}

GWI_AVX512 static inline __m512 less_mean(__m512 x, __m512 mean)
{
    const __m512 sign = _mm512_set1_ps(-0.0f);

    return _mm512_sub_ps(x, _mm512_xor_ps(mean, _mm512_and_ps(x, sign)));
}

GWI_AVX512 static void sign_subtract_avx512(float *v, size_t n, float mean)
{
    const __m512 m = _mm512_set1_ps(mean);
    size_t j = 0;

    for (; j + STEP <= n; j += STEP)
        _mm512_storeu_ps(v + j, less_mean(_mm512_loadu_ps(v + j), m));
    if (j < n) {
        __m512 x = _mm512_maskz_loadu_ps(first(n - j), v + j);
        _mm512_mask_storeu_ps(v + j, first(n - j), less_mean(x, m));
    }
}

/* The values of the m entries, at most 16, whose signs begin at signs. */
GWI_AVX512 static inline __m512 values_of(__m512 mean, const uint8_t *signs, size_t m)
{
    const __m512 sign = _mm512_set1_ps(-0.0f);
    unsigned bits = m > 8 ? signs[0] | (unsigned)signs[1] << 8 : signs[0];

    return _mm512_mask_blend_ps((__mmask16)bits, mean, _mm512_xor_ps(mean, sign));
}

GWI_AVX512 static void sign_decode_avx512(const uint8_t *signs, float mean, float *out,
                                          size_t n)
{
    const __m512 m = _mm512_set1_ps(mean);
    size_t j = 0;

    for (; j + STEP <= n; j += STEP)
        _mm512_storeu_ps(out + j, values_of(m, signs + j / 8, STEP));
    if (j < n)
        _mm512_mask_storeu_ps(out + j, first(n - j),
                              values_of(m, signs + j / 8, n - j));
}

GWI_AVX512 static void sign_decode_add_avx512(const uint8_t *signs, float mean,
                                              float *acc, size_t n)
{
    const __m512 m = _mm512_set1_ps(mean);
    size_t j = 0;

    for (; j + STEP <= n; j += STEP) {
        __m512 x = values_of(m, signs + j / 8, STEP);
        _mm512_storeu_ps(acc + j, _mm512_add_ps(_mm512_loadu_ps(acc + j), x));
    }
    if (j < n) {
        __m512 x = _mm512_maskz_loadu_ps(first(n - j), acc + j);
        x = _mm512_add_ps(x, values_of(m, signs + j / 8, n - j));
        _mm512_mask_storeu_ps(acc + j, first(n - j), x);
    }
}

#include "kernels/x86/means_loops.h"

void gwi_means_avx512(gwi_means_kernels *k)
{
    k->isa = "avx512";
    k->two_sums = two_sums_loop;
    k->two_shift = two_shift_avx512;
    k->sign_encode = sign_encode_loop;
    k->sign_subtract = sign_subtract_avx512;
    k->sign_decode = sign_decode_avx512;
    k->sign_decode_add = sign_decode_add_avx512;
}

#endif
