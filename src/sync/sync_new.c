/* SPDX-License-Identifier: Apache-2.0
 *
 * sync_new.c - makes a sync: reads its spec, compares settings with the other workers,
 * and allocates its memory. */
#include "sync/sync.h"

#include <inttypes.h>
#include <string.h>

#include "hash.h"
#include "kernels/random.h"
#include "sync/state/agreement.h"
#include "sync/state/memories.h"
#include "sync/beside/late.h"
#include "sync/beside/overlap.h"
#include "sync/beside/stream.h"
#include "sync/entries.h"
#include "sync/elastic/undo.h"
#include "sync/segments.h"
#include "sync/small.h"

/* Segments after the first have seeds of their own. */
static uint64_t seed_of(const gw_sync *s)
{
    const gwi_coder *coder = gwi_coder_of(&s->spec);
    uint64_t seed = s->seed + (coder->seed != NULL ? coder->seed(&s->spec) : 0);

    return s->number == 0 ? seed : gwi_random64(seed, s->number);
}

uint64_t gwi_group_key(const gw_sync *s, int worker, int number)
{
    uint64_t past = (uint64_t)number * (uint64_t)s->comm->workers;

    return gwi_random_key(seed_of(s), s->step, past + (uint64_t)worker);
}

uint64_t gwi_sync_key(const gw_sync *s, bool second)
{
    return gwi_group_key(s, s->comm->rank, second);
}

/* No worker has this number. */
uint64_t gwi_common_key(const gw_sync *s, uint64_t seed)
{
    return gwi_random_key(s->seed + seed, s->step, UINT64_MAX);
}

/* ---- the same on all workers -------------------------------------------- */

/* What must be the same on all workers, in a form that can be sent. */
typedef struct settings {
    uint64_t floats, layout, seed, nonfinite;
    char text[256];
} settings;

static uint64_t layout_hash(const gw_layout *l)
{
    uint64_t h = GWI_HASH_START;

    for (size_t i = 0; i < l->count; i++) {
        const gw_tensor *t = &l->tensors[i];
        uint64_t shape[2] = {t->rows, t->cols};
        h = gwi_hash(h, t->name, strlen(t->name) + 1);
        h = gwi_hash(h, shape, sizeof shape);
    }
    return h;
}

static gw_status fail_mismatch(const settings *own, const settings *other, int rank)
{
    if (strncmp(own->text, other->text, sizeof own->text) != 0)
        return gw_fail(GW_ERR_MISMATCH,
                       "this worker uses '%s', but worker %d uses '%.255s'", own->text,
                       rank, other->text);
    if (own->floats != other->floats)
        return gw_fail(GW_ERR_MISMATCH,
                       "this worker's model has %" PRIu64
                       " parameters, but worker %d's has %" PRIu64,
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
        return gw_fail(GW_ERR_NOMEM, "not enough memory to compare %zu workers", p);
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

    memcpy(own.text, s->asked, sizeof own.text);
    GWI_TRY(gwi_all_same(s->comm, gwi_hash(GWI_HASH_START, &own, sizeof own), &same));
    return same ? GW_OK : name_difference(s->comm, &own);
}

/* ---- memory ------------------------------------------------------------- */

static gw_status get_kept(gw_sync *s, const gwi_remembered *m)
{
    size_t n = gwi_kept_floats(s, m);

    s->kept[m->tag] = gwi_calloc(n, sizeof *s->kept[m->tag]);
    if (s->kept[m->tag] == NULL)
        return gw_fail(GW_ERR_NOMEM,
                       "not enough memory for %zu floats in addition to the model", n);
    return GW_OK;
}

static gw_status get_memory(gw_sync *s)
{
    gwi_memory_walk walk = {0};
    const gwi_remembered *m;

    while ((m = gwi_next_memory(&s->spec, &walk)) != NULL)
        GWI_TRY(get_kept(s, m));
    gwi_segments_share(s);
    return gwi_agreement_init(s);
}

/* States of parts begin at multiples of 16 bytes behind the sync. */
static size_t room_for(const gwi_part *part)
{
    return (part->state_size + 15) & ~(size_t)15;
}

static size_t room_for_parts(const gwi_spec *spec)
{
    size_t room = 0;

    for (int kind = 0; kind < GWI_KINDS; kind++)
        room += room_for(spec->part[kind]);
    return room;
}

gw_sync *gwi_sync_allocate(const gwi_spec *spec)
{
    size_t own = (sizeof(gw_sync) + 15) & ~(size_t)15;
    gw_sync *s = gwi_calloc(1, own + room_for_parts(spec));

    if (s == NULL)
        return NULL;
    s->spec = *spec;
    s->whole = s->alone = s;
    s->segments = &s->alone;
    s->segment_count = 1;
    uint8_t *at = (uint8_t *)s + own;
    for (int kind = 0; kind < GWI_KINDS; kind++) {
        s->state[kind] = at;
        at += room_for(spec->part[kind]);
    }
    return s;
}

/* ---- making ------------------------------------------------------------- */

static gw_status check_arguments(const gw_layout *layout, const gw_comm *comm,
                                 const gw_sync_options *opt)
{
    if (layout == NULL || comm == NULL)
        return gw_fail(GW_ERR_ARG, "gw_sync_new() needs a layout and a comm");
    if (opt != NULL && (opt->struct_size != sizeof *opt || opt->nonfinite < 0 ||
                        opt->nonfinite > GW_NONFINITE_END))
        return gw_fail(GW_ERR_ARG,
                       "invalid gw_sync_options: struct_size %zu (expected %zu), "
                       "nonfinite %d (expected 0 to %d)",
                       opt->struct_size, sizeof *opt, (int)opt->nonfinite,
                       (int)GW_NONFINITE_END);
    return GW_OK;
}

static gw_status prepare(gw_sync *segment)
{
    GWI_TRY(gwi_small_init(segment));
    for (int kind = 0; kind < GWI_KINDS; kind++)
        if (segment->spec.part[kind]->init != NULL)
            GWI_TRY(segment->spec.part[kind]->init(segment));
    return GW_OK;
}

/* Prepares all segments; the whole knows of choices that were made, and what there is
 * of small tensors. */
static gw_status prepare_all(gw_sync *s)
{
    size_t small = 0;

    for (size_t i = 0; i < s->segment_count; i++) {
        GWI_TRY(prepare(s->segments[i]));
        small += s->segments[i]->small.count;
    }
    s->small.count = small;
    if (s->segments[0] != s) {
        s->spec = s->segments[0]->spec;
        memcpy(s->text, s->segments[0]->text, sizeof s->text);
    }
    return GW_OK;
}

static gw_status build(gw_sync *s, const gw_layout *layout, gw_comm *comm,
                       const gw_sync_options *opt)
{
    s->comm = comm;
    s->layout = gwi_layout_copy(layout);
    if (s->layout == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory for a layout");
    s->nonfinite = opt != NULL ? opt->nonfinite : GW_NONFINITE_STOP;
    s->seed = opt != NULL ? opt->seed : 0;
    gwi_spec_write(&s->spec, s->text, sizeof s->text);
    GWI_TRY(compare_settings(s));
    GWI_TRY(gwi_segments_new(s));
    GWI_TRY(get_memory(s));
    GWI_TRY(prepare_all(s));
    GWI_TRY(gwi_stream_init(s));
    return gwi_late_init(s);
}

gw_status gw_sync_new(gw_sync **out, const char *text, const gw_layout *layout,
                      gw_comm *comm, const gw_sync_options *opt)
{
    gwi_spec asked, spec;
    gw_sync *s;
    gw_status st;

    *out = NULL;
    GWI_TRY(check_arguments(layout, comm, opt));
    GWI_TRY(gwi_spec_parse(text, &asked));
    spec = asked;
    gwi_spec_settle(&spec, comm->workers);
    s = gwi_sync_allocate(&spec);
    if (s == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory for a sync");
    gwi_spec_write(&asked, s->asked, sizeof s->asked);
    st = build(s, layout, comm, opt);
    if (st != GW_OK)
        goto fail;
    *out = s;
    return GW_OK;

fail:
    gw_sync_free(s);
    return st;
}

static void unprepare(gw_sync *segment)
{
    for (int kind = 0; kind < GWI_KINDS; kind++)
        if (segment->spec.part[kind]->fini != NULL)
            segment->spec.part[kind]->fini(segment);
    gwi_coding_fini(&segment->coding);
    gwi_small_fini(segment);
}

void gw_sync_free(gw_sync *s)
{
    if (s == NULL)
        return;
    gwi_overlap_free(s);
    gwi_late_free(s);
    gwi_stream_free(s);
    gwi_aside_free(s);
    gwi_undo_free(s);
    for (size_t i = 0; i < s->segment_count; i++)
        unprepare(s->segments[i]);
    gwi_segments_free(s);
    for (int tag = 0; tag < GWI_TAGS; tag++)
        gwi_free(s->kept[tag]);
    gwi_free(s->gathered);
    gwi_free(s->words);
    gw_layout_free(s->layout);
    gwi_free(s);
}
