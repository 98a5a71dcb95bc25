/* SPDX-License-Identifier: Apache-2.0
 *
 * collectives.c - the simple collectives, and the choice between all-reduces. */
#include "collective/collective.h"

#include <string.h>

#include "kernels/vector.h"

void gw_part(size_t n, int workers, int rank, size_t *begin, size_t *end)
{
    size_t p = (size_t)workers, r = (size_t)rank;
    size_t each = n / p, extra = n % p;

    *begin = r * each + (r < extra ? r : extra);
    *end = *begin + each + (r < extra);
}

/* The transport's own sum. The note, which it does not know, goes round first. What
 * crossed is not told: the least possible is counted, that of a ring. */
static gw_status allreduce_native(gw_comm *c, float *x, size_t n, float divide,
                                  gwi_note *note)
{
    uint64_t p = (uint64_t)c->workers, least = 2 * (p - 1) * n * sizeof(float) / p;
    double begin;

    if (note != NULL)
        GWI_TRY(gwi_allreduce_doubling(c, x, 0, 1.0f, note));
    GWI_TRY(gwi_comm_usable(c));
    begin = gwi_now();
    gw_status st = c->table.allreduce(c->ctx, x, n);
    c->traffic.wait_seconds += gwi_now() - begin;
    if (st != GW_OK)
        return gwi_comm_break(c, st);
    c->traffic.bytes_sent += least;
    c->traffic.bytes_received += least;
    if (divide != 1.0f)
        gwi_vector()->divide(x, divide, n);
    return GW_OK;
}

gw_status gwi_allreduce(gw_comm *c, float *x, size_t n, float divide, gwi_note *note)
{
    if (c->workers == 1)
        return GW_OK; /* the sum of one, divided by one */
    if (c->table.allreduce != NULL)
        return allreduce_native(c, x, n, divide, note);
    if (n <= GWI_DOUBLING_FLOATS || n < (size_t)c->workers)
        return gwi_allreduce_doubling(c, x, n, divide, note);
    return gwi_allreduce_ring(c, x, n, divide, note);
}

gw_status gw_allreduce(gw_comm *c, float *x, size_t n)
{
    return gwi_allreduce(c, x, n, 1.0f, NULL);
}

/* Dissemination: in round i every worker tells the one 2^i further on. After
 * ceil(log2 P) rounds everybody has heard, through others, of everybody. */
gw_status gw_barrier(gw_comm *c)
{
    for (int distance = 1; distance < c->workers; distance *= 2) {
        int to = (c->rank + distance) % c->workers;
        int from = (c->rank + c->workers - distance) % c->workers;
        char nothing[1];
        GWI_TRY(gwi_swap(c, to, nothing, 0, from, nothing, 0));
    }
    return GW_OK;
}

/* Messages up to this many bytes, less than a packet, are sent to all below at once;
 * longer ones would share the cable, and the worker with most workers below it, whom
 * all wait for in the end, would get its own when the others do. */
enum { SHORT_SPREAD = 1024 };

/* Binomial tree over ranks relative to root: a worker receives from the one whose
 * number lacks its lowest set bit, then serves those that add a lower one, the one
 * with most workers below it first. */
static gw_status spread(gw_comm *c, void *buf, size_t cap, size_t *len, int root)
{
    int relative = (c->rank - root + c->workers) % c->workers, bit = 1;
    size_t posted = 0;

    while (bit < c->workers && (relative & bit) == 0)
        bit *= 2;
    if (relative != 0) {
        int from = (c->rank - bit + c->workers) % c->workers;
        GWI_TRY(gwi_recv(c, &c->ops[0], from, buf, cap));
        GWI_TRY(gwi_wait(c, &c->ops[0]));
        *len = c->ops[0].len;
    }
    for (bit /= 2; bit > 0; bit /= 2) {
        if (relative + bit >= c->workers)
            continue;
        GWI_TRY(gwi_send(c, &c->ops[posted], (c->rank + bit) % c->workers, buf, *len));
        if (*len > SHORT_SPREAD)
            GWI_TRY(gwi_wait(c, &c->ops[posted]));
        posted++;
    }
    return gwi_wait_all(c, c->ops, posted);
}

gw_status gw_broadcast(gw_comm *c, void *buf, size_t len, int root)
{
    size_t got = len;

    if (root < 0 || root >= c->workers)
        return gw_fail(GW_ERR_ARG, "root %d is not one of %d workers", root,
                       c->workers);
    GWI_TRY(spread(c, buf, len, &got, root));
    if (got == len)
        return GW_OK;
    gw_fail(GW_ERR_DATA, "%zu bytes were broadcast where %zu were due", got, len);
    return gwi_comm_break(c, GW_ERR_DATA);
}

gw_status gw_transfer(gw_comm *c, int from, const void *out, int to, void *in,
                      size_t len)
{
    if (from < 0 || from >= c->workers || to < 0 || to >= c->workers)
        return gw_fail(GW_ERR_ARG, "%d or %d is not one of %d workers", from, to,
                       c->workers);
    if (c->rank == from && c->rank == to && len > 0)
        memmove(in, out, len);
    if (from == to || (c->rank != from && c->rank != to))
        return GW_OK;
    if (c->rank == from) {
        GWI_TRY(gwi_send(c, &c->ops[0], to, out, len));
        return gwi_wait(c, &c->ops[0]);
    }
    GWI_TRY(gwi_recv(c, &c->ops[0], from, in, len));
    return gwi_wait_exactly(c, &c->ops[0], len);
}

gw_status gwi_broadcast_message(gw_comm *c, void *buf, size_t cap, size_t *len)
{
    return spread(c, buf, cap, len, 0);
}

/* In turn i worker r sends to r + i and receives from r - i, so that not all send to
 * the same one at once. */
static gw_status open_turn(gw_comm *c, const gwi_parcels *x, size_t i)
{
    size_t p = (size_t)c->workers, r = (size_t)c->rank;
    size_t from = (r + p - i) % p, to = (r + i) % p;

    GWI_TRY(gwi_recv(c, &c->ops[from], (int)from, x->in + from * x->cap, x->cap));
    return gwi_send(c, &c->ops[p + to], (int)to, x->out + to * x->out_step,
                    x->out_lens[to * x->out_lens_step]);
}

static gw_status close_turn(gw_comm *c, const gwi_parcels *x, size_t i)
{
    size_t p = (size_t)c->workers, r = (size_t)c->rank;
    size_t from = (r + p - i) % p;

    GWI_TRY(gwi_wait(c, &c->ops[from]));
    x->in_lens[from] = c->ops[from].len;
    return gwi_wait(c, &c->ops[p + (r + i) % p]);
}

gw_status gwi_all_to_all(gw_comm *c, const gwi_parcels *x)
{
    size_t p = (size_t)c->workers, opened = 1;

    for (size_t i = 1; i < p; i++) {
        for (; opened < p && opened < i + GWI_TURNS; opened++)
            GWI_TRY(open_turn(c, x, opened));
        GWI_TRY(close_turn(c, x, i));
    }
    return GW_OK;
}

/* Every worker sends its message straight to every other: as many bytes as a ring
 * would send, but one latency instead of P - 1. */
gw_status gw_allgather(gw_comm *c, const void *mine, size_t len, void *all, size_t cap,
                       size_t *lens)
{
    uint8_t *slots = all;
    size_t r = (size_t)c->rank;

    if (len > cap)
        return gw_fail(GW_ERR_ARG,
                       "a message of %zu bytes is longer than its slot of %zu", len,
                       cap);
    if (len > 0 && mine != slots + r * cap)
        memmove(slots + r * cap, mine, len);
    lens[r] = len;
    return gwi_all_to_all(c, &(gwi_parcels){.out = slots + r * cap,
                                            .out_lens = &lens[r],
                                            .in = slots,
                                            .cap = cap,
                                            .in_lens = lens});
}
