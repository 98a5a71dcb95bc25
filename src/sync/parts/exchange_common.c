/* SPDX-License-Identifier: Apache-2.0
 *
 * exchange_common.c - coordinates that all workers know: their values are averaged by
 * one all-reduce, and no positions travel.
 *
 *     models     x = the average where it is chosen; the rest stays as it is
 *     gradients  residual += v;  values = chosen out of the residual
 *                v = the average of the values where chosen, 0 elsewhere */
#include <string.h>

#include "kernels/vector.h"
#include "sync/measure.h"
#include "sync/notes.h"
#include "sync/path.h"
#include "sync/segments.h"
#include "sync/selection.h"
#include "sync/small.h"

typedef struct options {
    uint64_t resync; /* steps between averages of whole models, 0: never */
} options;

static const gwi_key keys[] = {
    {.name = "resync",
     .meaning = "steps between averages of whole models",
     .fallback = "0",
     .range = "a count of steps, 0 for never",
     .least = 0,
     .most = GWI_COUNT_MAX,
     .unsaid = true,
     .at = offsetof(options, resync),
     .value = GWI_COUNT},
    {.name = NULL},
};

static uint64_t common_resync(const gwi_spec *spec)
{
    const options *opt = gwi_options_of(spec, GWI_EXCHANGE);

    return gwi_selector_of(spec)->of_models ? opt->resync : 0;
}

typedef struct common {
    float *sent; /* what this worker brings, in case it must be put back */
    void *memory;
} common;

static bool common_off(const gwi_spec *spec)
{
    return !gwi_leaves_out(spec) && spec->subject != GWI_MODEL;
}

static gw_status common_init(gw_sync *s)
{
    common *x = gwi_state(s, GWI_EXCHANGE);
    const gwi_selector *selector = gwi_selector_of(&s->spec);
    size_t most;

    if (selector->most == NULL || !gwi_leaves_out(&s->spec))
        return GW_OK; /* ranges need no list */
    most = selector->most(&s->spec, gwi_rest(s));
    x->memory = gwi_calloc(most, 8 + sizeof *x->sent);
    if (x->memory == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory for %zu values", most);
    s->list = gwi_list_in(x->memory, most);
    x->sent = s->list.value + most;
    return GW_OK;
}

static void common_fini(gw_sync *s)
{
    common *x = gwi_state(s, GWI_EXCHANGE);

    gwi_free(x->memory);
}

/* ---- lists ---------------------------------------------------------------------- */

/* Puts the chosen coordinates into the list, without values. */
static void put_indices(gw_sync *s, const gwi_common *c)
{
    gwi_list *list = &s->list;

    list->n = c->index != NULL ? c->count : c->end - c->begin;
    for (size_t i = 0; i < list->n; i++)
        list->index[i] = c->index != NULL ? c->index[i] : (uint32_t)(c->begin + i);
}

/* The average of the list's values; a note about a sum names its tensor. */
static gw_status average_list(gw_sync *s, gwi_note *note)
{
    gwi_list *list = &s->list;
    gwi_note *carried = gwi_looks(s) ? note : NULL;
    size_t at;

    GWI_TRY(
        gwi_allreduce(s->comm, list->value, list->n, (float)s->comm->workers, carried));
    at = *note & UINT32_MAX;
    if ((*note & GWI_NOTE_SUM) == GWI_NOTE_SUM && at < list->n)
        *note = gwi_note_of_sum(s, gwi_rest_place(s, list->index[at]));
    return GW_OK;
}

/* ---- models: a range in place, or a list ------------------------------------------
 */

static gw_status run_range(gw_sync *s, float *x, const gwi_common *c, gwi_note *note)
{
    gwi_decodes(s);
    return gwi_average_looking(s, x + c->begin, c->end - c->begin, c->begin, note);
}

static gw_status run_list(gw_sync *s, float *x, const gwi_common *c, gwi_note *note)
{
    gwi_list *list = &s->list;

    put_indices(s, c);
    gwi_vector()->gather(list->value, x, list->index, list->n);
    size_t bad = gwi_looks(s) ? gwi_first_nonfinite(list->value, list->n) : list->n;
    *note = bad < list->n ? gwi_note_at(s, list->index[bad]) : 0;
    gwi_decodes(s);
    GWI_TRY(average_list(s, note));
    for (size_t i = 0; *note == 0 && i < list->n; i++)
        x[list->index[i]] = list->value[i];
    return GW_OK;
}

static gw_status run_models(gw_sync *s, float *x, gwi_note *note)
{
    gwi_common c;

    gwi_selector_of(&s->spec)->agree(s, &c);
    return c.index == NULL ? run_range(s, x, &c, note) : run_list(s, x, &c, note);
}

/* ---- gradients, and changes of models ---------------------------------------------
 */

static void agree(gw_sync *s)
{
    gwi_common c;

    gwi_selector_of(&s->spec)->agree(s, &c);
    put_indices(s, &c);
}

/* Moves the chosen coordinates, 0 or not, out of residual + v, to the list. */
static void take(gw_sync *s, float *v)
{
    float *r = s->kept[GWI_RESIDUAL];
    gwi_list *list = &s->list;

    if (r != NULL)
        gwi_add(r, v, gwi_rest(s));
    else
        r = v;
    for (size_t i = 0; i < list->n; i++) {
        list->value[i] = r[list->index[i]];
        r[list->index[i]] = 0;
    }
}

/* Not after a sum that overflowed: it would overflow again. */
static void put_back(gw_sync *s)
{
    common *x = gwi_state(s, GWI_EXCHANGE);

    memcpy(s->list.value, x->sent, s->list.n * sizeof *x->sent);
    gwi_keep(s, &s->list);
}

static gw_status run_gradients(gw_sync *s, float *v, gwi_note *note)
{
    common *x = gwi_state(s, GWI_EXCHANGE);
    gwi_list *list = &s->list;
    bool good = *note == 0;

    agree(s);
    if (good) {
        take(s, v);
        *note = gwi_look_at_selected(s);
        good = *note == 0;
    }
    if (!good)
        memset(list->value, 0, list->n * sizeof *list->value);
    memcpy(x->sent, list->value, list->n * sizeof *x->sent);
    gwi_decodes(s);
    GWI_TRY(average_list(s, note));
    if (*note != 0) {
        if (good && !gwi_is_of_sum(s, *note))
            put_back(s);
        return GW_OK;
    }
    memset(v, 0, gwi_rest(s) * sizeof *v);
    gwi_vector()->scatter_add(v, list->index, list->value, list->n);
    return GW_OK;
}

static gw_status common_run(gw_sync *s, const gwi_result *at, gwi_note *note)
{
    return s->spec.subject == GWI_MODEL ? run_models(s, at->v, note)
                                        : run_gradients(s, at->v, note);
}

/* One sum of a share of each segment, so many times. */
static void add_sums(gwi_path *to, const gw_layout *layout, int workers, double density,
                     double times)
{
    gwi_cut cut = {0};

    while (gwi_cut_next(layout, &cut)) {
        double n = (double)(cut.end - cut.begin) * density;
        gwi_path one = gwi_path_of_sum(n, workers);
        to->rounds += times * one.rounds;
        to->bytes += times * one.bytes;
    }
}

static gwi_path common_path(const gwi_spec *spec, const gw_layout *layout, int workers,
                            const gw_traffic *t)
{
    double density = gwi_selector_of(spec)->density(spec);
    uint64_t resync = common_resync(spec);
    gwi_path period = {0, 0};

    add_sums(&period, layout, workers, density, resync > 0 ? (double)resync - 1 : 1);
    if (resync > 0)
        add_sums(&period, layout, workers, 1, 1);
    return gwi_path_repeated(period, t);
}

const gwi_exchange gwi_exchange_common = {
    .part = {.name = "common",
             .keys = keys,
             .options_size = sizeof(options),
             .check = gwi_check_uncoded,
             .off = common_off,
             .state_size = sizeof(common),
             .init = common_init,
             .fini = common_fini},
    .run = common_run,
    .path = common_path,
    .resync = common_resync,
    .lossy = true,
    .closes_up = true,
};
