/* SPDX-License-Identifier: Apache-2.0
 *
 * selector.c - the k largest, or those above a sampled threshold. */
#include "sync/selector.h"

#include <math.h>
#include <string.h>

#include "kernels/vector.h"

/* k = max(1, floor(density n)), as gTop-k has it. */
static size_t entries_for(double density, size_t n)
{
    size_t k = (size_t)(density * (double)n);

    return k < 1 ? 1 : k > n ? n : k;
}

/* A sampled threshold keeps more or fewer than it aims at. Up to four times as many
 * are sent; beyond that entries wait in the residual, so that buffers stay small. */
size_t gwi_selector_most(const gwi_spec *spec, size_t n)
{
    size_t k = entries_for(gwi_schedule_most(spec), n);

    if (spec->which == GWI_WHICH_TOPK)
        return k;
    size_t room = 4 * k + 1024;
    return room < n ? room : n;
}

gw_status gwi_selector_init(gwi_selector *sel, const gw_sync *s)
{
    size_t n = s->layout->floats, most = gwi_selector_most(&s->spec, n);
    bool topk = s->spec.which == GWI_WHICH_TOPK;
    size_t work = topk ? gwi_topk_work_bytes(n, most, gwi_threads()) : 0;
    size_t samples = topk ? 0 : GWI_THRESHOLD_FLOATS(n);

    sel->memory = gwi_calloc(1, work + 63 + most * 8 + samples * sizeof(float));
    if (sel->memory == NULL)
        return gw_fail(GW_ERR_NOMEM, "no memory to select %zu of %zu", most, n);
    work = (work + 63) & ~(size_t)63;
    sel->list.index = (uint32_t *)((uint8_t *)sel->memory + work);
    sel->list.value = (float *)(sel->list.index + most);
    sel->list.cap = most;
    sel->scratch = sel->list.value + most;
    if (topk)
        gwi_topk_work_init(&sel->work, sel->memory, n, most, gwi_threads());
    return GW_OK;
}

void gwi_selector_fini(gwi_selector *sel)
{
    gwi_free(sel->memory);
    sel->memory = NULL;
}

/* ---- momentum correction (Lin et al. 2018) ------------------------------ */

/* u = m u + g: what goes into the residual is the velocity, so that momentum acts
 * on entries that are sent late as if they had been sent in time. */
static const float *correct(gw_sync *s, float *g)
{
    size_t n = s->layout->floats;
    double clip = s->spec.opt.clip / sqrt((double)s->comm->workers);

    if (s->velocity == NULL)
        return g;
    if (clip > 0) {
        double norm = sqrt(gwi_sumsq(g, n));
        if (norm > clip)
            gwi_scale(g, (float)(clip / norm), n);
    }
    gwi_scale(s->velocity, (float)s->spec.opt.momentum, n);
    gwi_add(s->velocity, g, n);
    return s->velocity;
}

/* An entry that is sent takes its velocity along: otherwise stale momentum would go
 * on pushing it. */
static void mask(gw_sync *s, const gwi_list *list)
{
    if (s->velocity == NULL || s->spec.opt.mask == GWI_OFF)
        return;
    for (size_t i = 0; i < list->n; i++)
        s->velocity[list->index[i]] = 0;
}

/* ---- selecting ---------------------------------------------------------- */

static void select_largest(gwi_selector *sel, const gw_sync *s, float *r,
                           const float *g)
{
    size_t n = s->layout->floats;

    sel->list.n = entries_for(s->now.density, n - s->small.count);
    gwi_select_topk(&sel->guess, &sel->work, r, g, n, sel->list.n, sel->list.index,
                    sel->list.value);
}

/* Appends what lies above the threshold of the floats [begin, begin + n). */
static void select_part(gwi_selector *sel, float threshold, float *r, const float *g,
                        size_t begin, size_t n)
{
    gwi_list *all = &sel->list;
    gwi_list part = {all->index + all->n, all->value + all->n, 0, all->cap - all->n};

    gwi_select_above(r + begin, g != NULL ? g + begin : NULL, n, threshold, &part);
    for (size_t i = 0; i < part.n; i++)
        part.index[i] += (uint32_t)begin;
    all->n += part.n;
}

/* The sampled threshold of all tensors that are not small, as if they lay side by
 * side. */
static float threshold_of_rest(gwi_selector *sel, const gw_sync *s, double rate,
                               const float *r, const float *g)
{
    size_t n = s->layout->floats - s->small.count, tensor = 0, before = 0, ties;
    size_t samples = n < GWI_SAMPLES_MAX ? n : GWI_SAMPLES_MAX, taken = 0;

    for (size_t at = 0; taken < samples; at += n / samples) {
        const gw_tensor *t = &s->layout->tensors[tensor];
        while (gwi_is_small(s, t) || at - before >= t->rows * t->cols) {
            before += gwi_is_small(s, t) ? 0 : t->rows * t->cols;
            t = &s->layout->tensors[++tensor];
        }
        size_t i = t->offset + at - before;
        sel->scratch[taken++] = g != NULL ? r[i] + g[i] : r[i];
    }
    size_t place = (size_t)((double)samples * rate);
    int32_t key = gwi_nth_key(sel->scratch, samples,
                              samples - (place > 0 ? place - 1 : 0), &ties);
    float threshold;
    memcpy(&threshold, &key, sizeof threshold);
    return threshold;
}

static float threshold_of_all(gwi_selector *sel, const gw_sync *s, double rate,
                              const float *r, const float *g)
{
    size_t n = s->layout->floats;

    if (s->small.count > 0 && s->small.count < n)
        return threshold_of_rest(sel, s, rate, r, g);
    return gwi_sampled_threshold(r, g, n, rate, sel->scratch);
}

static void select_above(gwi_selector *sel, const gw_sync *s, float *r, const float *g)
{
    double rate = 1 - s->now.density;

    sel->list.n = 0;
    if (s->spec.opt.scope == GWI_SCOPE_GLOBAL) {
        select_part(sel, threshold_of_all(sel, s, rate, r, g), r, g, 0,
                    s->layout->floats);
        return;
    }
    for (size_t i = 0; i < s->layout->count; i++) {
        const gw_tensor *t = &s->layout->tensors[i];
        size_t n = t->rows * t->cols;
        const float *add = g != NULL ? g + t->offset : NULL;
        float threshold =
            gwi_sampled_threshold(r + t->offset, add, n, rate, sel->scratch);
        select_part(sel, threshold, r, g, t->offset, n);
    }
}

void gwi_selector_run(gwi_selector *sel, gw_sync *s, float *v)
{
    const float *g = v != NULL ? correct(s, v) : NULL;
    float *r = s->residual != NULL ? s->residual : v;

    if (r == v)
        g = NULL;
    if (s->spec.which == GWI_WHICH_TOPK)
        select_largest(sel, s, r, g);
    else
        select_above(sel, s, r, g);
    mask(s, &sel->list);
}

void gwi_residual_add(gw_sync *s, const gwi_list *list)
{
    if (s->residual != NULL)
        gwi_vector()->scatter_add(s->residual, list->index, list->value, list->n);
}
