/* SPDX-License-Identifier: Apache-2.0
 *
 * trial_gradients.c - gradients for ranks that do not train.
 *
 * Made-up ones are the product of a bell curve and an exponential, with a scale that
 * differs from block to block: most entries are small, a few very large, as in real
 * models. One vector is enough: every rank and step begins at another place of it, so
 * ranks do not select the same coordinates. A recorded one is used the same way. */
#define _GNU_SOURCE
#include "rank.h"

#include "fold.h"
#include "kernels/random.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 4096, STOCK_LINE = 1, GRAD_LINE, PARAMS_LINE };

static float uniform(uint64_t bits)
{
    return (float)(int)(1 + (bits >> 40)) * 0x1p-24f;
}

static float heavy(uint64_t key, uint64_t i)
{
    uint64_t bits = gwi_random64(key, i);
    float sum = 0.0f;

    for (int part = 0; part < 4; part++)
        sum += (float)(int)((bits >> (16 * part)) & 0xffff);
    return -logf(uniform(gwi_mix64(bits))) * (sum - 131070.0f) / 37837.0f;
}

static void make_up(float *v, size_t n, uint64_t seed)
{
    uint64_t key = gwi_random_key(seed, 0, 0), scales = gwi_random_key(seed, 1, 0);

    for (size_t begin = 0; begin < n; begin += BLOCK) {
        /* From 1/8 to 8 of the middle, evenly in the logarithm. */
        float scale = exp2f(6.0f * uniform(gwi_random64(scales, begin)) - 3.0f);
        size_t end = n - begin < BLOCK ? n : begin + BLOCK;
        for (size_t i = begin; i < end; i++)
            v[i] = 0.01f * scale * heavy(key, i);
    }
}

size_t gws_first_nonfinite(const float *v, size_t n)
{
    size_t i = 0;

    while (i < n && isfinite(v[i]))
        i++;
    return i;
}

/* Reads the first n floats of the file. */
static gw_status read_file(float *v, size_t n, const char *path)
{
    FILE *file = fopen(path, "rb");
    size_t got;

    if (file == NULL)
        return gw_fail(GW_ERR_SYSTEM, "cannot open %s: %s", path, strerror(errno));
    got = fread(v, sizeof *v, n, file);
    fclose(file);
    if (got != n)
        return gw_fail(GW_ERR_DATA, "%s has %zu floats, but the model has %zu", path,
                       got, n);
    size_t bad = gws_first_nonfinite(v, n);
    if (bad < n)
        return gw_fail(GW_ERR_DATA, "%s: float %zu is NaN or infinity", path, bad);
    return GW_OK;
}

/* Where the stock is shared, rank 0 alone fills it; others see it after the barrier
 * that follows. */
static gw_status fill_stock(gws_source *s, const gws_settings *set)
{
    if (set->folded && s->rank != 0)
        return GW_OK;
    if (set->gradients != NULL)
        return read_file(s->stock, s->n, set->gradients);
    make_up(s->stock, s->n, set->seed);
    return GW_OK;
}

gw_status gws_source_init(gws_source *s, const gws_settings *set, int rank)
{
    *s = (gws_source){.n = (size_t)set->params, .rank = rank, .seed = set->seed};
    s->stock = gws_vector_new(s->n, set->folded, STOCK_LINE);
    s->grad = gws_vector_new(s->n, set->folded, GRAD_LINE);
    s->params = gws_vector_new(s->n, set->folded, PARAMS_LINE);
    if (s->stock == NULL || s->grad == NULL || s->params == NULL)
        return GW_ERR_NOMEM;
    return fill_stock(s, set);
}

void gws_source_fini(gws_source *s)
{
    gws_vector_free(s->stock);
    gws_vector_free(s->grad);
    gws_vector_free(s->params);
}

void gws_source_fill(const gws_source *s, float *v, uint64_t step)
{
    uint64_t key = gwi_random_key(s->seed, 2 + step, (uint64_t)s->rank);
    size_t begin = (size_t)(gwi_random64(key, 0) % s->n);

    memcpy(v, s->stock + begin, (s->n - begin) * sizeof *v);
    memcpy(v + (s->n - begin), s->stock, begin * sizeof *v);
}
