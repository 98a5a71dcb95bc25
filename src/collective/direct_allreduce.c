/* SPDX-License-Identifier: Apache-2.0
 *
 * direct_allreduce.c - all-reduce between threads of one process.
 *
 * The vector is cut into the P segments of the ring (ring_allreduce.c). Worker s reads
 * segment s of all workers' vectors where they lie, and writes the sum to the same
 * place in all of them:
 *
 *     vector of worker 0    | 0 | 1 | 2 |      column s is read, summed and
 *     vector of worker 1    | 0 | 1 | 2 |      written by worker s
 *     vector of worker 2    | 0 | 1 | 2 |
 *
 * So every float is read once and written once, and nothing is copied. Workers meet
 * before, to say where their vectors are, and afterwards.
 *
 * A worker that fails must not return to its caller, who may free the vector, while
 * others are in there. So each has a gate: whoever works in others' vectors says so for
 * the time of a block, and does not begin with one when a worker has left; and a worker
 * that leaves waits until nobody is inside.
 *
 * Bits and traffic are those of the ring. */
#include "collective/collective.h"
#include "collective/gathering.h"
#include "trace.h"

#include <string.h>
#include <time.h>

#include "kernels/vector.h"

/* Floats of a block: those of four workers and the sum fit the first-level cache. */
enum { BLOCK = 2048 };

typedef struct direct {
    gw_comm *comm;
    size_t n;
    float divide;
    float *x[GWI_SHARING_WORKERS]; /* of each worker */
    gwi_note *note;                /* the caller's, or NULL */
    const gwi_looker *look;
    gwi_note found; /* in the own segment, 0 if all is good */
    gwi_gathering gathering;
} direct;

/* ---- the gates --------------------------------------------------------------------
 */

/* Sequentially consistent on both sides: either who leaves sees that somebody is
 * inside, or who enters sees that somebody has left. Returns the rank of one that has,
 * or -1. */
static int enter(const gw_comm *c)
{
    gwi_gate *gates = c->shared.gates;

    atomic_store(&gates[c->rank].inside, true);
    for (int r = 0; r < c->workers; r++)
        if (atomic_load(&gates[r].left))
            return r;
    return -1;
}

static void leave(const gw_comm *c)
{
    atomic_store(&c->shared.gates[c->rank].inside, false);
}

/* After a failure, which is for good: waits for the end of a block at most. A sleep,
 * because a thread of a higher priority that spins may keep the other from ending. */
static void leave_for_good(const gw_comm *c)
{
    const struct timespec moment = {.tv_nsec = 20000};
    gwi_gate *gates = c->shared.gates;

    atomic_store(&gates[c->rank].left, true);
    for (int r = 0; r < c->workers; r++)
        while (atomic_load(&gates[r].inside))
            nanosleep(&moment, NULL);
}

/* ---- notes ------------------------------------------------------------------------
 */

/* The first worker with a bad number in a block whose sum is bad; none if only the sum
 * is. */
static gwi_note look_at_terms(const direct *g, size_t at, size_t n)
{
    for (int r = 0; r < g->comm->workers; r++) {
        size_t bad = gwi_vector()->first_nonfinite(g->x[r] + at, n);
        if (bad < n)
            return g->look->note(g->look->arg, r, at + bad);
    }
    return 0;
}

/* A sum is bad if one of its terms is, so good ones need no look. */
static void look_at_sum(direct *g, const float *sum, size_t at, size_t n)
{
    gwi_gate *own = &g->comm->shared.gates[g->comm->rank];
    size_t bad = gwi_vector()->first_nonfinite(sum, n);
    gwi_note note = 0;

    if (bad == n)
        return;
    if (g->look != NULL)
        note = look_at_terms(g, at, n);
    if (note == 0)
        note = GWI_NOTE_SUM | (at + bad);
    g->found = gwi_lesser_note(g->found, note);
    atomic_store(&own->note, g->found);
    atomic_store(&own->noted_in, own->sums);
}

static void learn_notes(const direct *g)
{
    gwi_note least = gwi_lesser_note(*g->note, g->found);

    for (int r = 0; r < g->comm->workers; r++)
        if (r != g->comm->rank)
            least = gwi_lesser_note(least, gwi_word_of(&g->gathering, r));
    *g->note = least;
}

/* After a failure. One of the others may have ended because of a note that this worker
 * has not heard of; it had heard of it from whoever found it, who has said so at its
 * gate before. If nobody has seen a bad sum, what is bad in x is this worker's. */
static void learn_late(const direct *g, const float *x)
{
    const gw_comm *c = g->comm;
    gwi_note least = 0;
    size_t bad;

    for (int r = 0; r < c->workers; r++) {
        const gwi_gate *gate = &c->shared.gates[r];
        if (atomic_load(&gate->noted_in) == c->shared.gates[c->rank].sums)
            least = gwi_lesser_note(least, atomic_load(&gate->note));
    }
    bad = least == 0 ? gwi_first_nonfinite(x, g->n) : g->n;
    if (bad < g->n)
        least = g->look->note(g->look->arg, c->rank, bad);
    if (least < GWI_NOTE_SUM)
        *g->note = gwi_lesser_note(*g->note, least);
}

/* ---- the sum ----------------------------------------------------------------------
 */

/* The terms are added from the one of the next worker on, the own one last. */
static void sum_block(direct *g, size_t at, size_t n)
{
    const gw_comm *c = g->comm;
    float sum[BLOCK];

    memcpy(sum, g->x[gwi_after(c, c->rank, 1)] + at, n * sizeof *sum);
    for (int i = 2; i <= c->workers; i++)
        gwi_vector()->add(sum, g->x[gwi_after(c, c->rank, i)] + at, n);
    if (g->divide != 1.0f)
        gwi_vector()->divide(sum, g->divide, n);
    if (g->note != NULL)
        look_at_sum(g, sum, at, n);
    for (int r = 0; r < c->workers; r++)
        memcpy(g->x[r] + at, sum, n * sizeof *sum);
}

static gw_status fail_left(gw_comm *c, int rank)
{
    const char *host = gw_comm_host(c, rank);

    gw_fail(GW_ERR_PEER, "worker %d on host %s is gone", rank,
            host != NULL ? host : "?");
    return gwi_comm_break(c, GW_ERR_PEER);
}

static gw_status sum_segment(direct *g)
{
    gw_comm *c = g->comm;
    size_t begin, end;

    gw_part(g->n, c->workers, c->rank, &begin, &end);
    for (size_t at = begin; at < end; at += BLOCK) {
        int left = enter(c);
        if (left < 0)
            sum_block(g, at, end - at < BLOCK ? end - at : BLOCK);
        leave(c);
        if (left >= 0)
            return fail_left(c, left);
    }
    return GW_OK;
}

static void learn_places(direct *g, float *x)
{
    for (int r = 0; r < g->comm->workers; r++)
        g->x[r] =
            r == g->comm->rank ? x : (float *)(uintptr_t)gwi_word_of(&g->gathering, r);
}

static gw_status run(direct *g, float *x)
{
    gwi_note note;

    g->comm->shared.gates[g->comm->rank].sums++;
    GWI_TRY(gwi_meet(&g->gathering, (uintptr_t)x));
    learn_places(g, x);
    GWI_TRY(sum_segment(g));
    note = g->note != NULL ? gwi_lesser_note(*g->note, g->found) : 0;
    GWI_TRY(gwi_meet(&g->gathering, note));
    if (g->note != NULL)
        learn_notes(g);
    return GW_OK;
}

/* What the ring sends, as a tracer sees it. */
static void trace(const direct *g)
{
    gw_comm *c = g->comm;

    for (int i = 1; i < c->workers; i++) {
        int other = gwi_after(c, c->rank, i);
        size_t begin, end;
        gw_part(g->n, c->workers, other, &begin, &end);
        gwi_trace_send(c, other, (end - begin) * sizeof(float));
        gw_part(g->n, c->workers, c->rank, &begin, &end);
        gwi_trace_send(c, other, (end - begin) * sizeof(float));
    }
}

gw_status gwi_allreduce_direct(gw_comm *c, float *x, size_t n, float divide,
                               gwi_note *note, const gwi_looker *look)
{
    direct g = {.comm = c, .n = n, .divide = divide, .note = note, .look = look};
    gw_traffic before = c->traffic;
    gw_status st;

    GWI_TRY(gwi_gathering_init(&g.gathering, c, n));
    st = run(&g, x);
    if (st != GW_OK) {
        leave_for_good(c);
        if (look != NULL)
            learn_late(&g, x);
        return st;
    }
    trace(&g);
    before.wait_seconds = c->traffic.wait_seconds;
    c->traffic = before;
    gwi_count_ring(c, n, note != NULL);
    return GW_OK;
}
