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
 * one is added the next are on their way. Chunks are sent from where they lie, and
 * a round ends with a seal: the check of all its chunks, after the note in rounds
 * that add. A worker seals a round only after the check of the round before was right,
 * so nobody completes a reduction that was damaged on the way. Shared memory cannot
 * damage a message: there the pass over the chunks is left out, and the check is that
 * of the note alone. */
#include "collective/check.h"
#include "collective/collective.h"

#include "kernels/vector.h"

/* Half a megabyte: what a gigabit wire takes in 4 ms, for which a rank may be off its
 * core without stopping the ring. */
enum { WINDOW = 8, NOTE_LEN = 8, SEAL_LEN = NOTE_LEN + GWI_CHECK_LEN };

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
    uint32_t check_in, check_out; /* of the chunks of a round so far */
    uint8_t *seal_in, *seal_out;  /* SEAL_LEN bytes each */
    gwi_op *recv, *send;          /* window of each */
    gwi_op *seal_recv, *seal_send;
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

/* Goes on with the check of a round. */
static uint32_t check_chunk(const ring *g, uint32_t check, const float *x, size_t n)
{
    return g->comm->in_memory ? check : gwi_crc32c(check, x, n * sizeof *x);
}

/* A unit is one chunk of one round. Both sides skip empty ones. */
static gw_status post(ring *g, size_t unit)
{
    size_t t = unit / g->chunks, chunk = unit % g->chunks, slot = unit % g->window;
    span out = chunk_of(g, t + 1, chunk), in = chunk_of(g, t + 2, chunk);
    void *to = adds(g, unit) ? g->incoming + slot * g->incoming_floats : in.x;
    size_t len = out.n * sizeof(float);

    GWI_TRY(gwi_wait(g->comm, &g->send[slot]));
    if (in.n > 0)
        GWI_TRY(gwi_recv(g->comm, &g->recv[slot], g->left, to, in.n * sizeof(float)));
    if (out.n > 0)
        GWI_TRY(gwi_send(g->comm, &g->send[slot], g->right, out.x, len));
    g->check_out = check_chunk(g, g->check_out, out.x, out.n);
    return GW_OK;
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

/* The sum of a chunk is complete once this has been added. */
static bool completes(const ring *g, size_t unit)
{
    return unit / g->chunks + 2 == (size_t)g->comm->workers;
}

static gw_status finish(ring *g, size_t unit)
{
    size_t t = unit / g->chunks, slot = unit % g->window;
    span in = chunk_of(g, t + 2, unit % g->chunks);
    const float *came = adds(g, unit) ? g->incoming + slot * g->incoming_floats : in.x;

    if (in.n == 0)
        return GW_OK;
    GWI_TRY(gwi_wait_exactly(g->comm, &g->recv[slot], in.n * sizeof(float)));
    g->check_in = check_chunk(g, g->check_in, came, in.n);
    if (adds(g, unit))
        gwi_vector()->add(in.x, came, in.n);
    if (completes(g, unit) && g->divide != 1.0f)
        gwi_vector()->divide(in.x, g->divide, in.n);
    if (completes(g, unit) || !adds(g, unit))
        look_at_sum(g, in);
    return GW_OK;
}

/* ---- seals -------------------------------------------------------------- */

/* The bytes of a seal before its check: a note goes once around, with the rounds that
 * add. */
static size_t note_len(const ring *g, size_t unit)
{
    return g->note != NULL && adds(g, unit) ? NOTE_LEN : 0;
}

static bool ends_round(const ring *g, size_t unit)
{
    return unit % g->chunks == g->chunks - 1;
}

/* Ends a round after its last unit was posted, for which the round before must have
 * ended here. */
static gw_status seal(ring *g, size_t unit)
{
    size_t len = note_len(g, unit);

    GWI_TRY(gwi_wait(g->comm, g->seal_send));
    if (len > 0)
        gwi_write_u64le(g->seal_out, *g->note);
    gwi_write_u32le(g->seal_out + len, gwi_crc32c(g->check_out, g->seal_out, len));
    g->check_out = 0;
    GWI_TRY(gwi_recv(g->comm, g->seal_recv, g->left, g->seal_in, len + GWI_CHECK_LEN));
    return gwi_send(g->comm, g->seal_send, g->right, g->seal_out, len + GWI_CHECK_LEN);
}

static gw_status take_seal(ring *g, size_t unit)
{
    size_t len = note_len(g, unit);

    GWI_TRY(gwi_wait_exactly(g->comm, g->seal_recv, len + GWI_CHECK_LEN));
    uint32_t found = gwi_crc32c(g->check_in, g->seal_in, len);
    g->check_in = 0;
    if (!gwi_same_check(gwi_read_u32le(g->seal_in + len), found))
        return gwi_fail_check(g->comm, g->left);
    if (len > 0)
        *g->note = gwi_lesser_note(*g->note, gwi_read_u64le(g->seal_in));
    return GW_OK;
}

/* A unit may be posted once the same chunk of the round before is finished, since
 * it sends what that one made. */
static gw_status go_round(ring *g)
{
    size_t units = g->rounds * g->chunks, posted = 0;

    for (size_t done = 0; done < units; done++) {
        for (; posted < units && posted - done < g->window; posted++) {
            GWI_TRY(post(g, posted));
            if (ends_round(g, posted))
                GWI_TRY(seal(g, posted));
        }
        GWI_TRY(finish(g, done));
        if (ends_round(g, done))
            GWI_TRY(take_seal(g, done));
    }
    GWI_TRY(gwi_wait_all(g->comm, g->send, g->window));
    GWI_TRY(gwi_wait(g->comm, g->seal_send));
    if (g->note != NULL && *g->note == 0 && g->bad < g->n)
        *g->note = GWI_NOTE_SUM | g->bad;
    return GW_OK;
}

static size_t chunks_in(size_t segment)
{
    return segment / GWI_CHUNK_FLOATS + 1;
}

static gw_status start(ring *g, gw_comm *c, float *x, size_t n, size_t rounds)
{
    size_t p = (size_t)c->workers, segment = (n + p - 1) / p;

    *g = (ring){.comm = c, .x = x, .n = n, .bad = n, .divide = 1.0f};
    g->left = (c->rank + c->workers - 1) % c->workers;
    g->right = (c->rank + 1) % c->workers;
    g->rounds = rounds;
    g->chunks = chunks_in(segment);
    g->window = g->chunks < WINDOW ? g->chunks : WINDOW;
    g->incoming_floats = segment / g->chunks + 1;
    g->recv = c->ops;
    g->send = c->ops + WINDOW;
    g->seal_recv = c->ops + 2 * WINDOW;
    g->seal_send = c->ops + 2 * WINDOW + 1;
    g->incoming = gwi_comm_scratch(c, g->window * g->incoming_floats * sizeof(float) +
                                          2 * SEAL_LEN);
    if (g->incoming == NULL)
        return GW_ERR_NOMEM;
    g->seal_in = (uint8_t *)(g->incoming + g->window * g->incoming_floats);
    g->seal_out = g->seal_in + SEAL_LEN;
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

static size_t segment_len(const gw_comm *c, size_t n, int segment)
{
    size_t begin, end;

    gw_part(n, c->workers, segment, &begin, &end);
    return end - begin;
}

void gwi_count_ring(gw_comm *c, size_t n, bool notes)
{
    uint64_t p = (uint64_t)c->workers, rounds = 2 * (p - 1);
    uint64_t messages = rounds * (chunks_in((n + p - 1) / p) + 1);
    uint64_t seals = rounds * GWI_CHECK_LEN + (notes ? (p - 1) * NOTE_LEN : 0);
    size_t own = segment_len(c, n, c->rank);
    size_t next = segment_len(c, n, (c->rank + 1) % c->workers);
    size_t last = segment_len(c, n, (c->rank + c->workers - 1) % c->workers);

    /* All segments go by twice, but the last that come are not sent on, and the first
     * that are sent have not come. */
    c->traffic.messages_sent += messages;
    c->traffic.messages_received += messages;
    c->traffic.bytes_sent += (2 * n - own - next) * sizeof(float) + seals;
    c->traffic.bytes_received += (2 * n - own - last) * sizeof(float) + seals;
}

gw_status gw_reduce_scatter(gw_comm *c, float *x, size_t n)
{
    ring g;

    GWI_TRY(start(&g, c, x, n, (size_t)c->workers - 1));
    return go_round(&g);
}
