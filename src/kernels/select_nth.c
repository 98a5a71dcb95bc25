/* SPDX-License-Identifier: Apache-2.0
 *
 * select_nth.c - the k-th largest magnitude. Three ways, by how much is in question:
 * few values are counted above one bound after the other, many go into histograms, and
 * of candidates for a selection, most of which will be chosen, only the lowest are
 * looked at. */
#include "kernels/select.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* The highest digit at which counting down from the top reaches *k, which is
 * reduced by what lies above that digit. */
static uint32_t count_down(const uint32_t *count, uint32_t digit, size_t *k)
{
    for (; count[digit] < *k; digit--)
        *k -= count[digit];
    return digit;
}

/* The largest bound that k keys reach, bit by bit below the highest in which keys
 * differ. Counting few keys thirty times is faster than emptying three histograms. */
static int32_t nth_of_few(const float *value, size_t n, size_t k, size_t *ties)
{
    const gwi_select_kernels *by = gwi_select();
    int32_t keys[GWI_FEW_MAX];
    uint32_t differ = by->keys(keys, value, n);
    int bits = differ == 0 ? 0 : 32 - __builtin_clz(differ);
    int32_t nth = keys[0] >> bits << bits;

    for (int bit = bits - 1; bit >= 0; bit--) {
        int32_t higher = nth | (int32_t)1 << bit;
        if (by->count_from(keys, n, higher) >= k)
            nth = higher;
    }
    *ties = k - by->count_from(keys, n, nth + 1);
    return nth;
}

/* The lowest of many of which so few are in question are gathered. */
enum { FEW = 512 };

/* Copies the values whose keys are at most `most`, as long as there is room. Returns
 * how many they are, or FEW + 1 if they are too many. */
static size_t gather_low(const float *value, size_t n, int32_t most, float *low)
{
    size_t found = 0;

    for (size_t i = 0; i < n; i++) {
        if (found == FEW)
            return FEW + 1;
        low[found] = value[i];
        found += gwi_magnitude_key(value[i]) <= most;
    }
    return found;
}

/* A bound that somewhat more than the m least of n keys are below, from samples: three
 * standard deviations are added to what m asks of them. */
static int32_t low_bound(const float *value, size_t n, size_t m)
{
    enum { SAMPLES = 128 };
    float sample[SAMPLES];
    double share = (double)m / (double)n * SAMPLES;
    size_t rank = (size_t)(share + 3.0 * sqrt(share) + 2.0), ties;

    for (size_t i = 0; i < SAMPLES; i++)
        sample[i] = value[i * n / SAMPLES];
    return nth_of_few(sample, SAMPLES, SAMPLES - (rank < SAMPLES ? rank : SAMPLES - 1),
                      &ties);
}

/* The k-th largest where few are smaller, as among candidates: all that is in question
 * is the lowest part. Returns false if that is not few. */
static bool nth_of_low(const float *value, size_t n, size_t k, int32_t *nth,
                       size_t *ties)
{
    float low[FEW + 1];
    size_t less = n - k, found;

    if (less >= FEW / 2)
        return false;
    found = gather_low(value, n, low_bound(value, n, less + 1), low);
    if (found > FEW || found <= less)
        return false;
    *nth = nth_of_few(low, found, found - less, ties);
    return true;
}

/* One histogram per digit of the key, from the top. What has other digits before
 * goes to one of several bins past the end: a branch would be mispredicted, and a
 * single bin would make each count wait for the one before. */
int32_t gwi_nth_key(const float *value, size_t n, size_t k, size_t *ties)
{
    enum { BINS = 1 << 11, PAST = 8 };
    static const struct {
        int shift, width;
    } digit[] = {{20, 11}, {9, 11}, {0, 9}};
    uint32_t count[BINS + PAST], prefix = 0;
    int32_t nth;

    assert(k >= 1 && k <= n);
    if (n <= gwi_select()->few)
        return nth_of_few(value, n, k, ties);
    if (nth_of_low(value, n, k, &nth, ties))
        return nth;
    for (size_t d = 0; d < sizeof digit / sizeof *digit; d++) {
        const int shift = digit[d].shift, width = digit[d].width;
        const uint32_t last = (1u << width) - 1;
        memset(count, 0, sizeof count);
        for (size_t i = 0; i < n; i++) {
            uint32_t key = (uint32_t)gwi_magnitude_key(value[i]);
            uint32_t bin = key >> shift & last, past = BINS + i % PAST;
            count[key >> shift >> width == prefix ? bin : past]++;
        }
        prefix = prefix << width | count_down(count, last, &k);
    }
    *ties = k;
    return (int32_t)prefix;
}
