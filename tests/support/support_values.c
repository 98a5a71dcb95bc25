/* SPDX-License-Identifier: Apache-2.0
 *
 * support_values.c - floats that kernels have trouble with. */
#include "support_values.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t state;

void values_seed(void)
{
    const char *text = getenv("GW_TEST_SEED");

    if (text == NULL)
        text = getenv("GW_DEFAULT_SEED");
    state = text ? strtoull(text, NULL, 0) : (uint64_t)time(NULL);
    printf("GW_TEST_SEED=%llu\n", (unsigned long long)state);
}

/* SplitMix64: any seed will do, 0 too. */
uint64_t values_random(void)
{
    uint64_t z = state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

size_t values_below(size_t limit)
{
    return (size_t)(values_random() % limit);
}

static float from_bits(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

static float unit(void)
{
    return (float)(values_random() >> 40) * (1.0f / 16777216.0f);
}

static float hostile(void)
{
    static const uint32_t special[] = {0x7fc00000, 0xffc00000, 0x7f800000, 0xff800000,
                                       0x80000000, 0x00000000, 0x00000001, 0x807fffff,
                                       0x7f7fffff, 0xff7fffff, 0x3f800000, 0x7fc12345};
    size_t i = values_below(2 * sizeof special / sizeof *special);

    return i < sizeof special / sizeof *special ? from_bits(special[i]) : unit();
}

static float magnitude(size_t i, size_t n, values_kind kind)
{
    switch (kind) {
    case VALUES_HEAVY:
        return expf(4.0f * (unit() + unit() + unit()) - 12.0f);
    case VALUES_EQUAL:
        return 0.25f;
    case VALUES_FEW:
        return (float)values_below(4) * 0.5f;
    case VALUES_ZERO:
        return 0.0f;
    case VALUES_TINY:
        return from_bits((uint32_t)values_below(5));
    case VALUES_RISING:
        return (float)(i + 1);
    case VALUES_FALLING:
        return (float)(n - i);
    case VALUES_HOSTILE:
        return hostile();
    default:
        return unit();
    }
}

void values_fill(float *x, size_t n, values_kind kind)
{
    for (size_t i = 0; i < n; i++) {
        float m = magnitude(i, n, kind);
        x[i] = values_random() & 1 ? m : -m;
    }
}

uint32_t values_bits(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return (bits & 0x7fffffff) > 0x7f800000 ? 0x7fc00000 : bits;
}

size_t values_differ(const float *x, const float *y, size_t n)
{
    size_t i = 0;

    while (i < n && values_bits(x[i]) == values_bits(y[i]))
        i++;
    return i;
}
