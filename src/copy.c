/* SPDX-License-Identifier: Apache-2.0
 *
 * copy.c - copies into memory that is read on another core. */
#include "copy.h"

#include <stdint.h>
#include <string.h>

#include "base.h"

/* The thread sanitizer does not see stores past the caches. */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#include <emmintrin.h>

enum { LINE = 64 };

/* Shorter copies are too short to be measured by the clock, and stay in the cache. */
enum { SHORT = 8192 };

/* One copy in so many goes the other way, to see what that costs. */
enum { LOOK_EVERY = 64 };

/* Past the caches if that is so many times as fast: 3.6 times where cores share a
 * cache, 13 times where they do not, and 7 if half of the readers are on the same core.
 */
#define MUCH_FASTER 5.0

enum { THROUGH, PAST };

static void store_line(uint8_t *to, const uint8_t *from)
{
    for (int i = 0; i < LINE; i += 16)
        _mm_stream_si128((__m128i *)(void *)(to + i),
                         _mm_loadu_si128((const __m128i *)(const void *)(from + i)));
}

static void copy_past(uint8_t *to, const uint8_t *from, size_t len)
{
    size_t at = -(uintptr_t)to % LINE;

    memcpy(to, from, at);
    for (; at + LINE <= len; at += LINE)
        store_line(to + at, from + at);
    memcpy(to + at, from + at, len - at);
    _mm_sfence(); /* stores past the caches are in no order otherwise */
}

static int way_of(gwi_copier *k)
{
    int better = k->cost[PAST] * MUCH_FASTER < k->cost[THROUGH] ? PAST : THROUGH;

    if (k->copies < 2)
        return (int)k->copies;
    return k->copies % LOOK_EVERY == 0 ? !better : better;
}

/* A mean of late, in which a copy during which the core did something else counts for
 * little. */
static void learn(double *cost, double found)
{
    double most = *cost * 4;

    if (*cost > 0)
        found = *cost + ((found < most ? found : most) - *cost) / 8;
    *cost = found;
}

void gwi_copy_over(gwi_copier *k, void *to, const void *from, size_t len)
{
    double begin;
    int way;

    if (len < SHORT) {
        memcpy(to, from, len);
        return;
    }
    way = way_of(k);
    begin = gwi_now();
    if (way == PAST)
        copy_past(to, from, len);
    else
        memcpy(to, from, len);
    learn(&k->cost[way], (gwi_now() - begin) / (double)len);
    k->copies++;
}

#else

void gwi_copy_over(gwi_copier *k, void *to, const void *from, size_t len)
{
    (void)k;
    memcpy(to, from, len);
}

#endif
