/* SPDX-License-Identifier: Apache-2.0
 *
 * entry.c - gw_sync_enter(): a sync goes on with the workers of another comm. */
#include "sync/elastic/entry.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "kernels/crc32c.h"
#include "sync/schedule.h"
#include "sync/segments.h"
#include "sync/state/memories.h"
#include "wire/wire_bytes.h"

/* ---- another comm --------------------------------------------------------------- */

static void move_memories(gw_sync *to, gw_sync *from)
{
    for (int tag = 0; tag < GWI_TAGS; tag++) {
        float *fresh = to->kept[tag];
        to->kept[tag] = from->kept[tag];
        from->kept[tag] = fresh;
    }
    gwi_segments_share(to);
}

/* Momentum may have been set since the sync was made. */
static void move_settings(gw_sync *to, const gw_sync *from)
{
    memcpy(to->spec.options[GWI_MOMENTUM], from->spec.options[GWI_MOMENTUM],
           GWI_OPTIONS_MAX);
    for (size_t i = 0; i < to->segment_count; i++)
        memcpy(to->segments[i]->spec.options[GWI_MOMENTUM],
               from->spec.options[GWI_MOMENTUM], GWI_OPTIONS_MAX);
}

static void move_counters(gw_sync *to, gw_sync *from)
{
    to->step = from->step;
    to->exchanged = from->exchanged;
    to->phase = from->phase;
    to->now = from->now;
    to->stats = from->stats;
    to->guard = from->guard;
    to->started = from->started;
    to->spoiled = from->spoiled;
    to->undo = from->undo;
    from->undo = NULL;
    to->gathered = from->gathered;
    from->gathered = NULL;
    gwi_segments_follow(to);
}

/* Parts make their states anew; what they remember stays. */
static gw_status go_over(gw_sync **sync, gw_comm *comm)
{
    gw_sync *old = *sync, *s;
    gw_sync_options opt = {
        .struct_size = sizeof opt, .nonfinite = old->nonfinite, .seed = old->seed};

    GWI_TRY(gw_sync_new(&s, old->asked, old->layout, comm, &opt));
    move_settings(s, old);
    move_memories(s, old);
    move_counters(s, old);
    gw_sync_free(old);
    *sync = s;
    return GW_OK;
}

/* ---- the end of an entry ----------------------------------------------------------
 */

/* What a worker says at the end: the check of the common model, and whether a result
 * is missing in it. */
enum { WORD_LEN = 8 };

/* Models of which only parts are ever exchanged need not be equal. */
static bool is_compared(const gw_sync *s)
{
    return !gwi_selector_of(&s->spec)->of_models;
}

static uint64_t own_word(gwi_meet *m)
{
    const gw_sync *s = m->sync;
    const float *x = m->model != NULL ? m->model : gwi_common_model(s, m->params);
    uint64_t check = gwi_crc32c(0, x, s->layout->floats * sizeof *x);

    m->entry.check = (uint32_t)check;

    if (!is_compared(s))
        return 0;
    return check << 1 | (s->undo->ready == GWI_GRADIENT_CALL);
}

static gw_status judge_words(gwi_meet *m, const uint8_t *words, const size_t *lens)
{
    uint64_t of_source = gwi_read_u64le(words + (size_t)m->entry.source * WORD_LEN);

    for (int r = 0; r < m->comm->workers; r++) {
        uint64_t word = gwi_read_u64le(words + (size_t)r * WORD_LEN);
        if (lens[r] == WORD_LEN && ((word ^ of_source) & 1) != 0)
            continue; /* one of them has made a step that the other is about to make */
        if (lens[r] == WORD_LEN && word == of_source)
            continue;
        gw_fail(GW_ERR_DIFFER,
                "the model of worker %d differs from that of worker %d after step "
                "%" PRIu64 ", but '%s' should keep them equal",
                r, m->entry.source, m->sync->undo->base, m->sync->text);
        return gwi_comm_break(m->comm, GW_ERR_DIFFER);
    }
    return GW_OK;
}

/* After this, everybody knows that everybody has the state. */
static gw_status compare(gwi_meet *m)
{
    size_t p = (size_t)m->comm->workers;
    uint8_t own[WORD_LEN], *all = gwi_calloc(p, WORD_LEN + sizeof(size_t));
    size_t *lens = (size_t *)(void *)all;
    gw_status st;

    if (all == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory for %zu workers", p);
    gwi_write_u64le(own, own_word(m));
    st = gw_allgather(m->comm, own, WORD_LEN, lens + p, WORD_LEN, lens);
    if (st == GW_OK)
        st = judge_words(m, (uint8_t *)(lens + p), lens);
    gwi_free(all);
    return st;
}

static bool is_here(const gwi_meet *m, uint64_t id)
{
    for (int r = 0; r < m->comm->workers; r++)
        if (m->ids[r] == id)
            return true;
    return false;
}

static void count_losses(gwi_meet *m)
{
    const gwi_undo *u = m->sync->undo;
    double sum = 0;

    for (int i = 0; i < u->fellow_count; i++)
        if (!is_here(m, u->fellows[i].id)) {
            m->entry.gone++;
            sum += u->fellows[i].norm * u->fellows[i].norm;
        }
    m->entry.lost = sqrt(sum);
}

static void complete(gwi_meet *m, gwi_fellow *fellows)
{
    gw_sync *s = m->sync;
    gwi_undo *u = s->undo;
    size_t n = s->layout->floats;
    int rank = m->comm->rank;

    if (m->entry.joined) {
        memcpy(m->params, m->model, n * sizeof *m->params);
        if (s->kept[GWI_REFERENCE] != NULL)
            memcpy(s->kept[GWI_REFERENCE], m->model, n * sizeof *m->model);
        gwi_undo_common(s, m->params);
    }
    s->started = true;
    u->last = u->completed = m->entry.number;
    u->id = m->ids[rank];
    for (int r = 0; r < m->comm->workers; r++)
        fellows[r] =
            (gwi_fellow){m->ids[r], m->claims[r].leaves ? 0 : m->claims[r].norm};
    gwi_free(u->fellows);
    gwi_free(u->ids);
    gwi_free(u->takes);
    u->fellows = fellows;
    u->fellow_count = m->comm->workers;
    u->ids = m->ids;
    u->takes = m->takes;
    gwi_inherit(m);
}

/* ---- the call -------------------------------------------------------------------- */

static gw_status hand_rest(gwi_meet *m)
{
    if (m->opt == NULL || m->opt->hand == NULL)
        return GW_OK;
    return m->opt->hand(m->opt->arg, m->comm, &m->entry);
}

/* A leaver leaves when all know that the heir has what it left. */
static gw_status let_go(gwi_meet *m)
{
    if (m->entry.leavers == 0)
        return GW_OK;
    GWI_TRY(gw_barrier(m->comm));
    m->entry.left = m->claims[m->comm->rank].leaves;
    return GW_OK;
}

static gw_status meet(gwi_meet *m)
{
    gwi_undo *u = m->sync->undo;
    gwi_fellow *fellows;

    GWI_TRY(gwi_gather_claims(m));
    gwi_decide(m);
    count_losses(m);
    if (m->entry.joined)
        gwi_forget(m->sync);
    GWI_TRY(gwi_hand_state(m));
    m->entry.step = m->sync->step - (u->ready == GWI_GRADIENT_CALL);
    GWI_TRY(hand_rest(m));
    GWI_TRY(gwi_hand_legacies(m));
    GWI_TRY(compare(m));
    fellows = gwi_calloc((size_t)m->comm->workers, sizeof *fellows);
    if (fellows == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory for the workers");
    complete(m, fellows);
    return let_go(m);
}

static gw_status prepare(gwi_meet *m)
{
    size_t p = (size_t)m->comm->workers;

    if (m->sync->undo == NULL) {
        gw_status st = gwi_undo_new(m->sync);
        if (st != GW_OK) {
            gwi_undo_free(m->sync);
            return st;
        }
    }
    GWI_TRY(gwi_undo_fit(m->sync));
    m->claims = gwi_calloc(p, sizeof *m->claims);
    m->ids = gwi_calloc(p, sizeof *m->ids);
    m->takes = gwi_calloc(p, 1);
    if (m->claims == NULL || m->ids == NULL || m->takes == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory for %zu workers", p);
    m->entry.struct_size = sizeof m->entry;
    m->entry.rank = m->comm->rank;
    m->entry.workers = m->comm->workers;
    m->entry.ids = m->ids;
    m->entry.takes = m->takes;
    return GW_OK;
}

/* What an entry that was completed has handed over to the sync stays. */
static void clean_up(gwi_meet *m)
{
    gwi_free(m->claims);
    gwi_free(m->model);
    if (m->sync->undo == NULL || m->sync->undo->ids != m->ids) {
        gwi_free(m->ids);
        gwi_free(m->takes);
    }
}

static gw_status check_arguments(const float *params, const gw_enter_options *opt,
                                 const gw_entry *out)
{
    if (params == NULL || (opt != NULL && opt->struct_size != sizeof *opt) ||
        (out != NULL && out->struct_size != sizeof *out))
        return gw_fail(GW_ERR_ARG, "gw_sync_enter() needs params, and options and "
                                   "an entry whose struct_size is set");
    return GW_OK;
}

gw_status gw_sync_enter(gw_sync **sync, gw_comm *comm, float *params,
                        const gw_enter_options *opt, gw_entry *out)
{
    gwi_meet m = {.comm = comm, .params = params, .opt = opt};
    gw_status st;

    GWI_TRY(check_arguments(params, opt, out));
    if ((*sync)->comm != comm || (*sync)->undo != NULL)
        GWI_TRY(go_over(sync, comm));
    m.sync = *sync;
    st = prepare(&m);
    if (st == GW_OK)
        st = meet(&m);
    if (st == GW_OK && out != NULL)
        *out = m.entry;
    if (m.entry.joined && m.sync->undo->completed != m.entry.number)
        gwi_forget(m.sync);
    clean_up(&m);
    return st;
}

uint64_t gw_sync_exchanged(const gw_sync *s)
{
    return s->undo != NULL ? s->undo->base : 0;
}

uint64_t gw_sync_period(const gw_sync *s)
{
    gwi_phase phase = s->phase;

    if (s->undo == NULL)
        return 0;
    if (s->spec.subject == GWI_GRADIENT || s->step < gwi_schedule_start(&s->spec))
        return 1;
    if (phase.end <= s->undo->base)
        (void)gwi_schedule_at(&s->spec, s->undo->base + 1, s->comm->workers, &phase);
    return phase.end - s->undo->base;
}
