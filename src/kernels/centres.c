/* SPDX-License-Identifier: Apache-2.0
 *
 * centres.c - selected values written in one or two bits each. */
#include "kernels/centres.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static unsigned sign_of(float x)
{
    return signbit(x) ? 1u : 0u;
}

/* The bucket of a value: 0 or 1, always 0 when there is only one. */
static unsigned bucket_of(const gwi_centres *c, float x)
{
    return c->bits == 2 && fabsf(x) - c->threshold >= c->width;
}

/* The number of the bin: 2 + (x - middle) / bin, rounded half to even and kept within 0
 * to 3. NaN has the first. */
static unsigned bin_of(const gwi_centres *c, float x)
{
    double at = ((double)x - c->middle) / c->bin + 2;

    return (unsigned)(at > 0.5) + (unsigned)(at >= 1.5) + (unsigned)(at > 2.5);
}

static unsigned code_of(const gwi_centres *c, float x)
{
    return c->four ? bin_of(c, x) : sign_of(x) | bucket_of(c, x) << 1;
}

static float value_of(const gwi_centres *c, unsigned code)
{
    if (c->four)
        return c->centre[code];
    float centre = c->centre[code >> 1];

    return code & 1 ? -centre : centre;
}

/* The code at position i; bits divide 8, so none lies across two bytes. */
static unsigned code_at(const uint8_t *codes, unsigned bits, size_t i)
{
    size_t per_byte = 8 / bits;
    unsigned shift = (unsigned)(i % per_byte) * bits;

    return (unsigned)codes[i / per_byte] >> shift & ((1u << bits) - 1);
}

static void put_code(uint8_t *codes, unsigned bits, size_t i, unsigned code)
{
    size_t per_byte = 8 / bits;
    unsigned shift = (unsigned)(i % per_byte) * bits;

    codes[i / per_byte] |= (uint8_t)(code << shift);
}

size_t gwi_centres_len(unsigned bits, size_t k)
{
    size_t per_byte = 8 / bits;

    return k / per_byte + (k % per_byte != 0);
}

/* Replaces the lower ends of the buckets by the means of what is in them, of every
 * step-th value. Without a branch: nobody could predict it, and 0 added to a sum
 * changes nothing. */
static void take_means(gwi_centres *c, const float *v, size_t k, size_t step)
{
    double sum[2] = {0};
    size_t count[2] = {0};

    for (size_t i = 0; i < k; i += step) {
        double size = (double)fabsf(v[i]);
        size_t upper = bucket_of(c, v[i]);
        sum[1] += upper ? size : 0;
        sum[0] += upper ? 0 : size;
        count[1] += upper;
        count[0] += 1 - upper;
    }
    for (unsigned b = 0; b < 2; b++)
        if (count[b] > 0)
            c->centre[b] = (float)(sum[b] / (double)count[b]);
}

/* Rounds of Lloyd's algorithm, and the values that they look at: with these the error
 * of heavy-tailed values is within a per cent of the least. */
enum { ROUNDS = 8, LOOKED_AT = 4096 };

/* Moves the border of the buckets to the middle between their means until it stays. It
 * begins at the mean of all magnitudes, which has values on both sides. */
static void take_best(gwi_centres *c, const float *v, size_t k)
{
    size_t step = k / LOOKED_AT > 1 ? k / LOOKED_AT : 1;
    gwi_centres all = {.bits = 1};

    take_means(&all, v, k, step);
    c->threshold = 0;
    c->width = c->centre[0] = c->centre[1] = all.centre[0];
    for (int round = 0; round < ROUNDS; round++) {
        take_means(c, v, k, step);
        float middle = 0.5f * c->centre[0] + 0.5f * c->centre[1];
        if (middle == c->width)
            break;
        c->width = middle;
    }
    take_means(c, v, k, 1);
}

/* The four bins of Hivemind's quantizer: 6 standard deviations are as wide as all bins
 * together. Values that are all equal have bins of width 1. */
enum { BINS = 4, DEVIATIONS = 6 };

static void take_bin_width(gwi_centres *c, const float *v, size_t k)
{
    double sum = 0, squares = 0;

    for (size_t i = 0; i < k; i++)
        sum += (double)v[i];
    c->middle = k > 0 ? sum / (double)k : 0;
    for (size_t i = 0; i < k; i++) {
        double off = (double)v[i] - c->middle;
        squares += off * off;
    }
    c->bin = k > 1 ? DEVIATIONS * sqrt(squares / (double)(k - 1)) / BINS : 0;
    if (!(c->bin > 0 && isfinite(c->bin)))
        c->bin = 1;
}

/* A bin without values has the mean of all, as in their code. */
static void take_four(gwi_centres *c, const float *v, size_t k)
{
    double sum[BINS] = {0};
    size_t count[BINS] = {0};

    take_bin_width(c, v, k);
    for (size_t i = 0; i < k; i++) {
        unsigned bin = bin_of(c, v[i]);
        sum[bin] += (double)v[i];
        count[bin]++;
    }
    for (unsigned b = 0; b < BINS; b++)
        c->centre[b] = (float)(count[b] > 0 ? sum[b] / (double)count[b] : c->middle);
}

gwi_centres gwi_centres_fit(gwi_centre_kind kind, const float *v, size_t k,
                            float threshold, float largest)
{
    float width = 0.5f * (largest - threshold);
    gwi_centres c = {
        .bits = kind == GWI_CENTRE_ONE_THRESHOLD || kind == GWI_CENTRE_ONE_MEAN ? 1 : 2,
        .four = kind == GWI_CENTRE_FOUR_BINS,
        .centre = {threshold, threshold + width},
        .threshold = threshold,
        .width = width,
    };

    if (kind == GWI_CENTRE_ONE_MEAN || kind == GWI_CENTRE_TWO_MEAN)
        take_means(&c, v, k, 1);
    if (kind == GWI_CENTRE_TWO_BEST)
        take_best(&c, v, k);
    if (kind == GWI_CENTRE_FOUR_BINS)
        take_four(&c, v, k);
    return c;
}

void gwi_centres_encode(const gwi_centres *c, const float *v, size_t k, uint8_t *codes)
{
    assert(c->bits == 1 || c->bits == 2);
    memset(codes, 0, gwi_centres_len(c->bits, k));
    for (size_t i = 0; i < k; i++)
        put_code(codes, c->bits, i, code_of(c, v[i]));
}

void gwi_centres_subtract(const gwi_centres *c, float *v, size_t k)
{
    for (size_t i = 0; i < k; i++)
        v[i] -= value_of(c, code_of(c, v[i]));
}

void gwi_centres_decode(const gwi_centres *c, const uint8_t *codes, size_t k,
                        float *out)
{
    assert(c->bits == 1 || c->bits == 2);
    for (size_t i = 0; i < k; i++)
        out[i] = value_of(c, code_at(codes, c->bits, i));
}

/* ---- one centre per column -------------------------------------------------- */

static uint32_t column_of(const gwi_columns *c, uint32_t index)
{
    return (index - c->first) % c->cols;
}

size_t gwi_columns_map(const gwi_columns *c, const uint32_t *index, size_t k,
                       uint32_t *slot)
{
    uint32_t present = 0;

    assert(c->cols >= 1 && c->cols < UINT32_MAX);
    memset(slot, 0xFF, c->cols * sizeof *slot);
    for (size_t i = 0; i < k; i++)
        slot[column_of(c, index[i])] = 0;
    for (uint32_t j = 0; j < c->cols; j++)
        if (slot[j] == 0)
            slot[j] = present++;
    return present;
}

void gwi_columns_fit(const gwi_columns *c, const float *v, const uint32_t *index,
                     size_t k, const uint32_t *slot, gwi_column_sum *sums,
                     size_t present, float *means)
{
    for (size_t s = 0; s < present; s++)
        sums[s] = (gwi_column_sum){0};
    for (size_t i = 0; i < k; i++) {
        gwi_column_sum *s = &sums[slot[column_of(c, index[i])]];
        s->sum += (double)fabsf(v[i]);
        s->count++;
    }
    for (size_t s = 0; s < present; s++)
        means[s] = (float)(sums[s].sum / (double)sums[s].count);
}

void gwi_columns_encode(const float *v, size_t k, uint8_t *codes)
{
    gwi_centres_encode(&(gwi_centres){.bits = 1}, v, k, codes);
}

void gwi_columns_subtract(const gwi_columns *c, float *v, const uint32_t *index,
                          size_t k, const uint32_t *slot, const float *means)
{
    for (size_t i = 0; i < k; i++) {
        float mean = means[slot[column_of(c, index[i])]];
        v[i] -= sign_of(v[i]) ? -mean : mean;
    }
}
