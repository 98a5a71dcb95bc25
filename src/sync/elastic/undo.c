/* SPDX-License-Identifier: Apache-2.0
 *
 * undo.c - copies before an exchange, commits after it, and puts back. */
#include "sync/elastic/undo.h"

#include <string.h>

#include "collective/check.h"
#include "sync/measure.h"
#include "sync/schedule.h"
#include "sync/segments.h"
#include "sync/state/memories.h"

/* What a worker tells at a commit: the count of the exchange, and the norm of its
 * residual as it was measured last. */
enum { WORD_LEN = 16 };

/* ---- making --------------------------------------------------------------------- */

/* Models that are selected from are never the same as a whole. */
static bool meets(const gwi_spec *spec)
{
    return !gwi_selector_of(spec)->of_models;
}

static gw_status check_spec(const gw_sync *s)
{
    if (s->late != NULL)
        return gw_fail(GW_ERR_SPEC,
                       "'%s' cannot go on with other workers: with delay=1, workers "
                       "that are left could have applied different results",
                       s->spec.stages[0]->name);
    if (s->stream != NULL)
        return gw_fail(GW_ERR_SPEC,
                       "'%s' cannot go on with other workers: with fragments, delay or "
                       "mix, there is no step after which all models are the same",
                       s->spec.stages[0]->name);
    if (gwi_schedule_of(&s->spec)->talks && !gwi_exchange_of(&s->spec)->differs)
        return GW_OK;
    return gw_fail(GW_ERR_SPEC,
                   "'%s' cannot go on with other workers: its models do not meet",
                   s->spec.stages[0]->name);
}

static gw_status get_floats(float **out, size_t n)
{
    *out = gwi_calloc(n, sizeof **out);
    return *out != NULL
               ? GW_OK
               : gw_fail(GW_ERR_NOMEM, "not enough memory for a copy of %zu floats", n);
}

gw_status gwi_undo_new(gw_sync *s)
{
    gwi_memory_walk walk = {0};
    const gwi_remembered *m;
    size_t n = s->layout->floats;

    GWI_TRY(check_spec(s));
    s->undo = gwi_calloc(1, sizeof *s->undo);
    if (s->undo == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory to put steps back");
    s->undo->finished = UINT64_MAX;
    GWI_TRY(get_floats(&s->undo->vector, n));
    if (s->spec.subject == GWI_MODEL && meets(&s->spec))
        GWI_TRY(get_floats(&s->undo->common, n));
    while ((m = gwi_next_memory(&s->spec, &walk)) != NULL)
        GWI_TRY(get_floats(&s->undo->kept[m->tag], gwi_kept_floats(s, m)));
    return GW_OK;
}

gw_status gwi_undo_fit(gw_sync *s)
{
    size_t p = (size_t)s->comm->workers;

    gwi_free(s->undo->words);
    s->undo->words = gwi_calloc(p, WORD_LEN + sizeof(size_t));
    if (s->undo->words == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory for %zu workers", p);
    /* What gw_allgather() will ask for. */
    return gwi_comm_scratch(s->comm, 2 * p * GWI_CHECK_LEN) != NULL ? GW_OK
                                                                    : GW_ERR_NOMEM;
}

void gwi_undo_free(gw_sync *s)
{
    gwi_undo *u = s->undo;

    if (u == NULL)
        return;
    gwi_free(u->vector);
    gwi_free(u->common);
    for (int tag = 0; tag < GWI_TAGS; tag++)
        gwi_free(u->kept[tag]);
    gwi_free(u->fellows);
    gwi_free(u->ids);
    gwi_free(u->takes);
    gwi_free(u->words);
    gwi_free(u);
    s->undo = NULL;
}

/* ---- copies --------------------------------------------------------------------- */

static gwi_counters counters_of(const gw_sync *s)
{
    return (gwi_counters){.step = s->step,
                          .exchanged = s->exchanged,
                          .base = s->undo->base,
                          .finished = s->undo->finished,
                          .steps = s->stats.steps,
                          .skipped = s->stats.skipped,
                          .lost_mass = s->stats.lost_mass,
                          .applied_mass = s->stats.applied_mass,
                          .phase = s->phase,
                          .now = s->now,
                          .guard = s->guard,
                          .spoiled = s->spoiled};
}

/* Bytes that crossed for nothing have crossed, and stay counted. */
static void set_counters(gw_sync *s, const gwi_counters *c)
{
    s->step = c->step;
    s->exchanged = c->exchanged;
    s->undo->base = c->base;
    s->undo->finished = c->finished;
    s->stats.steps = c->steps;
    s->stats.skipped = c->skipped;
    s->stats.lost_mass = c->lost_mass;
    s->stats.applied_mass = c->applied_mass;
    s->phase = c->phase;
    s->now = c->now;
    s->guard = c->guard;
    s->spoiled = c->spoiled;
    gwi_segments_follow(s);
}

static void swap_memories(gw_sync *s)
{
    for (int tag = 0; tag < GWI_TAGS; tag++) {
        float *before = s->undo->kept[tag];
        s->undo->kept[tag] = s->kept[tag];
        s->kept[tag] = before;
    }
    gwi_segments_share(s);
}

static void swap_floats(float *a, float *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float x = a[i];
        a[i] = b[i];
        b[i] = x;
    }
}

void gwi_undo_begin(gw_sync *s, const float *v)
{
    gwi_undo *u = s->undo;
    gwi_memory_walk walk = {0};
    const gwi_remembered *m;

    if (u == NULL)
        return;
    u->before = counters_of(s);
    u->next = (gwi_deed){u->last, u->done.count + 1};
    memcpy(u->vector, v, s->layout->floats * sizeof *v);
    while ((m = gwi_next_memory(&s->spec, &walk)) != NULL)
        memcpy(u->kept[m->tag], s->kept[m->tag], gwi_kept_floats(s, m) * sizeof *v);
    u->open = true;
}

/* ---- commits -------------------------------------------------------------------- */

static void write_word(const gw_sync *s, uint8_t word[WORD_LEN])
{
    uint64_t norm;

    memcpy(&norm, &s->guard.health.residual_norm, sizeof norm);
    gwi_write_u64le(word, s->undo->next.count);
    gwi_write_u64le(word + 8, norm);
}

static gw_status read_word(gw_sync *s, int from, const uint8_t *word, size_t len)
{
    gwi_undo *u = s->undo;
    uint64_t norm;

    if (len != WORD_LEN || gwi_read_u64le(word) != u->next.count) {
        gw_fail(GW_ERR_DATA, "worker %d has made another exchange than this one", from);
        return gwi_comm_break(s->comm, GW_ERR_DATA);
    }
    norm = gwi_read_u64le(word + 8);
    if (from < u->fellow_count)
        memcpy(&u->fellows[from].norm, &norm, sizeof norm);
    return GW_OK;
}

/* Returns once every worker has the result. */
static gw_status commit(gw_sync *s)
{
    int p = s->comm->workers;
    size_t *lens = s->undo->words;
    uint8_t *words = (uint8_t *)(lens + p), own[WORD_LEN];
    gw_status st;

    write_word(s, own);
    gwi_measure_begin(s);
    st = gw_allgather(s->comm, own, WORD_LEN, words, WORD_LEN, lens);
    gwi_measure_end(s);
    for (int r = 0; st == GW_OK && r < p; r++)
        st = read_word(s, r, words + (size_t)r * WORD_LEN, lens[r]);
    return st;
}

/* ---- around a call -------------------------------------------------------------- */

gw_status gwi_undo_end(gw_sync *s, float *v, gwi_call call, gw_status st)
{
    gwi_undo *u = s->undo;
    size_t n = s->layout->floats;
    gw_status committed;

    if (u == NULL || !u->open)
        return st;
    u->open = false;
    if (st < 0) {
        memcpy(v, u->vector, n * sizeof *v);
        swap_memories(s);
        set_counters(s, &u->before);
        return st;
    }
    committed = commit(s);
    if (committed == GW_OK) {
        u->done = u->next;
        u->base = s->step;
        return st;
    }
    swap_floats(v, u->vector, n);
    u->prepared = call;
    u->outcome = st;
    return committed;
}

bool gwi_undo_answers(gw_sync *s, float *v, gwi_call call, gw_status *st)
{
    gwi_undo *u = s->undo;

    if (u == NULL || (u->ready == GWI_NO_CALL && u->prepared == GWI_NO_CALL))
        return false;
    if (u->prepared != GWI_NO_CALL || u->ready != call) {
        *st = gw_fail(GW_ERR_ARG,
                      u->prepared != GWI_NO_CALL
                          ? "a worker is gone; call gw_sync_enter() with a new comm"
                          : "the call that failed must be made again before others");
        return true;
    }
    u->ready = GWI_NO_CALL;
    *st = u->outcome;
    if (call == GWI_GRADIENT_CALL)
        memcpy(v, u->vector, s->layout->floats * sizeof *v);
    return true;
}

void gwi_undo_settle(gw_sync *s, gwi_call call, gw_status outcome)
{
    if (s->undo == NULL)
        return;
    s->undo->ready = call;
    s->undo->outcome = outcome;
}

void gwi_undo_take(gw_sync *s, float *params)
{
    gwi_undo *u = s->undo;

    u->done = u->next;
    u->base = s->step;
    u->ready = u->prepared;
    u->prepared = GWI_NO_CALL;
    if (u->ready == GWI_MODEL_CALL) {
        memcpy(params, u->vector, s->layout->floats * sizeof *params);
        gwi_undo_common(s, params);
    }
}

void gwi_undo_put_back(gw_sync *s)
{
    if (s->undo->prepared == GWI_NO_CALL)
        return;
    s->undo->prepared = GWI_NO_CALL;
    swap_memories(s);
    set_counters(s, &s->undo->before);
}

/* ---- the common model ----------------------------------------------------------- */

void gwi_undo_common(gw_sync *s, const float *params)
{
    if (s->undo != NULL && s->undo->common != NULL)
        memcpy(s->undo->common, params, s->layout->floats * sizeof *params);
}

void gwi_undo_finish(gw_sync *s, const float *params)
{
    if (s->kept[GWI_REFERENCE] != NULL)
        memcpy(s->kept[GWI_REFERENCE], params, s->layout->floats * sizeof *params);
    s->undo->finished = s->step;
}

const float *gwi_common_model(const gw_sync *s, const float *params)
{
    if (s->spec.subject == GWI_GRADIENT || s->step <= gwi_schedule_start(&s->spec))
        return params;
    if (s->kept[GWI_REFERENCE] != NULL)
        return s->kept[GWI_REFERENCE];
    return s->undo->common != NULL ? s->undo->common : params;
}
