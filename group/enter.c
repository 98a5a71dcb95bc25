/* SPDX-License-Identifier: Apache-2.0
 *
 * enter.c - enters a view with a training. */
#include "group.h"

#include <stdlib.h>
#include <string.h>

int gw_group_lost(gw_status status)
{
    return status == GW_ERR_PEER || status == GW_ERR_TIMEOUT;
}

void gw_training_end(gw_training *t)
{
    gw_sync_free(t->sync);
    gw_comm_free(t->comm);
    t->sync = NULL;
    t->comm = NULL;
}

/* ---- all train the same ------------------------------------------------------------
 */

/* What a worker brings to a view. */
typedef struct entrant {
    uint64_t trains; /* it has been in a view before */
    uint64_t floats, tensors, seed, nonfinite;
    char spec[256];
} entrant;

/* FNV-1a. */
static uint64_t hash(uint64_t h, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;

    for (size_t i = 0; i < len; i++)
        h = (h ^ at[i]) * 0x100000001b3u;
    return h;
}

static uint64_t hash_tensors(const gw_layout *layout)
{
    uint64_t h = 0xcbf29ce484222325u;

    for (size_t i = 0; i < gw_layout_tensors(layout); i++) {
        const gw_tensor *t = gw_layout_tensor(layout, i);
        uint64_t shape[2] = {t->rows, t->cols};
        h = hash(h, t->name, strlen(t->name) + 1);
        h = hash(h, shape, sizeof shape);
    }
    return h;
}

static gw_status describe(const gw_training *t, entrant *e)
{
    memset(e, 0, sizeof *e);
    GWG_TRY(gw_spec_check(t->spec, e->spec, sizeof e->spec));
    e->trains = t->sync != NULL;
    e->floats = gw_layout_floats(t->layout);
    e->tensors = hash_tensors(t->layout);
    e->seed = t->options != NULL ? t->options->seed : 0;
    e->nonfinite =
        (uint64_t)(t->options != NULL ? t->options->nonfinite : GW_NONFINITE_STOP);
    return GW_OK;
}

static int differ(const entrant *a, const entrant *b)
{
    return strcmp(a->spec, b->spec) != 0 || a->floats != b->floats ||
           a->tensors != b->tensors || a->seed != b->seed ||
           a->nonfinite != b->nonfinite;
}

static gw_status fail_differs(const entrant *own, const entrant *first, int rank)
{
    if (strcmp(own->spec, first->spec) != 0)
        return gw_fail(GW_ERR_MISMATCH,
                       "this worker uses '%s', but worker %d uses '%s'", own->spec,
                       rank, first->spec);
    if (own->floats != first->floats)
        return gw_fail(GW_ERR_MISMATCH,
                       "this worker's model has %llu parameters, but worker %d's has "
                       "%llu",
                       (unsigned long long)own->floats, rank,
                       (unsigned long long)first->floats);
    return gw_fail(GW_ERR_MISMATCH, "this worker and worker %d differ in %s", rank,
                   own->tensors != first->tensors ? "the tensors of the model"
                   : own->seed != first->seed     ? "the seed of the sync"
                                              : "what to do about NaN and infinity");
}

/* Those who train already are right, otherwise worker 0 is. Who differs must go; the
 * others go on without it. */
static gw_status judge(entrant *all, int workers, int own)
{
    int first = 0;

    while (first < workers && !all[first].trains)
        first++;
    first = first < workers ? first : 0;
    for (int r = 0; r < workers; r++)
        all[r].spec[sizeof all[r].spec - 1] = '\0';
    if (differ(&all[own], &all[first]))
        return fail_differs(&all[own], &all[first], first);
    for (int r = 0; r < workers; r++)
        if (differ(&all[r], &all[first]))
            return gw_fail(GW_ERR_PEER, "worker %d was started with other settings", r);
    return GW_OK;
}

static gw_status compare(const gw_training *t, gw_comm *comm)
{
    size_t workers = (size_t)gw_comm_workers(comm);
    entrant own, *all = calloc(workers, sizeof *all + sizeof(size_t));
    gw_status st;

    if (all == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory to compare %zu workers",
                       workers);
    size_t *lens = (size_t *)(all + workers);
    st = describe(t, &own);
    if (st == GW_OK)
        st = gw_allgather(comm, &own, sizeof own, all, sizeof own, lens);
    for (size_t r = 0; st == GW_OK && r < workers; r++)
        if (lens[r] != sizeof own)
            st = gw_fail(GW_ERR_DATA, "worker %zu has another version of gradwire", r);
    if (st == GW_OK)
        st = judge(all, (int)workers, gw_comm_rank(comm));
    free(all);
    return st;
}

/* ---- entering ----------------------------------------------------------------------
 */

/* A sync that was made, and could not enter, goes on to the next view like others. */
static gw_status bring_together(gw_training *t)
{
    gw_enter_options opt = {
        .struct_size = sizeof opt, .leaves = t->leaves, .hand = t->hand, .arg = t->arg};

    t->entry.struct_size = sizeof t->entry;
    if (t->sync == NULL)
        GWG_TRY(gw_sync_new(&t->sync, t->spec, t->layout, t->comm, t->options));
    return gw_sync_enter(&t->sync, t->comm, t->params, &opt, &t->entry);
}

gw_status gw_group_enter(gw_group *g, gw_training *t)
{
    gw_status st;

    if (t->struct_size != sizeof *t || t->spec == NULL || t->layout == NULL)
        return gw_fail(GW_ERR_ARG, "invalid gw_training");
    GWG_TRY(gw_spec_check(t->spec, NULL, 0));
    if (t->leaves)
        gw_group_leaving(g);
    do {
        gw_comm_free(t->comm);
        t->comm = NULL;
        GWG_TRY(gw_group_next(g, &t->comm));
        st = compare(t, t->comm);
        if (st == GW_OK)
            st = bring_together(t);
    } while (gw_group_lost(st) ||
             (st == GW_OK && t->entry.leavers > 0 && !t->entry.left));
    return st;
}
