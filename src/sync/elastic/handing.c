/* SPDX-License-Identifier: Apache-2.0
 *
 * handing.c - the state goes to those who join, and what leavers have not sent goes to
 * one that stays. */
#include <string.h>

#include "kernels/vector.h"
#include "sync/elastic/entry.h"
#include "sync/segments.h"
#include "sync/state/memories.h"
#include "wire/wire_bytes.h"

/* ---- from the source to those who join ------------------------------------------- */

gw_status gw_entry_hand(gw_comm *comm, const gw_entry *e, void *bytes, size_t len)
{
    if (e->joiners == 0 || len == 0)
        return GW_OK;
    if (e->joiners == e->workers - 1)
        return gw_broadcast(comm, bytes, len, e->source);
    for (int r = 0; r < e->workers; r++)
        if (e->takes[r])
            GWI_TRY(gw_transfer(comm, e->source, bytes, r, bytes, len));
    return GW_OK;
}

/* Counters as they travel: 12 numbers of 8 bytes, little-endian. */
enum { STATE_WORDS = 12, STATE_LEN = 8 * STATE_WORDS };

static uint64_t real_word(double x)
{
    uint64_t word;

    memcpy(&word, &x, sizeof word);
    return word;
}

static void write_state(const gwi_meet *m, uint8_t *to)
{
    const gw_sync *s = m->sync;
    const gwi_undo *u = s->undo;
    bool waits = u->ready == GWI_GRADIENT_CALL;
    uint64_t words[STATE_WORDS] = {u->base,
                                   s->exchanged,
                                   s->phase.begin,
                                   s->phase.end,
                                   u->done.entry,
                                   u->done.count,
                                   waits,
                                   waits && u->outcome == GW_SKIPPED,
                                   real_word(s->stats.applied_mass),
                                   s->stats.steps - (s->step - u->base),
                                   s->stats.skipped,
                                   u->finished};

    for (int i = 0; i < STATE_WORDS; i++)
        gwi_write_u64le(to + 8 * i, words[i]);
}

static void read_state(gwi_meet *m, const uint8_t *from)
{
    gw_sync *s = m->sync;
    gwi_undo *u = s->undo;
    uint64_t w[STATE_WORDS];

    for (int i = 0; i < STATE_WORDS; i++)
        w[i] = gwi_read_u64le(from + 8 * i);
    s->step = u->base = w[0];
    s->exchanged = w[1];
    s->phase = (gwi_phase){w[2], w[3]};
    u->done = (gwi_deed){w[4], w[5]};
    u->ready = w[6] != 0 ? GWI_GRADIENT_CALL : GWI_NO_CALL;
    u->outcome = w[7] != 0 ? GW_SKIPPED : GW_OK;
    memcpy(&s->stats.applied_mass, &w[8], sizeof w[8]);
    s->stats.steps = w[9];
    s->stats.skipped = w[10];
    u->finished = w[11];
    s->guard = (gwi_guard){0};
    s->spoiled = false;
    gwi_segments_follow(s);
}

/* What is the same on all workers, and means that a new worker has no better ones of.
 * What is a worker's own, and waits to be sent, it keeps; a new one has nothing. */
static bool is_handed(const gwi_remembered *memory)
{
    return memory->handing != GW_HANDING_ADDED;
}

static gw_status hand_memories(gwi_meet *m)
{
    gw_sync *s = m->sync;
    gwi_memory_walk walk = {0};
    const gwi_remembered *memory;

    while ((memory = gwi_next_memory(&s->spec, &walk)) != NULL)
        if (is_handed(memory))
            GWI_TRY(gw_entry_hand(m->comm, &m->entry, s->kept[memory->tag],
                                  gwi_kept_floats(s, memory) * sizeof(float)));
    return GW_OK;
}

/* The model goes to a place of its own: params must stay as it is until all is there.
 */
static gw_status hand_model(gwi_meet *m)
{
    size_t len = m->sync->layout->floats * sizeof(float);
    bool sends = m->comm->rank == m->entry.source;
    const float *own = gwi_common_model(m->sync, m->params);

    if (!m->entry.joined)
        return gw_entry_hand(m->comm, &m->entry, sends ? (void *)(uintptr_t)own : NULL,
                             len);
    m->model = gwi_calloc(m->sync->layout->floats, sizeof *m->model);
    if (m->model == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory to take a model");
    return gw_entry_hand(m->comm, &m->entry, m->model, len);
}

/* Sets the estimate of ef21 anew: the mean of what survivors stand for. Those who join
 * stand for that mean, which so stays as it is. */
static gw_status renew_estimate(gwi_meet *m)
{
    gw_sync *s = m->sync;
    size_t n = s->layout->floats;
    float *sum = s->undo->kept[GWI_ESTIMATE];

    if (!gwi_estimates(&s->spec))
        return GW_OK;
    if (m->entry.joined)
        memset(sum, 0, n * sizeof *sum);
    else
        gwi_subtract(sum, s->kept[GWI_LAST], s->kept[GWI_RESIDUAL], n);
    GWI_TRY(gwi_allreduce(m->comm, sum, n, (float)m->survivors, NULL));
    memcpy(s->kept[GWI_ESTIMATE], sum, n * sizeof *sum);
    if (m->entry.joined) {
        memcpy(s->kept[GWI_LAST], sum, n * sizeof *sum);
        memset(s->kept[GWI_RESIDUAL], 0, n * sizeof *sum);
    }
    return GW_OK;
}

gw_status gwi_hand_state(gwi_meet *m)
{
    gwi_undo *u = m->sync->undo;
    uint8_t state[STATE_LEN];

    write_state(m, state);
    GWI_TRY(gw_entry_hand(m->comm, &m->entry, state, sizeof state));
    if (m->entry.joined)
        read_state(m, state);
    GWI_TRY(hand_memories(m));
    GWI_TRY(hand_model(m));
    /* Whoever waits for others to tell is the source, or takes from it. */
    if (gwi_read_u64le(state + 8 * 6) != 0)
        GWI_TRY(gw_entry_hand(m->comm, &m->entry, u->vector,
                              m->sync->layout->floats * sizeof(float)));
    return renew_estimate(m);
}

void gwi_forget(gw_sync *s)
{
    gwi_memory_walk walk = {0};
    const gwi_remembered *memory;

    s->step = s->exchanged = s->undo->base = 0;
    s->phase = (gwi_phase){0, 0};
    s->undo->done = (gwi_deed){0, 0};
    s->undo->ready = GWI_NO_CALL;
    s->undo->last = 0;
    s->undo->finished = UINT64_MAX;
    gwi_segments_follow(s);
    while ((memory = gwi_next_memory(&s->spec, &walk)) != NULL)
        if (is_handed(memory))
            memset(s->kept[memory->tag], 0, gwi_kept_floats(s, memory) * sizeof(float));
}

/* ---- from leavers to the heir ---------------------------------------------------- */

bool gwi_offers(const gwi_meet *m, int rank)
{
    const gwi_claim *c = &m->claims[rank];

    if (!c->leaves || m->takes[rank] || m->heir < 0)
        return false;
    for (int r = 0; r < m->comm->workers; r++)
        if (c->offered != 0 && m->claims[r].took == c->offered)
            return false;
    return true;
}

/* The heir adds up in the copies of its memories. If the entry fails, nothing has
 * happened; if this worker does not know whether it has, the heir does. */
static gw_status hand_legacy(gwi_meet *m, int from, const gwi_remembered *memory,
                             float *room)
{
    gw_sync *s = m->sync;
    size_t n = gwi_kept_floats(s, memory);

    GWI_TRY(gw_transfer(m->comm, from, s->kept[memory->tag], m->heir, room,
                        n * sizeof *room));
    if (m->comm->rank == m->heir)
        gwi_add(s->undo->kept[memory->tag], room, n);
    return GW_OK;
}

static gw_status hand_memories_of(gwi_meet *m, int from)
{
    gwi_memory_walk walk = {0};
    const gwi_remembered *memory;
    gw_status st = GW_OK;

    while (st == GW_OK && (memory = gwi_next_memory(&m->sync->spec, &walk)) != NULL) {
        if (memory->handing != GW_HANDING_ADDED)
            continue;
        float *room = gwi_calloc(gwi_kept_floats(m->sync, memory), sizeof *room);
        st = room != NULL ? hand_legacy(m, from, memory, room)
                          : gw_fail(GW_ERR_NOMEM, "not enough memory for a residual");
        gwi_free(room);
    }
    return st;
}

static void copy_memories(gw_sync *s)
{
    gwi_memory_walk walk = {0};
    const gwi_remembered *memory;

    while ((memory = gwi_next_memory(&s->spec, &walk)) != NULL)
        if (memory->handing == GW_HANDING_ADDED)
            memcpy(s->undo->kept[memory->tag], s->kept[memory->tag],
                   gwi_kept_floats(s, memory) * sizeof(float));
}

gw_status gwi_hand_legacies(gwi_meet *m)
{
    int rank = m->comm->rank;

    if (rank == m->heir)
        copy_memories(m->sync);
    for (int r = 0; r < m->comm->workers; r++) {
        if (!gwi_offers(m, r))
            continue;
        if (r == rank) {
            m->sync->undo->offered = m->entry.number;
            m->given = true;
        }
        if (r == rank || m->heir == rank)
            GWI_TRY(hand_memories_of(m, r));
    }
    return GW_OK;
}

static bool takes_over(const gwi_meet *m)
{
    for (int r = 0; m->comm->rank == m->heir && r < m->comm->workers; r++)
        if (gwi_offers(m, r))
            return true;
    return false;
}

void gwi_inherit(gwi_meet *m)
{
    gw_sync *s = m->sync;
    gwi_memory_walk walk = {0};
    const gwi_remembered *memory;
    bool heir = takes_over(m);

    if (heir)
        s->undo->took = m->entry.number;
    while ((memory = gwi_next_memory(&s->spec, &walk)) != NULL) {
        size_t len = gwi_kept_floats(s, memory) * sizeof(float);
        if (memory->handing != GW_HANDING_ADDED)
            continue;
        if (heir)
            memcpy(s->kept[memory->tag], s->undo->kept[memory->tag], len);
        else if (m->given)
            memset(s->kept[memory->tag], 0, len);
    }
}
