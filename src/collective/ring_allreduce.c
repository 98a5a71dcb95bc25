/* SPDX-License-Identifier: Apache-2.0
 *
 * ring_allreduce.c - all-reduce and reduce-scatter around a ring.
 *
 * The vector is cut into P segments. In round t, t = 0 .. 2P-3, worker r sends
 * segment r-t-1 to its right neighbour and receives segment r-t-2 from its left
 * one (modulo P). Rounds up to P-2 add what comes in to what is there: after
 * them worker r holds the whole sum of segment r. The later rounds hand the sums
 * on. Each segment is summed once, along one path, so all workers get the same
 * bits; 2 (P-1)/P n floats are sent by each, which is the least possible.
 *
 * Segments are cut further into chunks, and the rounds run chunk by chunk: while
 * one is added the next are on their way. */
#include "collective/collective.h"

#include "kernels/vector.h"

/* Half a megabyte: what a gigabit wire takes in 4 ms, for which a rank may be off its
 * core without stopping the ring. */
enum { WINDOW = 8 };

typedef struct ring {
    gw_comm *comm;
    float *x;
    size_t n;
    int left, right;
    size_t rounds, chunks, window; /* units in flight at most */
    float *incoming;               /* window chunks */
    size_t incoming_floats;        /* of one */
    float divide;
    gwi_note *note;      /* the caller's, or NULL */
    gwi_note *note_pair; /* one coming in, one going out */
    gwi_op *recv, *send; /* window of each */
    gwi_op *note_recv, *note_send;
} ring;

_Static_assert(2 * WINDOW + 2 <= GWI_MIN_OPS, "a comm has operations enough");

typedef struct span {
    float *x;
    size_t n;
} span;

/* Chunk `chunk` of the segment that is t rounds behind this worker's. */
static span chunk_of(const ring *g, size_t t, size_t chunk)
{
    int p = g->comm->workers;
    int segment =
        (int)(((size_t)g->comm->rank + 2 * (size_t)p - t % (size_t)p) % (size_t)p);
    size_t begin, end, first, last;

    gw_part(g->n, p, segment, &begin, &end);
    gw_part(end - begin, (int)g->chunks, (int)chunk, &first, &last);
    return (span){g->x + begin + first, last - first};
}

static bool adds(const ring *g, size_t unit)
{
    return unit / g->chunks + 1 < (size_t)g->comm->workers;
}

/* A unit is one chunk of one round. Both sides skip empty ones. */
static gw_status post(ring *g, size_t unit)
{
    size_t t = unit / g->chunks, chunk = unit % g->chunks, slot = unit % g->window;
    span out = chunk_of(g, t + 1, chunk), in = chunk_of(g, t + 2, chunk);
    void *to = adds(g, unit) ? g->incoming + slot * g->incoming_floats : in.x;

    GWI_TRY(gwi_wait(g->comm, &g->send[slot]));
    if (in.n > 0)
        GWI_TRY(gwi_recv(g->comm, &g->recv[slot], g->left, to, in.n * sizeof(float)));
    if (out.n > 0)
        GWI_TRY(
            gwi_send(g->comm, &g->send[slot], g->right, out.x, out.n * sizeof(float)));
    return GW_OK;
}

static gw_status finish(ring *g, size_t unit)
{
    size_t t = unit / g->chunks, slot = unit % g->window;
    span in = chunk_of(g, t + 2, unit % g->chunks);

    if (in.n == 0)
        return GW_OK;
    GWI_TRY(gwi_wait_exactly(g->comm, &g->recv[slot], in.n * sizeof(float)));
    if (!adds(g, unit))
        return GW_OK;
    gwi_vector()->add(in.x, g->incoming + slot * g->incoming_floats, in.n);
    bool whole = t + 2 == (size_t)g->comm->workers;
    if (whole && g->divide != 1.0f)
        gwi_vector()->divide(in.x, g->divide, in.n);
    return GW_OK;
}

static gwi_note least_note(gwi_note a, gwi_note b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* The note goes once around beside the first chunk of the adding rounds. */
static gw_status pass_note(ring *g, size_t unit)
{
    if (g->note == NULL || unit % g->chunks != 0 || !adds(g, unit))
        return GW_OK;
    g->note_pair[1] = *g->note;
    GWI_TRY(
        gwi_recv(g->comm, g->note_recv, g->left, &g->note_pair[0], sizeof(gwi_note)));
    return gwi_send(g->comm, g->note_send, g->right, &g->note_pair[1],
                    sizeof(gwi_note));
}

static gw_status take_note(ring *g, size_t unit)
{
    if (g->note == NULL || unit % g->chunks != 0 || !adds(g, unit))
        return GW_OK;
    GWI_TRY(gwi_wait_exactly(g->comm, g->note_recv, sizeof(gwi_note)));
    GWI_TRY(gwi_wait(g->comm, g->note_send));
    *g->note = least_note(*g->note, g->note_pair[0]);
    return GW_OK;
}

/* A unit may be posted once the same chunk of the round before is finished, since
 * it sends what that one made. */
static gw_status go_round(ring *g)
{
    size_t units = g->rounds * g->chunks, posted = 0;

    for (size_t done = 0; done < units; done++) {
        while (posted < units && posted - done < g->window) {
            GWI_TRY(pass_note(g, posted));
            GWI_TRY(post(g, posted++));
        }
        GWI_TRY(take_note(g, done));
        GWI_TRY(finish(g, done));
    }
    return gwi_wait_all(g->comm, g->send, g->window);
}

static gw_status start(ring *g, gw_comm *c, float *x, size_t n, size_t rounds)
{
    size_t p = (size_t)c->workers, segment = (n + p - 1) / p;

    *g = (ring){.comm = c, .x = x, .n = n, .divide = 1.0f};
    g->left = (c->rank + c->workers - 1) % c->workers;
    g->right = (c->rank + 1) % c->workers;
    g->rounds = rounds;
    g->chunks = segment / GWI_CHUNK_FLOATS + 1;
    g->window = g->chunks < WINDOW ? g->chunks : WINDOW;
    g->incoming_floats = segment / g->chunks + 1;
    g->recv = c->ops;
    g->send = c->ops + WINDOW;
    g->note_recv = c->ops + 2 * WINDOW;
    g->note_send = c->ops + 2 * WINDOW + 1;
    g->note_pair = gwi_comm_scratch(
        c, 2 * sizeof(gwi_note) + g->window * g->incoming_floats * sizeof(float));
    g->incoming = (float *)(g->note_pair + 2);
    return g->note_pair == NULL ? GW_ERR_NOMEM : GW_OK;
}

gw_status gwi_allreduce_ring(gw_comm *c, float *x, size_t n, float divide,
                             gwi_note *note)
{
    ring g;

    GWI_TRY(start(&g, c, x, n, 2 * ((size_t)c->workers - 1)));
    g.divide = divide;
    g.note = note;
    return go_round(&g);
}

gw_status gw_reduce_scatter(gw_comm *c, float *x, size_t n)
{
    ring g;

    GWI_TRY(start(&g, c, x, n, (size_t)c->workers - 1));
    return go_round(&g);
}
