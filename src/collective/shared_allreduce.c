/* SPDX-License-Identifier: Apache-2.0
 *
 * shared_allreduce.c - all-reduce between workers that share memory.
 *
 * The vector is cut into the P segments of the ring (ring_allreduce.c), and worker s
 * sums segment s. Every worker has an area of the shared memory that it alone writes:
 *
 *     area of worker 1      | 0 |sum| 2 | 3 |   a chunk of each segment: what the
 *     area of worker 2      | 0 | 1 |sum| 3 |   worker adds to it; at its own, the sum
 *
 * In turn i a worker puts chunk i of all other segments into its area, sums chunk i - 1
 * of its own segment straight out of the other areas, and takes chunk i - 2 of the
 * other sums. Then all meet. An area holds two chunks of each segment, so nobody writes
 * where somebody may still read: in a turn, even chunks are written while odd ones are
 * read. A float crosses the shared memory twice instead of once in each round of a
 * ring.
 *
 * Terms are added in the ring's order, so the bits are those that every other transport
 * gives. What is counted is the ring's too: bytes tell methods apart, and not the ways
 * in which memory is used. */
#include "collective/collective.h"
#include "collective/gathering.h"
#include "copy.h"
#include "trace.h"

#include <string.h>

#include "kernels/vector.h"

/* Floats that stay in the first-level cache from one loop over them to the next. */
enum { BLOCK = 2048 };

typedef struct sharing {
    gw_comm *comm;
    float *x;
    size_t n;
    size_t room;   /* floats of a chunk at most */
    size_t chunks; /* of the longest segment */
    float divide;
    gwi_note *note; /* the caller's, or NULL */
    size_t bad;     /* index of the first number of the sum that is not finite, or n */
    const gwi_looker *look;
    gwi_gathering gathering;
} sharing;

typedef struct span {
    float *x;
    size_t n;
} span;

/* Chunk `chunk` of a segment; the last ones of short segments are empty. */
static span chunk_of(const sharing *g, int segment, size_t chunk)
{
    size_t begin, end, skip = chunk * g->room;

    gw_part(g->n, g->comm->workers, segment, &begin, &end);
    if (skip >= end - begin)
        return (span){g->x, 0};
    size_t left = end - begin - skip;
    return (span){g->x + begin + skip, left < g->room ? left : g->room};
}

/* Where worker `of` has put that chunk. */
static float *place(const sharing *g, int of, int segment, size_t chunk)
{
    const gwi_shared *m = &g->comm->shared;
    size_t half = chunk % 2 * (size_t)g->comm->workers;
    void *area = m->base + (size_t)of * m->bytes;

    return (float *)area + (half + (size_t)segment) * g->room;
}

/* ---- what is done in a turn ----------------------------------------------- */

/* Into the own area, for the worker that sums the segment, or from it for all. */
static void copy_in(const sharing *g, int segment, span from, size_t chunk)
{
    gwi_copy_over(&g->comm->copiers[segment], place(g, g->comm->rank, segment, chunk),
                  from.x, from.n * sizeof *from.x);
}

/* At what this worker adds, while it is in the cache. */
static void look_at_own(sharing *g, span own)
{
    size_t at = (size_t)(own.x - g->x), bad;

    if (g->look == NULL)
        return;
    bad = gwi_vector()->first_nonfinite(own.x, own.n);
    if (bad < own.n)
        *g->note = gwi_lesser_note(
            *g->note, g->look->note(g->look->arg, g->comm->rank, at + bad));
}

static void put(sharing *g, size_t chunk)
{
    for (int i = 1; i < g->comm->workers; i++) {
        int owner = gwi_after(g->comm, g->comm->rank, i);
        span out = chunk_of(g, owner, chunk);
        copy_in(g, owner, out, chunk);
        look_at_own(g, out);
        gwi_trace_send(g->comm, owner, out.n * sizeof *out.x);
    }
}

/* Every worker sees the whole sum while it is in the cache, so that all find the same
 * first number that is not finite. */
static void look_at_sum(sharing *g, const float *sum, size_t n)
{
    size_t at = (size_t)(sum - g->x), bad;

    if (g->note == NULL)
        return;
    bad = gwi_vector()->first_nonfinite(sum, n);
    if (bad < n && at + bad < g->bad)
        g->bad = at + bad;
}

/* The terms of a block are added from the one of the next worker on, the own one
 * last. */
static void sum_block(sharing *g, float *x, size_t at, size_t n, size_t chunk)
{
    int rank = g->comm->rank, others = g->comm->workers - 1;
    const float *sum = place(g, gwi_after(g->comm, rank, 1), rank, chunk) + at;
    float partial[BLOCK];

    if (others > 1) {
        memcpy(partial, sum, n * sizeof *partial);
        sum = partial;
    }
    for (int i = 2; i <= others; i++)
        gwi_vector()->add(partial,
                          place(g, gwi_after(g->comm, rank, i), rank, chunk) + at, n);
    gwi_vector()->add(x, sum, n);
    if (g->divide != 1.0f)
        gwi_vector()->divide(x, g->divide, n);
    look_at_sum(g, x, n);
}

static void sum(sharing *g, size_t chunk)
{
    span own = chunk_of(g, g->comm->rank, chunk);

    look_at_own(g, own);
    for (size_t at = 0; at < own.n; at += BLOCK)
        sum_block(g, own.x + at, at, own.n - at < BLOCK ? own.n - at : BLOCK, chunk);
    copy_in(g, g->comm->rank, own, chunk);
    for (int i = 1; i < g->comm->workers; i++)
        gwi_trace_send(g->comm, gwi_after(g->comm, g->comm->rank, i),
                       own.n * sizeof *own.x);
}

static void take_span(sharing *g, span to, const float *from)
{
    for (size_t at = 0; at < to.n; at += BLOCK) {
        size_t n = to.n - at < BLOCK ? to.n - at : BLOCK;
        memcpy(to.x + at, from + at, n * sizeof *to.x);
        look_at_sum(g, to.x + at, n);
    }
}

static void take(sharing *g, size_t chunk)
{
    for (int i = 1; i < g->comm->workers; i++) {
        int owner = gwi_after(g->comm, g->comm->rank, i);
        take_span(g, chunk_of(g, owner, chunk), place(g, owner, owner, chunk));
    }
}

/* ---- meeting -------------------------------------------------------------- */

/* Returns when all workers have ended this turn. */
static gw_status meet(sharing *g)
{
    return gwi_meet(&g->gathering, g->note != NULL ? *g->note : 0);
}

static void learn_notes(sharing *g)
{
    for (int r = 0; g->note != NULL && r < g->comm->workers; r++)
        if (r != g->comm->rank)
            *g->note = gwi_lesser_note(*g->note, gwi_word_of(&g->gathering, r));
}

static gw_status take_turns(sharing *g)
{
    for (size_t turn = 0; turn < g->chunks + 2; turn++) {
        if (turn > 0)
            GWI_TRY(meet(g));
        if (turn < g->chunks)
            put(g, turn);
        if (turn >= 1 && turn - 1 < g->chunks)
            sum(g, turn - 1);
        if (turn >= 2)
            take(g, turn - 2);
    }
    learn_notes(g);
    if (g->note != NULL && *g->note == 0 && g->bad < g->n)
        *g->note = GWI_NOTE_SUM | g->bad;
    return GW_OK;
}

/* After a failure this worker has not looked at all of x. If it has seen no bad sum,
 * what is bad there is its own. */
static void look_late(sharing *g)
{
    if (g->bad == g->n)
        look_at_own(g, (span){g->x, g->n});
}

/* ---- the call ------------------------------------------------------------- */

/* Floats of a chunk: whole cache lines, so that no two workers write the same. */
static size_t room_in(const gw_comm *c)
{
    size_t bytes = c->shared.bytes / (2 * (size_t)c->workers);

    return bytes / 64 * 64 / sizeof(float);
}

bool gwi_shares_sums(const gw_comm *c)
{
    return c->workers <= GWI_SHARING_WORKERS && room_in(c) > 0;
}

gw_status gwi_allreduce_shared(gw_comm *c, float *x, size_t n, float divide,
                               gwi_note *note, const gwi_looker *look)
{
    size_t p = (size_t)c->workers, segment = (n + p - 1) / p;
    sharing g = {.comm = c,
                 .x = x,
                 .n = n,
                 .divide = divide,
                 .note = note,
                 .bad = n,
                 .look = look};
    gw_traffic before = c->traffic;

    g.room = room_in(c);
    g.chunks = (segment + g.room - 1) / g.room;
    GWI_TRY(gwi_gathering_init(&g.gathering, c, n));
    gw_status st = take_turns(&g);
    if (st != GW_OK) {
        look_late(&g);
        return st;
    }
    before.wait_seconds = c->traffic.wait_seconds;
    c->traffic = before;
    gwi_count_ring(c, n, note != NULL);
    return GW_OK;
}
