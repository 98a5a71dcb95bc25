/* SPDX-License-Identifier: Apache-2.0
 *
 * limit.c - a time limit that follows the usual time of a round.
 *
 * The rule: a gap is the time from one received message to the next one, so the longest
 * gap of a round is about what its slowest worker computes, or less. The limit is
 *
 *     FACTOR times the longest gap of the last one to two windows,
 *     at least LEAST_SECONDS, and at most the time limit of the comm
 *
 * and it is the comm's own until so many rounds were made on it: what an entry takes,
 * and a first step, says nothing about others. A round is a step in which a message
 * came. While a worker has announced that it pauses, for an evaluation or to write a
 * file, the comm's own limit holds, and the gap does not count.
 *
 * Limits of workers differ, since each has seen other gaps. Whoever runs out of
 * patience first tells all others, as with a fixed limit; so a limit may be wrong, but
 * never makes workers disagree about what was exchanged. */
#include "limit.h"

#include <stdatomic.h>

#include "gradwire_elastic.h"

/* A machine with several jobs per core lets a worker wait for seconds; and who is eight
 * times as slow as the slowest in ten minutes was not seen in any of our runs. */
#define LEAST_SECONDS 5.0
#define FACTOR        8.0

/* Longest gaps are forgotten after one to two of these. */
#define WINDOW_SECONDS 300.0

/* Rounds before the limit is learned, and before gaps count. */
enum { LEAST_ROUNDS = 8, FIRST_ROUND = 2 };

struct gw_limit {
    atomic_int users;
    _Atomic double seconds; /* as learned; 0: nothing yet */
    double longest[2];      /* gap in this window and the last */
    double window_at;       /* when this one began */
    uint64_t step;          /* the last one in which a message came */
    int rounds;
    double heard_at; /* when the last message came */
    bool skips;      /* the gap that ends next does not count */
};

gw_status gw_limit_new(gw_limit **out)
{
    gw_limit *l = gwi_calloc(1, sizeof *l);

    *out = l;
    if (l == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory for a time limit");
    atomic_init(&l->users, 1);
    return GW_OK;
}

void gw_limit_free(gw_limit *l)
{
    if (l != NULL && atomic_fetch_sub(&l->users, 1) == 1)
        gwi_free(l);
}

double gw_limit_seconds(const gw_limit *l)
{
    return atomic_load(&((gw_limit *)(uintptr_t)l)->seconds);
}

gw_status gw_comm_learn(gw_comm *c, gw_limit *l)
{
    gwi_comm_await(c);
    if (c->limit != NULL || c->table.pause == NULL)
        return gw_fail(GW_ERR_ARG,
                       "the time limit over %s cannot be learned, or is already",
                       c->table.name);
    atomic_fetch_add(&l->users, 1);
    atomic_store(&l->seconds, 0);
    l->step = c->step;
    l->rounds = 0;
    l->skips = false;
    l->heard_at = gwi_now();
    c->limit = l;
    return GW_OK;
}

void gw_comm_pause(gw_comm *c)
{
    gwi_comm_await(c);
    if (c->broken != GW_OK || c->table.pause == NULL)
        return;
    (void)c->table.pause(c->ctx, 1);
    if (c->limit != NULL)
        c->limit->skips = true;
}

static void learn(gw_limit *l, double gap, double now)
{
    if (now - l->window_at > WINDOW_SECONDS) {
        l->longest[1] = l->longest[0];
        l->longest[0] = 0;
        l->window_at = now;
    }
    l->longest[0] = gap > l->longest[0] ? gap : l->longest[0];
}

void gwi_limit_heard(gw_comm *c)
{
    gw_limit *l = c->limit;

    if (l == NULL)
        return;
    double now = gwi_now(), gap = now - l->heard_at;
    l->heard_at = now;
    if (l->rounds >= FIRST_ROUND && !l->skips)
        learn(l, gap, now);
    l->skips = false;
    if (c->step != l->step) {
        l->step = c->step;
        l->rounds++;
    }
    if (l->rounds < LEAST_ROUNDS)
        return;
    gap = l->longest[0] > l->longest[1] ? l->longest[0] : l->longest[1];
    atomic_store_explicit(&l->seconds,
                          FACTOR * gap > LEAST_SECONDS ? FACTOR * gap : LEAST_SECONDS,
                          memory_order_relaxed);
}

double gwi_limit_now(gw_comm *c)
{
    if (c->limit == NULL)
        return c->timeout;
    if (c->table.pause(c->ctx, 0) > 0) {
        c->limit->skips = true;
        return c->timeout;
    }
    double seconds = gw_limit_seconds(c->limit);
    return seconds > 0 && seconds < c->timeout ? seconds : c->timeout;
}
