/* SPDX-License-Identifier: Apache-2.0
 *
 * smooth.h - exp, the logistic function and tanh for loops over many floats.
 *
 * Plain C without a call or a branch (see gwt_pick()), so that loops of GWT_VECTOR
 * functions become vector code, and without contraction, so that every machine computes
 * the same bits, which no two versions of libm promise. Within 3e-7 of the true value,
 * relative, where that is a normal float. NaN stays NaN.
 *
 * The coefficients are fitted here: weighted least squares repeated until the
 * largest relative error of the polynomial (3e-9) is the same all along. */
#ifndef GWT_SMOOTH_H
#define GWT_SMOOTH_H

#include <stdint.h>
#include <string.h>

#define GWT_INLINE static inline __attribute__((always_inline))

GWT_INLINE int32_t gwt_bits(float x)
{
    int32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

GWT_INLINE float gwt_float(int32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* yes where mask is -1, no where it is 0. Written with bits: gcc joins several ?: that
 * look at the same value into branches, and then leaves the whole loop scalar. */
GWT_INLINE float gwt_pick(int32_t mask, float yes, float no)
{
    return gwt_float((gwt_bits(yes) & mask) | (gwt_bits(no) & ~mask));
}

/* 2^n for whole n in -126..127, in a float that holds n. */
GWT_INLINE float gwt_power_of_two(float n)
{
    return gwt_float(((int32_t)n + 127) * (1 << 23));
}

/* e^x: x = n ln 2 + r with |r| <= ln 2 / 2, and a polynomial for e^r. Below -87,
 * where floats lose digits, it is 0; above 88 it stays at e^88. */
GWT_INLINE float gwt_exp(float x)
{
    const float magic = 0x1.8p23f; /* adding it rounds to a whole number */
    const float ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f;

    int32_t low = -(x < -87.0f);
    float c = gwt_pick(low, -87.0f, x);
    c = gwt_pick(-(c > 88.0f), 88.0f, c);
    float n = (c * 1.44269504f + magic) - magic;
    float r = (c - n * ln2_high) - n * ln2_low;
    float q = 0.008368882f + r * 0.0013950478f;
    q = 0.041666206f + r * q;
    q = 0.1666652f + r * q;
    q = 0.5f + r * q;
    /* A NaN has no whole number of its own, so its n is replaced before it is
     * converted; r remains NaN. */
    n = gwt_pick(-(n == n), n, 0.0f);
    float y = (1.0f + (r + r * r * q)) * gwt_power_of_two(n);
    return gwt_pick(low, 0.0f, y);
}

/* 1 / (1 + e^-x). */
GWT_INLINE float gwt_sigmoid(float x)
{
    return 1.0f / (1.0f + gwt_exp(-x));
}

/* A polynomial near 0, where 1 - 2 / (e^2x + 1) would cancel; x's sign comes last. */
GWT_INLINE float gwt_tanh(float x)
{
    int32_t sign = -(x < 0.0f) & INT32_MIN;
    float size = gwt_float(gwt_bits(x) & INT32_MAX), u = x * x;
    float far = 1.0f - 2.0f / (gwt_exp(2.0f * size) + 1.0f);
    float q = 0.020805383f + u * -0.0059058657f;
    q = -0.053786684f + u * q;
    q = 0.13331959f + u * q;
    q = -0.333333f + u * q;
    float near = size + size * (u * q);
    return gwt_float(gwt_bits(gwt_pick(-(size < 0.6f), near, far)) | sign);
}

#endif
