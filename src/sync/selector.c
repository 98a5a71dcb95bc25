/* SPDX-License-Identifier: Apache-2.0
 *
 * selector.c - the k largest, or those above a sampled threshold. */
#include "sync/selector.h"

#include <math.h>

#include "kernels/vector.h"
#include "sync/small.h"

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
    size_t cuts = topk ? 0 : s->layout->count * sizeof(gwi_cut);

    sel->memory = gwi_calloc(1, cuts + work + 63 + most * 8 + samples * sizeof(float));
    if (sel->memory == NULL)
        return gw_fail(GW_ERR_NOMEM, "no memory to select %zu of %zu", most, n);
    sel->cuts = sel->memory;
    work = (cuts + work + 63) & ~(size_t)63;
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

size_t gwi_selector_wanted(const gw_sync *s)
{
    return entries_for(s->now.density, gwi_rest(s));
}

static void select_largest(gwi_selector *sel, const gw_sync *s, float *r,
                           const float *g)
{
    sel->list.n =
        gwi_select_topk(&sel->guess, &sel->work, r, g, s->layout->floats,
                        gwi_selector_wanted(s), sel->list.index, sel->list.value);
}

/* The sampled threshold of all tensors that are not small, as if they lay side by
 * side. */
static gwi_threshold threshold_of_rest(gwi_selector *sel, const gw_sync *s, double rate,
                                       const float *r, const float *g)
{
    size_t n = gwi_rest(s), tensor = 0, before = 0;
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
    return gwi_threshold_of(sel->scratch, samples, rate);
}

/* What has a threshold of its own. */
typedef struct scope {
    size_t begin, n; /* floats */
} scope;

static size_t count_scopes(const gw_sync *s)
{
    return s->spec.opt.scope == GWI_SCOPE_GLOBAL ? 1 : s->layout->count;
}

static scope scope_at(const gw_sync *s, size_t i)
{
    const gw_tensor *t = &s->layout->tensors[i];

    if (s->spec.opt.scope == GWI_SCOPE_GLOBAL)
        return (scope){0, s->layout->floats};
    return (scope){t->offset, t->rows * t->cols};
}

static gwi_threshold threshold_of(gwi_selector *sel, const gw_sync *s, scope c,
                                  const float *r, const float *g)
{
    double rate = 1 - s->now.density;

    if (s->spec.opt.scope == GWI_SCOPE_GLOBAL && s->small.count > 0 &&
        s->small.count < c.n)
        return threshold_of_rest(sel, s, rate, r, g);
    return gwi_sampled_threshold(r + c.begin, g != NULL ? g + c.begin : NULL, c.n, rate,
                                 sel->scratch);
}

/* Appends what a threshold lets go of these floats. Returns whether there was room for
 * all. */
static bool append(gwi_selector *sel, gwi_threshold threshold, float *r, const float *g,
                   scope c)
{
    gwi_list *all = &sel->list;
    gwi_list part = {all->index + all->n, all->value + all->n, 0, all->cap - all->n};
    bool fits = gwi_select_above(r + c.begin, g != NULL ? g + c.begin : NULL, c.n,
                                 threshold, &part);

    for (size_t i = 0; i < part.n; i++)
        part.index[i] += (uint32_t)c.begin;
    all->n += part.n;
    return fits;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Shares out the room that what is larger leaves to what ties: first every tensor's
 * part, so that none waits for ever, then what is left of it, from the first tensor
 * on. */
static void share_room(gwi_selector *sel, const gw_sync *s)
{
    size_t count = count_scopes(s), cap = sel->list.cap, room = cap;
    uint64_t shared = cap > count ? cap - count : 0;

    for (size_t i = 0; i < count; i++)
        room -= least(room, sel->cuts[i].above);
    for (size_t i = 0; i < count; i++) {
        gwi_cut *cut = &sel->cuts[i];
        size_t part = 1 + (size_t)(shared * scope_at(s, i).n / s->layout->floats);
        part = part > cut->above ? part - cut->above : 0;
        cut->taken = least(least(part, cut->ties), room);
        room -= cut->taken;
    }
    for (size_t i = 0; i < count; i++) {
        size_t more = least(sel->cuts[i].ties - sel->cuts[i].taken, room);
        sel->cuts[i].taken += more;
        room -= more;
    }
}

/* Selects anew out of r, where there is not room for all that ties: everything that
 * is larger, and of the ties those with the lowest indices. */
static void select_some_ties(gwi_selector *sel, const gw_sync *s, float *r)
{
    gwi_put_back(&sel->list, r);
    sel->list.n = 0;
    for (size_t i = 0; i < count_scopes(s); i++) {
        gwi_cut *cut = &sel->cuts[i];
        scope c = scope_at(s, i);
        gwi_count_above(r + c.begin, c.n, cut->threshold.value, &cut->above,
                        &cut->ties);
        cut->ties = cut->threshold.ties ? cut->ties : 0;
    }
    share_room(sel, s);
    for (size_t i = 0; i < count_scopes(s); i++) {
        gwi_threshold t = sel->cuts[i].threshold;
        scope c = scope_at(s, i);
        size_t front = gwi_ties_end(r + c.begin, c.n, t.value, sel->cuts[i].taken);
        append(sel, t, r, NULL, (scope){c.begin, front});
        t.ties = false;
        append(sel, t, r, NULL, (scope){c.begin + front, c.n - front});
    }
}

static void select_above(gwi_selector *sel, const gw_sync *s, float *r, const float *g)
{
    bool fits = true, ties = false;

    sel->list.n = 0;
    for (size_t i = 0; i < count_scopes(s); i++) {
        scope c = scope_at(s, i);
        gwi_threshold t = threshold_of(sel, s, c, r, g);
        sel->cuts[i].threshold = t;
        ties = ties || t.ties;
        fits = append(sel, t, r, g, c) && fits;
    }
    if (ties && !fits)
        select_some_ties(sel, s, r);
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
