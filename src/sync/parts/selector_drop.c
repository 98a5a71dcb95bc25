/* SPDX-License-Identifier: Apache-2.0
 *
 * selector_drop.c - gradient dropping (Aji & Heafield 2017): what is above a threshold
 * that is found in a sample. */
#include "kernels/select.h"
#include "sync/ramp.h"
#include "sync/selection.h"
#include "sync/small.h"

enum { SCOPE_GLOBAL, SCOPE_TENSOR };

typedef struct options {
    double rate; /* part of the coordinates that is dropped */
    int scope;   /* of a threshold */
} options;

static const options *options_of(const gwi_spec *spec)
{
    return gwi_options_of(spec, GWI_SELECTOR);
}

static const gwi_key keys[] = {
    {.name = "rate",
     .meaning = "part of the coordinates that is dropped",
     .range = "from 0 (nothing is dropped) to below 1",
     .least = 0,
     .most = 1 - 1e-9,
     .at = offsetof(options, rate),
     .value = GWI_NUMBER},
    {.name = "threshold",
     .meaning = "one threshold for the whole model, or one for each tensor",
     .fallback = "global",
     .words = "global|tensor",
     .at = offsetof(options, scope),
     .value = GWI_WORD},
    {.name = NULL},
};

static double drop_density(const gwi_spec *spec)
{
    return 1 - options_of(spec)->rate;
}

static bool drop_off(const gwi_spec *spec)
{
    return drop_density(spec) == 1;
}

/* A sampled threshold keeps more or fewer than it aims at. Up to four times as many
 * are sent; beyond that entries wait in the residual, so that buffers stay small. */
static size_t drop_most(const gwi_spec *spec, size_t n)
{
    size_t room = 4 * gwi_entries(gwi_ramp_most(spec), n) + 1024;

    return room < n ? room : n;
}

/* What is to be sent of a tensor, or of all, by a threshold. */
typedef struct cut {
    gwi_topk_guess guess; /* at the threshold of the next step */
    gwi_threshold threshold;
    size_t above; /* entries that are larger, */
    size_t ties;  /* that are not, */
    size_t taken; /* and those of them for which there is room */
} cut;

typedef struct drop {
    float *scratch; /* of sampled thresholds */
    cut *cuts;      /* of each tensor; the first one if there is one for all */
    void *memory;
} drop;

static gw_status drop_init(gw_sync *s)
{
    drop *sel = gwi_state(s, GWI_SELECTOR);
    size_t n = s->layout->floats, most = drop_most(&s->spec, n);
    size_t cuts = s->layout->count * sizeof(cut);

    sel->memory =
        gwi_calloc(1, cuts + most * 8 + GWI_THRESHOLD_FLOATS(n) * sizeof(float));
    if (sel->memory == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory to select %zu of %zu", most, n);
    sel->cuts = sel->memory;
    s->list = gwi_list_in((uint8_t *)sel->memory + cuts, most);
    sel->scratch = s->list.value + most;
    return GW_OK;
}

static void drop_fini(gw_sync *s)
{
    drop *sel = gwi_state(s, GWI_SELECTOR);

    gwi_free(sel->memory);
}

static bool is_global(const gw_sync *s)
{
    return options_of(&s->spec)->scope == SCOPE_GLOBAL;
}

/* The sampled threshold of all tensors that are not small, as if they lay side by
 * side. */
static gwi_threshold threshold_of_rest(drop *sel, const gw_sync *s, double rate,
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
    return is_global(s) ? 1 : s->layout->count;
}

static scope scope_at(const gw_sync *s, size_t i)
{
    const gw_tensor *t = &s->layout->tensors[i];

    if (is_global(s))
        return (scope){0, s->layout->floats};
    return (scope){t->offset, t->rows * t->cols};
}

/* The end of the list, for the floats of a scope. */
static gwi_list list_end(const gw_sync *s)
{
    const gwi_list *all = &s->list;

    return (gwi_list){all->index + all->n, all->value + all->n, 0, all->cap - all->n};
}

static void append(gw_sync *s, const gwi_list *part, scope c)
{
    for (size_t i = 0; i < part->n; i++)
        part->index[i] += (uint32_t)c.begin;
    s->list.n += part->n;
}

/* Appends what a threshold lets go of these floats. Returns whether there was room for
 * all. */
static bool append_above(gw_sync *s, gwi_threshold threshold, float *r, const float *g,
                         scope c)
{
    gwi_list part = list_end(s);
    bool fits = gwi_select_above(r + c.begin, g != NULL ? g + c.begin : NULL, c.n,
                                 threshold, &part);

    append(s, &part, c);
    return fits;
}

/* Finds the threshold of a scope and appends what it lets go. Returns whether there was
 * room for all. */
static bool append_scope(drop *sel, gw_sync *s, cut *own, scope c, float *r,
                         const float *g)
{
    double rate = 1 - s->now.density;
    gwi_list part = list_end(s);

    if (is_global(s) && s->small.count > 0 && s->small.count < c.n) {
        own->threshold = threshold_of_rest(sel, s, rate, r, g);
        return append_above(s, own->threshold, r, g, c);
    }
    bool fits =
        gwi_select_sampled(&own->guess, r + c.begin, g != NULL ? g + c.begin : NULL,
                           c.n, rate, sel->scratch, &own->threshold, &part);
    append(s, &part, c);
    return fits;
}

static size_t lesser(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Shares out the room that what is larger leaves to what ties: first every tensor's
 * part, so that none waits for ever, then what is left of it, from the first tensor
 * on. */
static void share_room(drop *sel, const gw_sync *s)
{
    size_t count = count_scopes(s), cap = s->list.cap, room = cap;
    uint64_t shared = cap > count ? cap - count : 0;

    for (size_t i = 0; i < count; i++)
        room -= lesser(room, sel->cuts[i].above);
    for (size_t i = 0; i < count; i++) {
        cut *own = &sel->cuts[i];
        size_t part = 1 + (size_t)(shared * scope_at(s, i).n / s->layout->floats);
        part = part > own->above ? part - own->above : 0;
        own->taken = lesser(lesser(part, own->ties), room);
        room -= own->taken;
    }
    for (size_t i = 0; i < count; i++) {
        size_t more = lesser(sel->cuts[i].ties - sel->cuts[i].taken, room);
        sel->cuts[i].taken += more;
        room -= more;
    }
}

/* Selects anew out of r, where there is not room for all that ties: everything that
 * is larger, and of the ties those with the lowest indices. */
static void select_some_ties(drop *sel, gw_sync *s, float *r)
{
    gwi_put_back(&s->list, r);
    s->list.n = 0;
    for (size_t i = 0; i < count_scopes(s); i++) {
        cut *own = &sel->cuts[i];
        scope c = scope_at(s, i);
        gwi_count_above(r + c.begin, c.n, own->threshold.value, &own->above,
                        &own->ties);
        own->ties = own->threshold.ties ? own->ties : 0;
    }
    share_room(sel, s);
    for (size_t i = 0; i < count_scopes(s); i++) {
        gwi_threshold t = sel->cuts[i].threshold;
        scope c = scope_at(s, i);
        size_t front = gwi_ties_end(r + c.begin, c.n, t.value, sel->cuts[i].taken);
        append_above(s, t, r, NULL, (scope){c.begin, front});
        t.ties = false;
        append_above(s, t, r, NULL, (scope){c.begin + front, c.n - front});
    }
}

static void drop_run(gw_sync *s, float *r, const float *g)
{
    drop *sel = gwi_state(s, GWI_SELECTOR);
    bool fits = true, ties = false;

    s->list.n = 0;
    for (size_t i = 0; i < count_scopes(s); i++) {
        cut *own = &sel->cuts[i];
        fits = append_scope(sel, s, own, scope_at(s, i), r, g) && fits;
        ties = ties || own->threshold.ties;
    }
    if (ties && !fits)
        select_some_ties(sel, s, r);
}

const gwi_selector gwi_selector_drop = {
    .part = {.name = "drop",
             .keys = keys,
             .off = drop_off,
             .state_size = sizeof(drop),
             .init = drop_init,
             .fini = drop_fini},
    .density = drop_density,
    .most = drop_most,
    .run = drop_run,
};

const gwi_stage gwi_stage_drop = {
    .name = "drop",
    .summary = "gradient dropping, a sampled threshold (Aji & Heafield 2017)",
    .example = "drop:0.99",
    .cost = "about (1-rate) n entries, to each of the P-1 others",
    .expect =
        "as topk, with a selection that costs less and sends a number that varies",
    .role = GWI_ROLE_WHICH,
    .recipe = true,
    .parts = {[GWI_SELECTOR] = &gwi_selector_drop.part,
              [GWI_EXCHANGE] = &gwi_exchange_gather.part,
              [GWI_MEMORY] = &gwi_memory_residual.part},
    .keys = "rate threshold residual warmup ladder dense_below delay lead",
};
