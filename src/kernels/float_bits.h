/* SPDX-License-Identifier: Apache-2.0
 *
 * float_bits.h - floats as their bits. */
#ifndef GWI_FLOAT_BITS_H
#define GWI_FLOAT_BITS_H

#include <stdint.h>
#include <string.h>

static inline uint32_t gwi_float_bits(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float gwi_bits_float(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The bits without the sign: ordered as magnitudes are, NaN above infinity. */
static inline int32_t gwi_magnitude_bits(float x)
{
    return (int32_t)(gwi_float_bits(x) & 0x7fffffff);
}

/* The magnitude of such bits, all NaN being the positive quiet one. */
static inline float gwi_bits_magnitude(int32_t bits)
{
    return gwi_bits_float(bits > 0x7f800000 ? 0x7fc00000u : (uint32_t)bits);
}

#endif
