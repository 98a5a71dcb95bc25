/* SPDX-License-Identifier: Apache-2.0
 *
 * vector_neon.c - the plain vector kernels for NEON on 64-bit ARM. */
#include "kernels/vector.h"

#if defined(__aarch64__)

#include <arm_neon.h>

#include "kernels/float_bits.h"

static void add_neon(float *y, const float *x, size_t n)
{
    size_t i = 0;

    for (; i + 4 <= n; i += 4)
        vst1q_f32(y + i, vaddq_f32(vld1q_f32(y + i), vld1q_f32(x + i)));
    for (; i < n; i++)
        y[i] += x[i];
}

static void scale_neon(float *y, float a, size_t n)
{
    size_t i = 0;

    for (; i + 4 <= n; i += 4)
        vst1q_f32(y + i, vmulq_n_f32(vld1q_f32(y + i), a));
    for (; i < n; i++)
        y[i] *= a;
}

static void divide_neon(float *y, float a, size_t n)
{
    const float32x4_t va = vdupq_n_f32(a);
    size_t i = 0;

    for (; i + 4 <= n; i += 4)
        vst1q_f32(y + i, vdivq_f32(vld1q_f32(y + i), va));
    for (; i < n; i++)
        y[i] /= a;
}

static void axpy_neon(float *y, float a, const float *x, size_t n)
{
    size_t i = 0;

    /* Not vmlaq: it may become one fused operation with one rounding. */
    for (; i + 4 <= n; i += 4)
        vst1q_f32(y + i, vaddq_f32(vld1q_f32(y + i), vmulq_n_f32(vld1q_f32(x + i), a)));
    for (; i < n; i++)
        y[i] += a * x[i];
}

static void subtract_neon(float *d, const float *x, const float *z, size_t n)
{
    size_t i = 0;

    for (; i + 4 <= n; i += 4)
        vst1q_f32(d + i, vsubq_f32(vld1q_f32(x + i), vld1q_f32(z + i)));
    for (; i < n; i++)
        d[i] = x[i] - z[i];
}

static double sumsq_neon(const float *x, size_t n)
{
    float64x2_t v[8];
    double lane[16];
    size_t i = 0;

    for (int j = 0; j < 8; j++)
        v[j] = vdupq_n_f64(0.0);
    for (; i + 16 <= n; i += 16)
        for (int j = 0; j < 4; j++) {
            float32x4_t f = vld1q_f32(x + i + 4 * j);
            float64x2_t low = vcvt_f64_f32(vget_low_f32(f)),
                        high = vcvt_high_f64_f32(f);
            v[2 * j] = vaddq_f64(v[2 * j], vmulq_f64(low, low));
            v[2 * j + 1] = vaddq_f64(v[2 * j + 1], vmulq_f64(high, high));
        }
    for (int j = 0; j < 8; j++)
        vst1q_f64(lane + 2 * j, v[j]);
    for (; i < n; i++)
        lane[i % 16] += (double)x[i] * (double)x[i];
    for (int half = 8; half > 0; half /= 2)
        for (int j = 0; j < half; j++)
            lane[j] += lane[j + half];
    return lane[0];
}

static uint32x4_t magnitudes(const float *x)
{
    return vandq_u32(vreinterpretq_u32_f32(vld1q_f32(x)), vdupq_n_u32(0x7fffffff));
}

static float absmax_neon(const float *x, size_t n)
{
    uint32x4_t v = vdupq_n_u32(0);
    int32_t best;
    size_t i = 0;

    for (; i + 4 <= n; i += 4)
        v = vmaxq_u32(v, magnitudes(x + i));
    best = (int32_t)vmaxvq_u32(v);
    for (; i < n; i++)
        best = gwi_magnitude_bits(x[i]) > best ? gwi_magnitude_bits(x[i]) : best;
    return gwi_bits_magnitude(best);
}

static size_t first_nonfinite_neon(const float *x, size_t n)
{
    size_t i = 0;

    for (; i + 16 <= n; i += 16) {
        uint32x4_t a = vmaxq_u32(magnitudes(x + i), magnitudes(x + i + 4));
        uint32x4_t b = vmaxq_u32(magnitudes(x + i + 8), magnitudes(x + i + 12));
        if (vmaxvq_u32(vmaxq_u32(a, b)) >= 0x7f800000)
            break;
    }
    while (i < n && gwi_magnitude_bits(x[i]) < 0x7f800000)
        i++;
    return i;
}

void gwi_vector_neon(gwi_vector_kernels *k)
{
    k->isa = "neon";
    k->add = add_neon;
    k->scale = scale_neon;
    k->divide = divide_neon;
    k->axpy = axpy_neon;
    k->subtract = subtract_neon;
    k->sumsq = sumsq_neon;
    k->absmax = absmax_neon;
    k->first_nonfinite = first_nonfinite_neon;
}

#else

typedef int gwi_vector_neon_is_for_aarch64;

#endif
