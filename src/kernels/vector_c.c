/* SPDX-License-Identifier: Apache-2.0
 *
 * vector_c.c - the plain vector kernels in portable C, which define them, and
 * the choice between them and the others. */
#include "kernels/vector.h"

#include "kernels/cpu.h"
#include "kernels/float_bits.h"

static void add_c(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] += x[i];
}

static void scale_c(float *y, float a, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] *= a;
}

static void divide_c(float *y, float a, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] /= a;
}

static void axpy_c(float *y, float a, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] += a * x[i];
}

static void subtract_c(float *d, const float *x, const float *z, size_t n)
{
    for (size_t i = 0; i < n; i++)
        d[i] = x[i] - z[i];
}

/* How far ahead of the loop the scattered floats are asked for: long enough for
 * memory to answer, short enough for the lines to still be there. */
enum { AHEAD = 24 };

static void scatter_add_c(float *y, const uint32_t *index, const float *v, size_t n)
{
    size_t i = 0;

    for (; i + AHEAD < n; i++) {
        __builtin_prefetch(y + index[i + AHEAD], 1);
        y[index[i]] += v[i];
    }
    for (; i < n; i++)
        y[index[i]] += v[i];
}

static void gather_c(float *v, const float *y, const uint32_t *index, size_t n)
{
    for (size_t i = 0; i < n; i++)
        v[i] = y[index[i]];
}

static double sumsq_c(const float *x, size_t n)
{
    double lane[16] = {0};

    for (size_t i = 0; i < n; i++)
        lane[i % 16] += (double)x[i] * (double)x[i];
    for (int half = 8; half > 0; half /= 2)
        for (int j = 0; j < half; j++)
            lane[j] += lane[j + half];
    return lane[0];
}

static float absmax_c(const float *x, size_t n)
{
    int32_t best = 0;

    for (size_t i = 0; i < n; i++) {
        int32_t m = gwi_magnitude_bits(x[i]);
        best = m > best ? m : best;
    }
    return gwi_bits_magnitude(best);
}

static size_t first_nonfinite_c(const float *x, size_t n)
{
    size_t i = 0;

    while (i < n && gwi_magnitude_bits(x[i]) < 0x7f800000)
        i++;
    return i;
}

static const gwi_vector_kernels portable = {
    .isa = "c",
    .add = add_c,
    .scale = scale_c,
    .divide = divide_c,
    .axpy = axpy_c,
    .subtract = subtract_c,
    .scatter_add = scatter_add_c,
    .gather = gather_c,
    .sumsq = sumsq_c,
    .absmax = absmax_c,
    .first_nonfinite = first_nonfinite_c,
};

void gwi_vector_for(unsigned flags, gwi_vector_kernels *k)
{
    *k = portable;
#if defined(__x86_64__)
    if (flags & GWI_CPU_AVX2)
        gwi_vector_avx2(k);
    if (flags & GWI_CPU_AVX512)
        gwi_vector_avx512(k);
#elif defined(__aarch64__)
    if (flags & GWI_CPU_NEON)
        gwi_vector_neon(k);
#endif
    (void)flags;
}
