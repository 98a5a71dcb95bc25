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
 * one is added the next are on their way. Each chunk is two messages: its floats,
 * from where they lie, and their check. A chunk is looked at before it is used, so
 * nothing that was damaged is handed on. */
#include "collective/check.h"
#include "collective/collective.h"

#include "kernels/vector.h"

/* Half a megabyte: what a gigabit wire takes in 4 ms, for which a rank may be off its
 * core without stopping the ring. */
enum { WINDOW = 8 };

/* The short messages that are under way. */
typedef struct ring_words {
    uint8_t check_in[WINDOW][GWI_CHECK_LEN], check_out[WINDOW][GWI_CHECK_LEN];
    /* A note, little-endian, and its check. */
    uint8_t note_in[8 + GWI_CHECK_LEN], note_out[8 + GWI_CHECK_LEN];
} ring_words;

typedef struct ring {
    gw_comm *comm;
    float *x;
    size_t n;
    int left, right;
    size_t rounds, chunks, window; /* units in flight at most */
    float *incoming;               /* window chunks */
    size_t incoming_floats;        /* of one */
    float divide;
    gwi_note *note; /* the caller's, or NULL */
    size_t bad;     /* index of the first number of the sum that is not finite, or n */
    ring_words *words;
    gwi_op *recv, *send; /* window of each, and of the next two */
    gwi_op *check_recv, *check_send;
    gwi_op *note_recv, *note_send;
} ring;

_Static_assert(4 * WINDOW + 2 <= GWI_MIN_OPS, "a comm has operations enough");

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

static gw_status await_chunk(ring *g, size_t slot, void *to, size_t len)
{
    GWI_TRY(gwi_recv(g->comm, &g->recv[slot], g->left, to, len));
    return gwi_recv(g->comm, &g->check_recv[slot], g->left, g->words->check_in[slot],
                    GWI_CHECK_LEN);
}

static gw_status send_chunk(ring *g, size_t slot, span out)
{
    size_t len = out.n * sizeof(float);
    uint8_t *check = g->words->check_out[slot];

    GWI_TRY(gwi_send(g->comm, &g->send[slot], g->right, out.x, len));
    gwi_put_check(check, out.x, len);
    return gwi_send(g->comm, &g->check_send[slot], g->right, check, GWI_CHECK_LEN);
}

/* A unit is one chunk of one round. Both sides skip empty ones. */
static gw_status post(ring *g, size_t unit)
{
    size_t t = unit / g->chunks, chunk = unit % g->chunks, slot = unit % g->window;
    span out = chunk_of(g, t + 1, chunk), in = chunk_of(g, t + 2, chunk);
    void *to = adds(g, unit) ? g->incoming + slot * g->incoming_floats : in.x;

    GWI_TRY(gwi_wait(g->comm, &g->send[slot]));
    GWI_TRY(gwi_wait(g->comm, &g->check_send[slot]));
    if (in.n > 0)
        GWI_TRY(await_chunk(g, slot, to, in.n * sizeof(float)));
    return out.n > 0 ? send_chunk(g, slot, out) : GW_OK;
}

/* Waits for a chunk, and for its check. */
static gw_status receive_chunk(ring *g, size_t slot, const float *chunk, size_t n)
{
    size_t len = n * sizeof(float);

    GWI_TRY(gwi_wait_exactly(g->comm, &g->recv[slot], len));
    GWI_TRY(gwi_wait_exactly(g->comm, &g->check_recv[slot], GWI_CHECK_LEN));
    return gwi_is_checked(g->words->check_in[slot], chunk, len)
               ? GW_OK
               : gwi_fail_check(g->comm, g->left, len);
}

/* Every worker sees every chunk of the sum while it is in the cache, so that all find
 * the same first number that is not finite. */
static void look_at_sum(ring *g, span sum)
{
    size_t at = (size_t)(sum.x - g->x), bad;

    if (g->note == NULL)
        return;
    bad = gwi_vector()->first_nonfinite(sum.x, sum.n);
    if (bad < sum.n && at + bad < g->bad)
        g->bad = at + bad;
}

static gw_status finish(ring *g, size_t unit)
{
    size_t t = unit / g->chunks, slot = unit % g->window;
    span in = chunk_of(g, t + 2, unit % g->chunks);

    if (in.n == 0)
        return GW_OK;
    if (!adds(g, unit)) {
        GWI_TRY(receive_chunk(g, slot, in.x, in.n));
        look_at_sum(g, in);
        return GW_OK;
    }
    float *incoming = g->incoming + slot * g->incoming_floats;
    GWI_TRY(receive_chunk(g, slot, incoming, in.n));
    gwi_vector()->add(in.x, incoming, in.n);
    if (t + 2 < (size_t)g->comm->workers)
        return GW_OK;
    if (g->divide != 1.0f)
        gwi_vector()->divide(in.x, g->divide, in.n);
    look_at_sum(g, in);
    return GW_OK;
}

/* The note goes once around beside the first chunk of the adding rounds. */
static gw_status pass_note(ring *g, size_t unit)
{
    if (g->note == NULL || unit % g->chunks != 0 || !adds(g, unit))
        return GW_OK;
    ring_words *w = g->words;
    gwi_write_u64le(w->note_out, *g->note);
    gwi_put_check(w->note_out + 8, w->note_out, 8);
    GWI_TRY(gwi_recv(g->comm, g->note_recv, g->left, w->note_in, sizeof w->note_in));
    return gwi_send(g->comm, g->note_send, g->right, w->note_out, sizeof w->note_out);
}

static gw_status take_note(ring *g, size_t unit)
{
    if (g->note == NULL || unit % g->chunks != 0 || !adds(g, unit))
        return GW_OK;
    ring_words *w = g->words;
    GWI_TRY(gwi_wait_exactly(g->comm, g->note_recv, sizeof w->note_in));
    GWI_TRY(gwi_wait(g->comm, g->note_send));
    if (!gwi_is_checked(w->note_in + 8, w->note_in, 8))
        return gwi_fail_check(g->comm, g->left, 8);
    *g->note = gwi_lesser_note(*g->note, gwi_read_u64le(w->note_in));
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
    GWI_TRY(gwi_wait_all(g->comm, g->send, g->window));
    GWI_TRY(gwi_wait_all(g->comm, g->check_send, g->window));
    if (g->note != NULL && *g->note == 0 && g->bad < g->n)
        *g->note = GWI_NOTE_SUM | g->bad;
    return GW_OK;
}

static gw_status start(ring *g, gw_comm *c, float *x, size_t n, size_t rounds)
{
    size_t p = (size_t)c->workers, segment = (n + p - 1) / p;

    *g = (ring){.comm = c, .x = x, .n = n, .bad = n, .divide = 1.0f};
    g->left = (c->rank + c->workers - 1) % c->workers;
    g->right = (c->rank + 1) % c->workers;
    g->rounds = rounds;
    g->chunks = segment / GWI_CHUNK_FLOATS + 1;
    g->window = g->chunks < WINDOW ? g->chunks : WINDOW;
    g->incoming_floats = segment / g->chunks + 1;
    g->recv = c->ops;
    g->send = c->ops + WINDOW;
    g->check_recv = c->ops + 2 * WINDOW;
    g->check_send = c->ops + 3 * WINDOW;
    g->note_recv = c->ops + 4 * WINDOW;
    g->note_send = c->ops + 4 * WINDOW + 1;
    g->incoming = gwi_comm_scratch(
        c, sizeof *g->words + g->window * g->incoming_floats * sizeof(float));
    if (g->incoming == NULL)
        return GW_ERR_NOMEM;
    g->words = (ring_words *)(void *)(g->incoming + g->window * g->incoming_floats);
    return GW_OK;
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
