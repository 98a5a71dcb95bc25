/* SPDX-License-Identifier: Apache-2.0
 *
 * selection.c - from a vector to the list of entries that is sent. */
#include "sync/selection.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernels/vector.h"
#include "sync/entries.h"
#include "sync/momentum.h"
#include "sync/notes.h"
#include "sync/small.h"

size_t gwi_entries(double density, size_t n)
{
    size_t k = (size_t)(density * (double)n);

    return k < 1 ? 1 : k > n ? n : k;
}

size_t gwi_wanted(const gw_sync *s)
{
    return gwi_entries(s->now.density, gwi_rest(s));
}

void gwi_choose(gw_sync *s, const gwi_result *at)
{
    float *r = s->kept[GWI_RESIDUAL], decay = (float)gwi_decay(&s->spec);

    if (gwi_is_aside(s)) {
        gwi_aside_choose(s);
        return;
    }
    if (r != NULL && decay != 1)
        gwi_scale(r, decay, s->layout->floats);
    if (at->fresh)
        gwi_selector_of(&s->spec)->run_pieces(s, r, at->pieces, at->count);
    else if (r != NULL)
        gwi_selector_of(&s->spec)->run(s, r, at->v);
    else
        gwi_selector_of(&s->spec)->run(s, at->v, NULL);
    gwi_momentum_chosen(s, &s->list);
}

void gwi_keep(gw_sync *s, const gwi_list *list)
{
    if (gwi_is_aside(s))
        gwi_aside_keep(s, list);
    else if (gwi_memory_of(&s->spec)->keep != NULL)
        gwi_memory_of(&s->spec)->keep(s, list);
}

/* Gives back one entry of a sync that has a residual. */
static void keep_one(gw_sync *s, uint32_t index, float value)
{
    if (gwi_is_aside(s))
        gwi_aside_keep_one(s, index, value);
    else
        s->kept[GWI_RESIDUAL][index] += value;
}

/* ---- lists ------------------------------------------------------------------- */

void gwi_list_copy(gwi_list *to, const gwi_list *from)
{
    assert(from->n <= to->cap);
    to->n = from->n;
    memcpy(to->index, from->index, from->n * sizeof *from->index);
    memcpy(to->value, from->value, from->n * sizeof *from->value);
}

bool gwi_list_has(const gwi_list *list, size_t *at, uint32_t index)
{
    while (*at < list->n && list->index[*at] < index)
        ++*at;
    return *at < list->n && list->index[*at] == index;
}

void gwi_keep_if(gw_sync *s, const gwi_list *list, const gwi_list *final, bool in)
{
    size_t at = 0;

    for (size_t i = 0; i < list->n; i++)
        if (gwi_list_has(final, &at, list->index[i]) == in)
            keep_one(s, list->index[i], list->value[i]);
}

/* ---- results ---------------------------------------------------------------- */

void gwi_result_clear(const gw_sync *s, const gwi_result *at)
{
    if (at->v != NULL)
        memset(at->v, 0, s->layout->floats * sizeof *at->v);
    for (size_t i = 0; at->fresh && i < at->count; i++)
        memset(at->pieces[i].at, 0, at->pieces[i].floats * sizeof *at->pieces[i].at);
}

/* The entries of a list ascend, and so do the pieces. The list counts from `base`. */
static void add_to_pieces(const gwi_result *at, const gwi_list *list, size_t base)
{
    size_t begin = 0, e = 0;

    for (size_t i = 0; i < at->count; i++) {
        const gw_piece *piece = &at->pieces[i];
        for (; e < list->n && base + list->index[e] - begin < piece->floats; e++)
            piece->at[base + list->index[e] - begin] += list->value[e];
        begin += piece->floats;
    }
}

void gwi_result_add(const gw_sync *s, const gwi_result *at, const gwi_list *list)
{
    if (at->v != NULL)
        gwi_vector()->scatter_add(at->v, list->index, list->value, list->n);
    else if (gwi_is_aside(s))
        gwi_aside_add(s, list);
    else
        add_to_pieces(at, list, s->base);
}

/* ---- bad numbers -------------------------------------------------------------- */

bool gwi_goes_straight(const gw_sync *s)
{
    const gwi_exchange *exchange = gwi_exchange_of(&s->spec);
    bool by_entry = exchange->by_entry != NULL && exchange->by_entry(&s->spec);

    return s->now.gradient && !s->now.dense && exchange->of_lists && !by_entry &&
           s->kept[GWI_RESIDUAL] != NULL && gwi_decay(&s->spec) == 1 &&
           !gwi_has_momentum(&s->spec) && !gwi_estimates(&s->spec) &&
           gwi_transform_of(&s->spec)->forward == NULL && s->whole->small.count == 0;
}

bool gwi_looks_later(const gw_sync *s)
{
    return s->nonfinite == GW_NONFINITE_END && gwi_selector_of(&s->spec)->shows_bad &&
           gwi_goes_straight(s);
}

bool gwi_looks_along(const gw_sync *s)
{
    return s->now.gradient && !s->now.dense && gwi_exchange_of(&s->spec)->looks &&
           !gwi_has_momentum(&s->spec) && !gwi_estimates(&s->spec) &&
           gwi_transform_of(&s->spec)->forward == NULL && s->whole->small.count == 0;
}

/* What is not finite is dropped: it was in the gradient, or was more than the residual
 * could take in. The rest goes back. */
static void keep_finite(gw_sync *s, const gwi_list *selected)
{
    bool keeps = s->kept[GWI_RESIDUAL] != NULL;

    for (size_t i = 0; keeps && i < selected->n; i++)
        if (isfinite(selected->value[i]))
            keep_one(s, selected->index[i], selected->value[i]);
}

gwi_note gwi_look_at_selected(gw_sync *s)
{
    const gwi_list *selected = &s->list;
    size_t bad;

    if (!gwi_looks(s))
        return 0;
    bad = gwi_first_nonfinite(selected->value, selected->n);
    if (bad == selected->n)
        return 0;
    s->whole->spoiled = s->whole->spoiled || gwi_looks_later(s);
    keep_finite(s, selected);
    bad = selected->index[bad];
    if (gwi_exchange_of(&s->spec)->closes_up)
        bad = gwi_rest_place(s, bad);
    return gwi_note_at(s, bad);
}

gwi_note gwi_drop_overflow(const gw_sync *s, const gwi_list *list)
{
    size_t bad = list->n;

    if (!gwi_looks(s))
        return 0;
    for (size_t i = list->n; i-- > 0;)
        if (!isfinite(list->value[i])) {
            list->value[i] = 0;
            bad = i;
        }
    return bad < list->n ? gwi_note_of_sum(s, list->index[bad]) : 0;
}
