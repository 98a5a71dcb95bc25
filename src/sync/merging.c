/* SPDX-License-Identifier: Apache-2.0
 *
 * merging.c - what exchanges that merge lists remember, and put back. */
#include "sync/merging.h"

#include <assert.h>
#include <math.h>

#include "kernels/vector.h"
#include "sync/notes.h"
#include "sync/selection.h"

enum { PUTBACK_OWN, PUTBACK_KEEP, PUTBACK_PAPER };

const gwi_key gwi_merging_keys[] = {
    {.name = "putback",
     .meaning =
         "who keeps entries that lose: who brought or merged them; paper loses some",
     .fallback = "own",
     .words = "own|keep|paper",
     .at = offsetof(gwi_merging_options, putback),
     .value = GWI_WORD},
    {.name = "via",
     .meaning = "partners swap lists, or up a tree and down; auto: pairs if values are "
                "not coded",
     .fallback = "auto",
     .words = "auto|pairs|tree",
     .unsaid = true,
     .at = offsetof(gwi_merging_options, via),
     .value = GWI_WORD},
    {.name = NULL},
};

static int putback_of(const gw_sync *s)
{
    const gwi_merging_options *opt = gwi_options_of(&s->spec, GWI_EXCHANGE);

    return opt->putback;
}

/* Whether entries are put back once the final list is known. */
static bool puts_back(const gw_sync *s)
{
    return putback_of(s) != PUTBACK_KEEP && s->kept[GWI_RESIDUAL] != NULL;
}

/* ---- memory ------------------------------------------------------------------ */

bool gwi_merging_off(const gwi_spec *spec)
{
    return !gwi_leaves_out(spec);
}

/* Carves a list of cap entries out of *memory. */
static gwi_list carve(uint8_t **memory, size_t cap)
{
    gwi_list list = gwi_list_in(*memory, cap);

    *memory += 8 * cap;
    return list;
}

static void carve_lists(gwi_merging *x, uint8_t *rest, size_t k, bool own)
{
    x->theirs = carve(&rest, k);
    x->others = carve(&rest, 2 * k);
    if (own)
        x->own = carve(&rest, k);
    for (int i = 0; i < x->merges_cap; i++)
        x->rejected[i] = carve(&rest, k);
    for (int i = 0; i < x->errors_cap; i++)
        x->error[i] = carve(&rest, k);
}

gw_status gwi_merging_init(gw_sync *s, int merges, int codings)
{
    gwi_merging *x = gwi_state(s, GWI_EXCHANGE);
    size_t n = s->layout->floats, k = s->list.cap, lists = 3;

    assert(merges <= GWI_MERGES_MAX && codings <= GWI_MERGES_MAX);
    GWI_TRY(gwi_coding_init(&s->coding, &s->spec, s->layout, gwi_looks(s), k));
    x->cap = (gwi_coding_list_bound(&s->coding, n, k) + 63) & ~(size_t)63;
    x->merges_cap = puts_back(s) ? merges : 0;
    x->errors_cap = puts_back(s) && !gwi_coder_of(&s->spec)->exact ? codings : 0;
    lists += puts_back(s) ? 1 + (size_t)(x->merges_cap + x->errors_cap) : 0;
    x->memory = gwi_calloc(1, 2 * x->cap + lists * k * 8);
    if (x->memory == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory for lists of %zu entries", k);
    x->out = x->memory;
    x->in = x->out + x->cap;
    carve_lists(x, x->in + x->cap, k, puts_back(s));
    return GW_OK;
}

void gwi_merging_fini(gw_sync *s)
{
    gwi_merging *x = gwi_state(s, GWI_EXCHANGE);

    gwi_free(x->memory);
}

/* ---- an exchange --------------------------------------------------------------- */

void gwi_merging_begin(gw_sync *s, const gwi_result *at, gwi_note *note)
{
    gwi_merging *x = gwi_state(s, GWI_EXCHANGE);

    x->merges = x->errors = 0;
    if (*note == 0) {
        gwi_choose(s, at);
        *note = gwi_look_at_selected(s);
    }
    if (*note != 0)
        s->list.n = 0;
    if (puts_back(s))
        gwi_list_copy(&x->own, &s->list);
}

gw_status gwi_merging_read(gw_sync *s, int from, const uint8_t *msg, size_t len,
                           gwi_list *list)
{
    return gwi_blame(
        s, from,
        gwi_coding_get_list(&s->coding, msg, len, s->layout->floats, s->step, list));
}

void gwi_merging_lost_in_code(gw_sync *s, const gwi_list *error)
{
    gwi_merging *x = gwi_state(s, GWI_EXCHANGE);

    if (gwi_coder_of(&s->spec)->exact)
        return;
    if (!puts_back(s)) {
        gwi_keep(s, error);
        return;
    }
    assert(x->errors < x->errors_cap);
    gwi_list_copy(&x->error[x->errors++], error);
}

void gwi_merging_rejected(gw_sync *s)
{
    gwi_merging *x = gwi_state(s, GWI_EXCHANGE);

    if (!puts_back(s)) {
        gwi_keep(s, &x->others);
        return;
    }
    assert(x->merges < x->merges_cap);
    gwi_list_copy(&x->rejected[x->merges++], &x->others);
}

/* ---- the end of it -------------------------------------------------------------- */

/* Own entries whose index did not make it return, whole. So coding's errors, and what
 * merges rejected, stay only where the entry is applied. */
static void put_back(gw_sync *s, const gwi_list *final)
{
    const gwi_merging *x = gwi_state(s, GWI_EXCHANGE);

    gwi_keep_if(s, &x->own, final, false);
    for (int i = 0; i < x->errors; i++)
        gwi_keep_if(s, &x->error[i], final, true);
    for (int i = 0; putback_of(s) == PUTBACK_OWN && i < x->merges; i++)
        gwi_keep_if(s, &x->rejected[i], final, true);
}

/* The magnitudes of those entries whose index is in the final list, too. */
static double mass_in(const gwi_list *list, const gwi_list *final)
{
    double mass = 0;
    size_t at = 0;

    for (size_t i = 0; i < list->n; i++)
        if (gwi_list_has(final, &at, list->index[i]))
            mass += (double)fabsf(list->value[i]);
    return mass;
}

static void count_mass(gw_sync *s, const gwi_list *final)
{
    const gwi_merging *x = gwi_state(s, GWI_EXCHANGE);
    gw_stats *stats = &s->whole->stats;

    for (int i = 0; i < x->merges; i++)
        stats->lost_mass += mass_in(&x->rejected[i], final);
    stats->applied_mass += mass_in(final, final);
}

/* A step that is skipped loses nothing, by no rule. */
static void keep_remembered(gw_sync *s)
{
    const gwi_merging *x = gwi_state(s, GWI_EXCHANGE);

    for (int i = 0; i < x->merges; i++)
        gwi_keep(s, &x->rejected[i]);
    for (int i = 0; i < x->errors; i++)
        gwi_keep(s, &x->error[i]);
}

void gwi_merging_end(gw_sync *s, const gwi_result *at, gwi_note note)
{
    const gwi_list *list = &s->list;

    if (note != 0) {
        keep_remembered(s);
        return;
    }
    if (puts_back(s))
        put_back(s, list);
    if (puts_back(s) && putback_of(s) == PUTBACK_PAPER)
        count_mass(s, list);
    gwi_result_clear(s, at);
    gwi_divide(list->value, (float)s->comm->workers, list->n);
    gwi_result_add(s, at, list);
}
