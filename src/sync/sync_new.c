/* SPDX-License-Identifier: Apache-2.0
 *
 * sync_new.c - making a sync: reading its spec, choosing its exchange, comparing
 * settings with the other workers, getting its memory. */
#include "sync/sync.h"

#include <inttypes.h>
#include <string.h>

#include "kernels/random.h"
#include "sync/agreement.h"
#include "sync/overlap.h"
#include "sync/small.h"

static const gwi_exchange *const exchanges[] = {
    &gwi_exchange_means, &gwi_exchange_dense, &gwi_exchange_gather,
    &gwi_exchange_tree,  &gwi_exchange_coded,
};

const gwi_exchange *gwi_exchange_for(const gwi_spec *spec)
{
    for (size_t i = 0; i < sizeof exchanges / sizeof *exchanges; i++)
        if (exchanges[i]->fits(spec))
            return exchanges[i];
    /* What is left, rotating chunks, are averaged whole. */
    return &gwi_exchange_dense;
}

uint64_t gwi_sync_key(const gw_sync *s, bool second)
{
    uint64_t worker = (uint64_t)s->comm->rank;

    if (second)
        worker += (uint64_t)s->comm->workers;
    return gwi_random_key(s->seed + s->spec.opt.seed, s->step, worker);
}

/* ---- the same on all workers -------------------------------------------- */

/* What must be the same on all workers, in a form that can be sent. */
typedef struct settings {
    uint64_t floats, layout, seed, nonfinite;
    char text[256];
} settings;

/* FNV-1a, for telling layouts apart and nothing else. */
static uint64_t hash(uint64_t h, const void *data, size_t len)
{
    const uint8_t *bytes = data;

    for (size_t i = 0; i < len; i++)
        h = (h ^ bytes[i]) * 1099511628211u;
    return h;
}

static uint64_t layout_hash(const gw_layout *l)
{
    uint64_t h = 14695981039346656037u;

    for (size_t i = 0; i < l->count; i++) {
        const gw_tensor *t = &l->tensors[i];
        uint64_t shape[2] = {t->rows, t->cols};
        h = hash(h, t->name, strlen(t->name) + 1);
        h = hash(h, shape, sizeof shape);
    }
    return h;
}

static gw_status fail_mismatch(const settings *own, const settings *other, int rank)
{
    if (strncmp(own->text, other->text, sizeof own->text) != 0)
        return gw_fail(GW_ERR_MISMATCH,
                       "this worker syncs by '%s', worker %d by '%.255s'", own->text,
                       rank, other->text);
    if (own->floats != other->floats)
        return gw_fail(GW_ERR_MISMATCH,
                       "this worker's model has %" PRIu64
                       " parameters, worker %d's %" PRIu64,
                       own->floats, rank, other->floats);
    return gw_fail(GW_ERR_MISMATCH, "this worker and worker %d differ in %s", rank,
                   own->layout != other->layout ? "the tensors of the model"
                   : own->seed != other->seed   ? "the seed of the sync"
                                                : "what to do about NaN and infinity");
}

/* Gathers what all were started with, to say who differs in what. */
static gw_status name_difference(gw_comm *c, const settings *own)
{
    size_t p = (size_t)c->workers;
    settings *all = gwi_calloc(p, sizeof *all + sizeof(size_t));
    gw_status st;

    if (all == NULL)
        return gw_fail(GW_ERR_NOMEM, "no memory to compare %zu workers", p);
    size_t *lens = (size_t *)(all + p);
    st = gw_allgather(c, own, sizeof *own, all, sizeof *own, lens);
    for (size_t r = 0; st == GW_OK && r < p; r++)
        if (lens[r] != sizeof *own || memcmp(own, &all[r], sizeof *own) != 0)
            st = fail_mismatch(own, &all[r], (int)r);
    gwi_free(all);
    return st;
}

/* A hash is compared first: a thousand workers would send a million messages to see
 * that nothing is wrong. */
static gw_status compare_settings(const gw_sync *s)
{
    settings own = {.floats = s->layout->floats,
                    .layout = layout_hash(s->layout),
                    .seed = s->seed,
                    .nonfinite = (uint64_t)s->nonfinite};
    bool same;

    memcpy(own.text, s->text, sizeof own.text);
    GWI_TRY(
        gwi_all_same(s->comm, hash(14695981039346656037u, &own, sizeof own), &same));
    return same ? GW_OK : name_difference(s->comm, &own);
}

/* ---- memory ------------------------------------------------------------- */

static gw_status get_vector(const gw_sync *s, bool wanted, float **out)
{
    size_t n = s->layout->floats;

    *out = wanted ? gwi_calloc(n, sizeof **out) : NULL;
    if (wanted && *out == NULL)
        return gw_fail(GW_ERR_NOMEM, "no memory for %zu floats beside the model", n);
    return GW_OK;
}

static gw_status get_memory(gw_sync *s)
{
    gwi_memories keeps = gwi_spec_memories(&s->spec);

    GWI_TRY(get_vector(s, keeps.residual, &s->residual));
    GWI_TRY(get_vector(s, keeps.velocity, &s->velocity));
    GWI_TRY(get_vector(s, keeps.reference, &s->reference));
    GWI_TRY(get_vector(s, keeps.mean, &s->mean));
    GWI_TRY(gwi_agreement_init(s));
    return gwi_small_init(s);
}

/* ---- making ------------------------------------------------------------- */

static gw_status check_arguments(const gw_layout *layout, const gw_comm *comm,
                                 const gw_sync_options *opt)
{
    if (layout == NULL || comm == NULL)
        return gw_fail(GW_ERR_ARG, "gw_sync_new() needs a layout and a comm");
    if (opt != NULL && (opt->struct_size != sizeof *opt || opt->nonfinite < 0 ||
                        opt->nonfinite > GW_NONFINITE_END))
        return gw_fail(
            GW_ERR_ARG,
            "gw_sync_options: struct_size or nonfinite is not one known here");
    return GW_OK;
}

static gw_status build(gw_sync *s, const gw_layout *layout, gw_comm *comm,
                       const gw_sync_options *opt)
{
    s->comm = comm;
    s->layout = gwi_layout_copy(layout);
    if (s->layout == NULL)
        return gw_fail(GW_ERR_NOMEM, "no memory for a layout");
    s->nonfinite = opt != NULL ? opt->nonfinite : GW_NONFINITE_STOP;
    s->seed = opt != NULL ? opt->seed : 0;
    gwi_spec_write(&s->spec, s->asked, sizeof s->asked);
    memcpy(s->text, s->asked, sizeof s->text);
    GWI_TRY(compare_settings(s));
    GWI_TRY(get_memory(s));
    return s->exchange->init != NULL ? s->exchange->init(s) : GW_OK;
}

gw_status gw_sync_new(gw_sync **out, const char *text, const gw_layout *layout,
                      gw_comm *comm, const gw_sync_options *opt)
{
    gwi_spec spec;
    gw_sync *s;
    gw_status st;

    *out = NULL;
    GWI_TRY(check_arguments(layout, comm, opt));
    GWI_TRY(gwi_spec_parse(text, &spec));
    const gwi_exchange *exchange = gwi_exchange_for(&spec);
    s = gwi_calloc(1, sizeof *s + exchange->state_size);
    if (s == NULL)
        return gw_fail(GW_ERR_NOMEM, "no memory for a sync");
    s->exchange = exchange;
    s->state = s + 1;
    s->spec = spec;
    st = build(s, layout, comm, opt);
    if (st != GW_OK)
        goto fail;
    *out = s;
    return GW_OK;

fail:
    gw_sync_free(s);
    return st;
}

void gw_sync_free(gw_sync *s)
{
    if (s == NULL)
        return;
    gwi_overlap_free(s);
    if (s->exchange->fini != NULL)
        s->exchange->fini(s);
    gwi_free(s->residual);
    gwi_free(s->velocity);
    gwi_free(s->reference);
    gwi_free(s->mean);
    gwi_small_fini(s);
    gwi_free(s->gathered);
    gwi_free(s->words);
    gw_layout_free(s->layout);
    gwi_free(s);
}
