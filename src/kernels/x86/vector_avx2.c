/* SPDX-License-Identifier: Apache-2.0
 *
 * vector_avx2.c - the plain vector kernels for AVX2. Built with the ordinary
 * flags: the attribute on each function, not the command line, is what allows
 * AVX2 here. */
#include "kernels/vector.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include "kernels/float_bits.h"

#define AVX2 __attribute__((target("avx2")))

AVX2 static void add_avx2(float *y, const float *x, size_t n)
{
    size_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i,
                         _mm256_add_ps(_mm256_loadu_ps(y + i), _mm256_loadu_ps(x + i)));
    for (; i < n; i++)
        y[i] += x[i];
}

AVX2 static void scale_avx2(float *y, float a, size_t n)
{
    const __m256 va = _mm256_set1_ps(a);
    size_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i, _mm256_mul_ps(_mm256_loadu_ps(y + i), va));
    for (; i < n; i++)
        y[i] *= a;
}

AVX2 static void divide_avx2(float *y, float a, size_t n)
{
    const __m256 va = _mm256_set1_ps(a);
    size_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i, _mm256_div_ps(_mm256_loadu_ps(y + i), va));
    for (; i < n; i++)
        y[i] /= a;
}

AVX2 static void axpy_avx2(float *y, float a, const float *x, size_t n)
{
    const __m256 va = _mm256_set1_ps(a);
    size_t i = 0;

    for (; i + 8 <= n; i += 8) {
        __m256 ax = _mm256_mul_ps(va, _mm256_loadu_ps(x + i));
        _mm256_storeu_ps(y + i, _mm256_add_ps(_mm256_loadu_ps(y + i), ax));
    }
    for (; i < n; i++)
        y[i] += a * x[i];
}

AVX2 static void subtract_avx2(float *d, const float *x, const float *z, size_t n)
{
    size_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(d + i,
                         _mm256_sub_ps(_mm256_loadu_ps(x + i), _mm256_loadu_ps(z + i)));
    for (; i < n; i++)
        d[i] = x[i] - z[i];
}

/* Adds the squares of four floats to four lanes. */
AVX2 static __m256d add_squares(__m256d lanes, const float *x)
{
    __m256d v = _mm256_cvtps_pd(_mm_loadu_ps(x));

    return _mm256_add_pd(lanes, _mm256_mul_pd(v, v));
}

AVX2 static double sumsq_avx2(const float *x, size_t n)
{
    __m256d v0 = _mm256_setzero_pd(), v1 = v0, v2 = v0, v3 = v0;
    double lane[16];
    size_t i = 0;

    for (; i + 16 <= n; i += 16) {
        v0 = add_squares(v0, x + i);
        v1 = add_squares(v1, x + i + 4);
        v2 = add_squares(v2, x + i + 8);
        v3 = add_squares(v3, x + i + 12);
    }
    _mm256_storeu_pd(lane, v0);
    _mm256_storeu_pd(lane + 4, v1);
    _mm256_storeu_pd(lane + 8, v2);
    _mm256_storeu_pd(lane + 12, v3);
    for (; i < n; i++)
        lane[i % 16] += (double)x[i] * (double)x[i];
    for (int half = 8; half > 0; half /= 2)
        for (int j = 0; j < half; j++)
            lane[j] += lane[j + half];
    return lane[0];
}

AVX2 static __m256i magnitudes(const float *x)
{
    return _mm256_and_si256(_mm256_loadu_si256((const __m256i *)(const void *)x),
                            _mm256_set1_epi32(0x7fffffff));
}

AVX2 static float absmax_avx2(const float *x, size_t n)
{
    __m256i best0 = _mm256_setzero_si256(), best1 = best0;
    int32_t lane[8], best = 0;
    size_t i = 0;

    for (; i + 16 <= n; i += 16) {
        best0 = _mm256_max_epi32(best0, magnitudes(x + i));
        best1 = _mm256_max_epi32(best1, magnitudes(x + i + 8));
    }
    best0 = _mm256_max_epi32(best0, best1);
    _mm256_storeu_si256((__m256i *)(void *)lane, best0);
    for (int j = 0; j < 8; j++)
        best = lane[j] > best ? lane[j] : best;
    for (; i < n; i++)
        best = gwi_magnitude_bits(x[i]) > best ? gwi_magnitude_bits(x[i]) : best;
    return gwi_bits_magnitude(best);
}

AVX2 static size_t first_nonfinite_avx2(const float *x, size_t n)
{
    const __m256i finite = _mm256_set1_epi32(0x7f7fffff);
    size_t i = 0;

    for (; i + 32 <= n; i += 32) {
        __m256i m01 = _mm256_max_epi32(magnitudes(x + i), magnitudes(x + i + 8));
        __m256i m23 = _mm256_max_epi32(magnitudes(x + i + 16), magnitudes(x + i + 24));
        __m256i bad = _mm256_cmpgt_epi32(_mm256_max_epi32(m01, m23), finite);
        if (!_mm256_testz_si256(bad, bad))
            break;
    }
    while (i < n && gwi_magnitude_bits(x[i]) < 0x7f800000)
        i++;
    return i;
}

void gwi_vector_avx2(gwi_vector_kernels *k)
{
    k->isa = "avx2";
    k->add = add_avx2;
    k->scale = scale_avx2;
    k->divide = divide_avx2;
    k->axpy = axpy_avx2;
    k->subtract = subtract_avx2;
    k->sumsq = sumsq_avx2;
    k->absmax = absmax_avx2;
    k->first_nonfinite = first_nonfinite_avx2;
}

#else

typedef int gwi_vector_avx2_is_for_x86_64;

#endif
