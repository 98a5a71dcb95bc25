/* SPDX-License-Identifier: Apache-2.0
 *
 * decide.c - what every worker has, and what follows from it. */
#include <string.h>

#include "sync/elastic/entry.h"
#include "wire/wire_bytes.h"

/* A claim as it travels: "GWENTRY1" and 15 numbers of 8 bytes, little-endian. */
enum { WORDS = 16, CLAIM_LEN = 8 * WORDS, WAITS = 1, LEAVES = 2 };

#define MAGIC UINT64_C(0x315952544e455747)

/* ---- telling -------------------------------------------------------------------- */

static gwi_claim own_claim(const gwi_meet *m)
{
    const gw_sync *s = m->sync;
    const gwi_undo *u = s->undo;
    gwi_claim c = {.done = u->done,
                   .phase = s->phase,
                   .last = u->last,
                   .completed = u->completed,
                   .id = u->id,
                   .base = u->base,
                   .offered = u->offered,
                   .took = u->took,
                   .norm = gw_sync_residual_norm(s),
                   .waits = u->ready == GWI_GRADIENT_CALL,
                   .leaves = m->opt != NULL && m->opt->leaves};

    if (u->prepared != GWI_NO_CALL) {
        c.prepared = u->next;
        c.waits = u->prepared == GWI_GRADIENT_CALL;
        c.phase = u->before.phase;
    }
    return c;
}

static void write_claim(uint8_t *to, const gwi_claim *c)
{
    uint64_t norm;
    memcpy(&norm, &c->norm, sizeof norm);
    uint64_t words[WORDS] = {MAGIC,
                             c->done.entry,
                             c->done.count,
                             c->prepared.entry,
                             c->prepared.count,
                             c->phase.begin,
                             c->phase.end,
                             c->last,
                             c->completed,
                             c->id,
                             c->base,
                             c->offered,
                             c->took,
                             norm,
                             (c->waits ? WAITS : 0u) | (c->leaves ? LEAVES : 0u),
                             0};

    for (int i = 0; i < WORDS; i++)
        gwi_write_u64le(to + 8 * i, words[i]);
}

static gw_status read_claim(gw_comm *comm, int from, const uint8_t *at, size_t len,
                            gwi_claim *c)
{
    uint64_t w[WORDS] = {0};

    for (int i = 0; len == CLAIM_LEN && i < WORDS; i++)
        w[i] = gwi_read_u64le(at + 8 * i);
    if (w[0] != MAGIC || w[1] > w[7] || w[8] > w[7]) {
        gw_fail(GW_ERR_DATA, "worker %d entered with a malformed message", from);
        return gwi_comm_break(comm, GW_ERR_DATA);
    }
    *c = (gwi_claim){.done = {w[1], w[2]},
                     .prepared = {w[3], w[4]},
                     .phase = {w[5], w[6]},
                     .last = w[7],
                     .completed = w[8],
                     .id = w[9],
                     .base = w[10],
                     .offered = w[11],
                     .took = w[12],
                     .waits = (w[14] & WAITS) != 0,
                     .leaves = (w[14] & LEAVES) != 0};
    memcpy(&c->norm, &w[13], sizeof c->norm);
    return GW_OK;
}

gw_status gwi_gather_claims(gwi_meet *m)
{
    gwi_claim own = own_claim(m);
    int p = m->comm->workers;
    uint8_t mine[CLAIM_LEN], *all = gwi_calloc((size_t)p, CLAIM_LEN + sizeof(size_t));
    size_t *lens = (size_t *)(void *)all;
    gw_status st;

    if (all == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory for %d workers", p);
    uint8_t *slots = (uint8_t *)(lens + p);
    write_claim(mine, &own);
    st = gw_allgather(m->comm, mine, CLAIM_LEN, slots, CLAIM_LEN, lens);
    for (int r = 0; st == GW_OK && r < p; r++)
        st = read_claim(m->comm, r, slots + (size_t)r * CLAIM_LEN, lens[r],
                        &m->claims[r]);
    gwi_free(all);
    return st;
}

/* ---- deciding ------------------------------------------------------------------- */

static bool same(gwi_deed a, gwi_deed b)
{
    return a.entry == b.entry && a.count == b.count;
}

/* The last exchange that counts is that of those who took part in the latest entry.
 * Whoever missed that may have been left behind with another one. */
static void find_target(gwi_meet *m)
{
    const gwi_claim *c = m->claims;
    uint64_t last = 0;

    for (int r = 0; r < m->comm->workers; r++)
        last = c[r].last > last ? c[r].last : last;
    for (int r = 0; r < m->comm->workers; r++)
        if (c[r].last == last && c[r].done.count >= m->target.count) {
            m->target = c[r].done;
            m->base = c[r].base;
        }
    m->entry.number = last + 1;
}

static bool takes_prepared(const gwi_meet *m, int rank)
{
    return m->claims[rank].prepared.count > 0 &&
           same(m->claims[rank].prepared, m->target);
}

/* Before the first entry there is nobody to take part from but worker 0. */
static bool survives(const gwi_meet *m, int rank)
{
    const gwi_claim *c = &m->claims[rank];

    if (m->entry.number == 1)
        return rank == 0;
    return c->last > 0 && (same(c->done, m->target) || takes_prepared(m, rank));
}

/* Whether a survivor's model will lack a result that it has. */
static bool lacks(const gwi_meet *m, int rank)
{
    const gwi_claim *c = &m->claims[rank];

    return c->waits && (c->prepared.count == 0 || takes_prepared(m, rank));
}

/* The better source of two: one that has made the latest entry to its end, so that
 * nobody knows more, and then one whose model lacks nothing. */
static bool is_better(const gwi_meet *m, int rank, int than)
{
    const gwi_claim *a = &m->claims[rank], *b = &m->claims[than];

    if (a->completed != b->completed)
        return a->completed > b->completed;
    return !lacks(m, rank) && lacks(m, than);
}

static void choose_source(gwi_meet *m)
{
    int best = -1;

    for (int r = 0; r < m->comm->workers; r++)
        if (!m->takes[r] && (best < 0 || is_better(m, r, best)))
            best = r;
    m->entry.source = best;
}

/* The first that stays; one that has just come if nobody else does. */
static void choose_heir(gwi_meet *m)
{
    m->heir = -1;
    for (int takes = 0; takes < 2; takes++)
        for (int r = 0; r < m->comm->workers; r++)
            if (m->heir < 0 && m->takes[r] == takes && !m->claims[r].leaves)
                m->heir = r;
}

/* All survivors have begun the same period, or not begun it yet. */
static void agree_phase(gwi_meet *m)
{
    gwi_phase phase = {0, 0};

    for (int r = 0; r < m->comm->workers; r++)
        if (!m->takes[r] && m->claims[r].phase.end > phase.end)
            phase = m->claims[r].phase;
    if (phase.end > m->base && m->sync->phase.end <= m->base)
        m->sync->phase = phase;
}

static void count_heads(gwi_meet *m)
{
    for (int r = 0; r < m->comm->workers; r++) {
        m->takes[r] = !survives(m, r);
        m->survivors += !m->takes[r];
        m->entry.leavers += m->claims[r].leaves;
        m->ids[r] = m->claims[r].id != 0
                        ? m->claims[r].id
                        : m->entry.number << 16 | (uint64_t)(unsigned)r;
    }
    m->entry.joiners = m->comm->workers - m->survivors;
    m->entry.joined = m->takes[m->comm->rank];
}

/* The first worker of all: its model is the common one from now on. */
static void begin_with(gw_sync *s, const float *params)
{
    s->undo->base = s->step;
    if (s->step == 0 && s->kept[GWI_REFERENCE] != NULL)
        memcpy(s->kept[GWI_REFERENCE], params, s->layout->floats * sizeof *params);
    gwi_undo_common(s, params);
}

/* This worker's own exchange. */
static void settle_own(gwi_meet *m)
{
    gwi_undo *u = m->sync->undo;
    int rank = m->comm->rank;

    if (u->prepared != GWI_NO_CALL && !m->takes[rank] && takes_prepared(m, rank))
        gwi_undo_take(m->sync, m->params);
    else
        gwi_undo_put_back(m->sync);
    if (!m->takes[rank])
        u->last = m->entry.number;
    if (!m->takes[rank] && m->entry.number == 1)
        begin_with(m->sync, m->params);
}

void gwi_decide(gwi_meet *m)
{
    find_target(m);
    count_heads(m);
    choose_source(m);
    choose_heir(m);
    settle_own(m);
    if (!m->takes[m->comm->rank])
        agree_phase(m);
}
