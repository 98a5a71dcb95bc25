/* SPDX-License-Identifier: Apache-2.0
 *
 * entries.c - steps for callers that keep the residual and choose entries themselves,
 * as on a GPU, whose vectors should not cross to the host.
 *
 *     caller   residual += gradient;  its k largest move to a list
 *     here     the exchange of that list, as in any other step
 *     caller   residual += what is kept;  gradient = the result
 *
 * What is kept is a sequence: an index may occur several times, and additions in
 * another order would round differently. */
#include "sync/entries.h"

#include <assert.h>
#include <string.h>

#include "kernels/merge.h"
#include "sync/measure.h"
#include "sync/notes.h"
#include "sync/beside/overlap.h"
#include "sync/schedule.h"
#include "sync/segments.h"
#include "sync/selection.h"

/* ---- memory ------------------------------------------------------------------ */

/* An exchange keeps a list a few times, once for each message, or once for each of the
 * rounds of a tree, twice if the step is skipped. */
static size_t kept_lists(int workers)
{
    size_t lists = (size_t)workers + 8;

    for (int d = 1; d < workers; d *= 2)
        lists += 2;
    return lists;
}

static gwi_list carve(uint8_t **memory, size_t cap)
{
    gwi_list list = gwi_list_in(*memory, cap);

    *memory += 8 * cap;
    return list;
}

/* The first such step allocates. */
static gw_status get_aside(gw_sync *s)
{
    size_t k = s->list.cap, p = (size_t)s->comm->workers, kept = kept_lists((int)p);
    struct gwi_aside *a = s->aside;

    if (a != NULL)
        return GW_OK;
    a = gwi_calloc(1, sizeof *a);
    uint8_t *at = gwi_calloc(2 * p + kept, 8 * k);
    if (a == NULL || at == NULL) {
        gwi_free(at);
        gwi_free(a);
        return gw_fail(GW_ERR_NOMEM, "not enough memory for %zu lists of %zu entries",
                       2 * p + kept, k);
    }
    a->memory = at;
    a->result = carve(&at, p * k);
    a->spare = carve(&at, p * k);
    a->kept = carve(&at, kept * k);
    s->aside = a;
    return GW_OK;
}

void gwi_aside_free(gw_sync *s)
{
    if (s->aside != NULL)
        gwi_free(s->aside->memory);
    gwi_free(s->aside);
}

/* ---- what the exchange asks for and brings --------------------------------------- */

void gwi_aside_choose(gw_sync *s)
{
    const gw_entries *chosen = s->aside->chosen;

    assert(chosen->count <= s->list.cap);
    s->list.n = chosen->count;
    if (chosen->count == 0)
        return;
    memcpy(s->list.index, chosen->index, chosen->count * sizeof *chosen->index);
    memcpy(s->list.value, chosen->value, chosen->count * sizeof *chosen->value);
}

void gwi_aside_keep_one(gw_sync *s, uint32_t index, float value)
{
    gwi_list *kept = &s->aside->kept;

    assert(kept->n < kept->cap);
    kept->index[kept->n] = index;
    kept->value[kept->n++] = value;
}

void gwi_aside_keep(gw_sync *s, const gwi_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        gwi_aside_keep_one(s, list->index[i], list->value[i]);
}

void gwi_aside_add(const gw_sync *s, const gwi_list *list)
{
    struct gwi_aside *a = s->aside;
    gwi_list before = a->result;

    gwi_merge_add(&before, list, &a->spare);
    a->result = a->spare;
    a->spare = before;
}

/* ---- the calls ------------------------------------------------------------------ */

/* Whether this step can be made of entries; asked of a sync whose step has begun. A
 * step that may be put back needs the sync's own residual. */
static bool takes_entries(const gw_sync *s)
{
    const gwi_selector *selector = gwi_selector_of(&s->spec);

    return s->undo == NULL && s->late == NULL && s->segment_count == 1 &&
           selector->largest != NULL && selector->largest(&s->spec) &&
           gwi_goes_straight(s);
}

/* The next step, if nothing is changed before it. */
static gw_sync next_step(const gw_sync *s)
{
    gw_sync next = *s;

    next.step++;
    next.now = gwi_schedule_at(&next.spec, next.step, next.comm->workers, &next.phase);
    return next;
}

int gw_sync_takes_entries(const gw_sync *s)
{
    gw_sync later = *s;

    later.now = (gwi_moment){.gradient = s->spec.subject == GWI_GRADIENT};
    return takes_entries(&later);
}

size_t gw_sync_entries_due(const gw_sync *s)
{
    gw_sync next = next_step(s);

    return takes_entries(&next) ? gwi_wanted(&next) : 0;
}

static gw_status check_entries(const gw_sync *s, const gw_entries *chosen)
{
    size_t due = gw_sync_entries_due(s), n = s->layout->floats;

    if (due == 0 || gwi_overlap_pending(s))
        return gw_fail(GW_ERR_ARG, "'%s' needs the whole gradient in this step",
                       s->text);
    if (chosen->count > due)
        return gw_fail(GW_ERR_ARG, "%zu entries; this step takes at most %zu",
                       chosen->count, due);
    for (size_t i = 0; i < chosen->count; i++)
        if (chosen->index[i] >= n ||
            (i > 0 && chosen->index[i] <= chosen->index[i - 1]))
            return gw_fail(GW_ERR_ARG,
                           "entry %zu has index %u; indices must ascend and be below "
                           "%zu",
                           i, (unsigned)chosen->index[i], n);
    return GW_OK;
}

static gw_status exchange_entries(gw_sync *s, const gw_entries *chosen, gwi_note *note)
{
    struct gwi_aside *a = s->aside;
    gwi_result at = {.v = NULL};

    a->kept.n = a->result.n = 0;
    a->chosen = chosen;
    a->open = true;
    gwi_measure_begin(s);
    gwi_encodes(s);
    gw_status st = gwi_exchange_of(&s->spec)->run(s, &at, note);
    gwi_measure_end(s);
    a->open = false;
    /* A vector of zeros takes -0 in as 0. */
    for (size_t i = 0; i < a->result.n; i++)
        a->result.value[i] += 0.0f;
    return st;
}

gw_status gw_sync_entries(gw_sync *s, const gw_entries *chosen, gw_entries *result,
                          gw_entries *kept)
{
    gwi_note note = 0;

    GWI_TRY(check_entries(s, chosen));
    GWI_TRY(get_aside(s));
    gwi_sync_begin_step(s);
    gw_status st = exchange_entries(s, chosen, &note);
    const gwi_list *sum = &s->aside->result, *back = &s->aside->kept;
    *result = (gw_entries){sum->index, sum->value, note == 0 ? sum->n : 0};
    *kept = (gw_entries){back->index, back->value, back->n};
    return gwi_sync_outcome(s, st, note);
}
