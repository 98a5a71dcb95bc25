/* SPDX-License-Identifier: Apache-2.0
 *
 * vector_avx512.c - the plain vector kernels for AVX-512. The last, partial
 * vector is loaded and stored under a mask, so there are no scalar tails. */
#include "kernels/vector.h"

#if defined(__x86_64__) || defined(GWI_EMULATE_AVX512)

#include "kernels/float_bits.h"
#include "kernels/x86/simd512.h"

#include <string.h>

/* The lanes of the vector that begins at i which lie below n. */
static inline __mmask16 lanes_below(size_t i, size_t n)
{
    return (__mmask16)(n - i >= 16 ? 0xffffu : (1u << (n - i)) - 1);
}

/* Whole vectors go without a mask, even one of all lanes: on Zen 5 a pass that loads
 * and stores under masks takes 2.5 times as long, and so does one that reads soon after
 * what was stored. */
GWI_AVX512 static void add_avx512(float *y, const float *x, size_t n)
{
    size_t i = 0;

    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(y + i,
                         _mm512_add_ps(_mm512_loadu_ps(y + i), _mm512_loadu_ps(x + i)));
    if (i < n) {
        __mmask16 m = lanes_below(i, n);
        __m512 v = _mm512_maskz_loadu_ps(m, x + i);
        v = _mm512_add_ps(_mm512_maskz_loadu_ps(m, y + i), v);
        _mm512_mask_storeu_ps(y + i, m, v);
    }
}

GWI_AVX512 static void scale_avx512(float *y, float a, size_t n)
{
    const __m512 va = _mm512_set1_ps(a);
    size_t i = 0;

    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(y + i, _mm512_mul_ps(_mm512_loadu_ps(y + i), va));
    if (i < n) {
        __mmask16 m = lanes_below(i, n);
        __m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(m, y + i), va);
        _mm512_mask_storeu_ps(y + i, m, v);
    }
}

GWI_AVX512 static void divide_avx512(float *y, float a, size_t n)
{
    const __m512 va = _mm512_set1_ps(a);
    size_t i = 0;

    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(y + i, _mm512_div_ps(_mm512_loadu_ps(y + i), va));
    if (i < n) {
        __mmask16 m = lanes_below(i, n);
        __m512 v = _mm512_div_ps(_mm512_maskz_loadu_ps(m, y + i), va);
        _mm512_mask_storeu_ps(y + i, m, v);
    }
}

GWI_AVX512 static void axpy_avx512(float *y, float a, const float *x, size_t n)
{
    const __m512 va = _mm512_set1_ps(a);
    size_t i = 0;

    for (; i + 16 <= n; i += 16) {
        __m512 ax = _mm512_mul_ps(va, _mm512_loadu_ps(x + i));
        _mm512_storeu_ps(y + i, _mm512_add_ps(_mm512_loadu_ps(y + i), ax));
    }
    if (i < n) {
        __mmask16 m = lanes_below(i, n);
        __m512 ax = _mm512_mul_ps(va, _mm512_maskz_loadu_ps(m, x + i));
        _mm512_mask_storeu_ps(y + i, m,
                              _mm512_add_ps(_mm512_maskz_loadu_ps(m, y + i), ax));
    }
}

GWI_AVX512 static void subtract_avx512(float *d, const float *x, const float *z,
                                       size_t n)
{
    size_t i = 0;

    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(d + i,
                         _mm512_sub_ps(_mm512_loadu_ps(x + i), _mm512_loadu_ps(z + i)));
    if (i < n) {
        __mmask16 m = lanes_below(i, n);
        __m512 v = _mm512_maskz_loadu_ps(m, z + i);
        v = _mm512_sub_ps(_mm512_maskz_loadu_ps(m, x + i), v);
        _mm512_mask_storeu_ps(d + i, m, v);
    }
}

/* Adds the squares of eight floats to eight lanes. */
GWI_AVX512 static inline __m512d add_squares(__m512d lanes, const float *x)
{
    __m512d v = _mm512_cvtps_pd(_mm256_loadu_ps(x));

    return _mm512_add_pd(lanes, _mm512_mul_pd(v, v));
}

GWI_AVX512 static double sumsq_avx512(const float *x, size_t n)
{
    __m512d low = _mm512_setzero_pd(), high = low;
    double lane[8];
    float last[16] = {0}; /* +0 past the end changes no sum of squares */
    size_t i = 0;

    for (; i + 16 <= n; i += 16) {
        low = add_squares(low, x + i);
        high = add_squares(high, x + i + 8);
    }
    if (i < n) {
        memcpy(last, x + i, (n - i) * sizeof *x);
        low = add_squares(low, last);
        high = add_squares(high, last + 8);
    }
    _mm512_storeu_pd(lane, _mm512_add_pd(low, high));
    for (int half = 4; half > 0; half /= 2)
        for (int j = 0; j < half; j++)
            lane[j] += lane[j + half];
    return lane[0];
}

/* The bits of 16 floats without their signs. */
GWI_AVX512 static inline __m512i magnitudes(const float *x)
{
    return _mm512_and_si512(_mm512_loadu_si512(x), _mm512_set1_epi32(0x7fffffff));
}

/* The same of those below n, and 0 past it. */
GWI_AVX512 static inline __m512i last_magnitudes(const float *x, size_t i, size_t n)
{
    return _mm512_and_si512(_mm512_maskz_loadu_epi32(lanes_below(i, n), x + i),
                            _mm512_set1_epi32(0x7fffffff));
}

/* The largest magnitudes of 64 floats, lane by lane. */
GWI_AVX512 static inline __m512i max_of_64(const float *x)
{
    __m512i a = _mm512_max_epi32(magnitudes(x), magnitudes(x + 16));
    __m512i b = _mm512_max_epi32(magnitudes(x + 32), magnitudes(x + 48));

    return _mm512_max_epi32(a, b);
}

GWI_AVX512 static float absmax_avx512(const float *x, size_t n)
{
    __m512i best = _mm512_setzero_si512();
    size_t i = 0;

    for (; i + 64 <= n; i += 64)
        best = _mm512_max_epi32(best, max_of_64(x + i));
    for (; i < n; i += 16)
        best = _mm512_max_epi32(best, last_magnitudes(x, i, n));
    return gwi_bits_magnitude(_mm512_reduce_max_epi32(best));
}

GWI_AVX512 static size_t first_nonfinite_avx512(const float *x, size_t n)
{
    const __m512i finite = _mm512_set1_epi32(0x7f7fffff);
    size_t i = 0;

    while (i + 64 <= n &&
           gwi_mask_bits(_mm512_cmpgt_epi32_mask(max_of_64(x + i), finite)) == 0)
        i += 64;
    for (; i < n; i += 16) {
        unsigned bad =
            gwi_mask_bits(_mm512_cmpgt_epi32_mask(last_magnitudes(x, i, n), finite));
        if (bad != 0)
            return i + (size_t)__builtin_ctz(bad);
    }
    return n;
}

void gwi_vector_avx512(gwi_vector_kernels *k)
{
    k->isa = "avx512";
    k->add = add_avx512;
    k->scale = scale_avx512;
    k->divide = divide_avx512;
    k->axpy = axpy_avx512;
    k->subtract = subtract_avx512;
    k->sumsq = sumsq_avx512;
    k->absmax = absmax_avx512;
    k->first_nonfinite = first_nonfinite_avx512;
}

#else

typedef int gwi_vector_avx512_is_for_x86_64;

#endif
