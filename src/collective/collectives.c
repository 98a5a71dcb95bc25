/* SPDX-License-Identifier: Apache-2.0
 *
 * collectives.c - the simple collectives, and the choice between all-reduces. */
#include "collective/check.h"
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
    if (note != NULL && *note == 0) {
        size_t bad = gwi_first_nonfinite(x, n);
        *note = bad < n ? GWI_NOTE_SUM | bad : 0;
    }
    return GW_OK;
}

gw_status gwi_fail_check(gw_comm *c, int from)
{
    const char *host = gw_comm_host(c, from);

    gw_fail(GW_ERR_DATA,
            "a message from worker %d on host %s was damaged on the way: its checksum "
            "does not match",
            from, host != NULL ? host : "?");
    return gwi_comm_break(c, GW_ERR_DATA);
}

static bool is_short(const gw_comm *c, size_t n)
{
    return n <= GWI_DOUBLING_FLOATS || n < (size_t)c->workers;
}

/* Whether a sum of this length goes through memory that workers share. */
static bool shares(const gw_comm *c, size_t n)
{
    return c->workers > 1 && c->table.allreduce == NULL && !is_short(c, n) &&
           gwi_shares_sums(c);
}

static gw_status allreduce_in_memory(gw_comm *c, float *x, size_t n, float divide,
                                     gwi_note *note, const gwi_looker *look)
{
    if (c->shared.gates != NULL)
        return gwi_allreduce_direct(c, x, n, divide, note, look);
    return gwi_allreduce_shared(c, x, n, divide, note, look);
}

gw_status gwi_allreduce(gw_comm *c, float *x, size_t n, float divide, gwi_note *note)
{
    if (c->workers == 1)
        return GW_OK; /* the sum of one, divided by one */
    if (c->table.allreduce != NULL)
        return allreduce_native(c, x, n, divide, note);
    if (is_short(c, n))
        return gwi_allreduce_doubling(c, x, n, divide, note);
    if (shares(c, n))
        return allreduce_in_memory(c, x, n, divide, note, NULL);
    return gwi_allreduce_ring(c, x, n, divide, note);
}

gw_status gwi_allreduce_looking(gw_comm *c, float *x, size_t n, float divide,
                                gwi_note *note, const gwi_looker *look)
{
    if (shares(c, n))
        return allreduce_in_memory(c, x, n, divide, note, look);
    size_t bad = gwi_first_nonfinite(x, n);
    if (bad < n)
        *note = gwi_lesser_note(*note, look->note(look->arg, c->rank, bad));
    return gwi_allreduce(c, x, n, divide, note);
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

/* What is spread: a message that checks itself, or bytes followed by their check. */
typedef struct spreading {
    void *buf;
    size_t cap, len;
    uint8_t *check; /* NULL: it checks itself */
} spreading;

static gw_status receive_spread(gw_comm *c, spreading *s, int from)
{
    GWI_TRY(gwi_recv(c, &c->ops[0], from, s->buf, s->cap));
    if (s->check != NULL)
        GWI_TRY(gwi_recv(c, &c->ops[1], from, s->check, GWI_CHECK_LEN));
    GWI_TRY(gwi_wait(c, &c->ops[0]));
    s->len = c->ops[0].len;
    if (s->check == NULL)
        return GW_OK;
    GWI_TRY(gwi_wait_exactly(c, &c->ops[1], GWI_CHECK_LEN));
    return gwi_is_checked(s->check, s->buf, s->len) ? GW_OK : gwi_fail_check(c, from);
}

/* Posts to one worker, with the operations from *posted on. */
static gw_status send_spread(gw_comm *c, const spreading *s, int to, size_t *posted)
{
    gwi_op *op = &c->ops[*posted];

    GWI_TRY(gwi_send(c, op, to, s->buf, s->len));
    if (s->check != NULL)
        GWI_TRY(gwi_send(c, op + 1, to, s->check, GWI_CHECK_LEN));
    *posted += s->check != NULL ? 2 : 1;
    return s->len > SHORT_SPREAD ? gwi_wait(c, op) : GW_OK;
}

/* Binomial tree over ranks relative to root: a worker receives from the one whose
 * number lacks its lowest set bit, then serves those that add a lower one, the one
 * with most workers below it first. */
static gw_status spread(gw_comm *c, spreading *s, int root)
{
    int relative = (c->rank - root + c->workers) % c->workers, bit = 1;
    size_t posted = 0;

    while (bit < c->workers && (relative & bit) == 0)
        bit *= 2;
    if (relative != 0)
        GWI_TRY(receive_spread(c, s, (c->rank - bit + c->workers) % c->workers));
    else if (s->check != NULL)
        gwi_put_check(s->check, s->buf, s->len);
    for (bit /= 2; bit > 0; bit /= 2)
        if (relative + bit < c->workers)
            GWI_TRY(send_spread(c, s, (c->rank + bit) % c->workers, &posted));
    return gwi_wait_all(c, c->ops, posted);
}

gw_status gw_broadcast(gw_comm *c, void *buf, size_t len, int root)
{
    spreading s = {.buf = buf, .cap = len, .len = len};

    if (root < 0 || root >= c->workers)
        return gw_fail(GW_ERR_ARG, "invalid root %d: there are %d workers", root,
                       c->workers);
    s.check = gwi_comm_scratch(c, GWI_CHECK_LEN);
    if (s.check == NULL)
        return GW_ERR_NOMEM;
    GWI_TRY(spread(c, &s, root));
    if (s.len == len)
        return GW_OK;
    gw_fail(GW_ERR_DATA, "received a broadcast of %zu bytes, expected %zu", s.len, len);
    return gwi_comm_break(c, GW_ERR_DATA);
}

/* The two sides of a transfer. */
static gw_status hand_over(gw_comm *c, int to, const void *out, size_t len,
                           uint8_t *check)
{
    gwi_put_check(check, out, len);
    GWI_TRY(gwi_send(c, &c->ops[0], to, out, len));
    GWI_TRY(gwi_send(c, &c->ops[1], to, check, GWI_CHECK_LEN));
    return gwi_wait_all(c, c->ops, 2);
}

static gw_status take_over(gw_comm *c, int from, void *in, size_t len, uint8_t *check)
{
    GWI_TRY(gwi_recv(c, &c->ops[0], from, in, len));
    GWI_TRY(gwi_recv(c, &c->ops[1], from, check, GWI_CHECK_LEN));
    GWI_TRY(gwi_wait_exactly(c, &c->ops[0], len));
    GWI_TRY(gwi_wait_exactly(c, &c->ops[1], GWI_CHECK_LEN));
    return gwi_is_checked(check, in, len) ? GW_OK : gwi_fail_check(c, from);
}

gw_status gw_transfer(gw_comm *c, int from, const void *out, int to, void *in,
                      size_t len)
{
    if (from < 0 || from >= c->workers || to < 0 || to >= c->workers)
        return gw_fail(
            GW_ERR_ARG,
            "cannot transfer from worker %d to worker %d: there are %d workers", from,
            to, c->workers);
    if (c->rank == from && c->rank == to && len > 0)
        memmove(in, out, len);
    if (from == to || (c->rank != from && c->rank != to))
        return GW_OK;
    uint8_t *check = gwi_comm_scratch(c, GWI_CHECK_LEN);
    if (check == NULL)
        return GW_ERR_NOMEM;
    return c->rank == from ? hand_over(c, to, out, len, check)
                           : take_over(c, from, in, len, check);
}

gw_status gwi_broadcast_message(gw_comm *c, void *buf, size_t cap, size_t *len)
{
    spreading s = {.buf = buf, .cap = cap, .len = *len};

    GWI_TRY(spread(c, &s, 0));
    *len = s.len;
    return GW_OK;
}

/* In turn i worker r sends to r + i and receives from r - i, so that not all send to
 * the same one at once. A turn has four operations, of which the last two are those
 * of the checks. */
typedef struct turn {
    size_t from, to;
    gwi_op *recv, *send, *check_recv, *check_send;
} turn;

_Static_assert(4 * GWI_TURNS <= GWI_MAX_OPS, "a comm has operations enough");

static turn turn_of(gw_comm *c, size_t i)
{
    size_t p = (size_t)c->workers, r = (size_t)c->rank;
    gwi_op *ops = c->ops + 4 * (i % GWI_TURNS);

    return (turn){(r + p - i) % p, (r + i) % p, ops, ops + 1, ops + 2, ops + 3};
}

static gw_status open_turn(gw_comm *c, const gwi_parcels *x, size_t i)
{
    turn t = turn_of(c, i);
    const uint8_t *out = x->out + t.to * x->out_step;
    size_t len = x->out_lens[t.to * x->out_lens_step];

    GWI_TRY(gwi_recv(c, t.recv, (int)t.from, x->in + t.from * x->cap, x->cap));
    GWI_TRY(gwi_send(c, t.send, (int)t.to, out, len));
    if (x->checks == NULL)
        return GW_OK;
    uint8_t *in_check = x->checks + t.from * GWI_CHECK_LEN;
    uint8_t *out_check = x->checks + ((size_t)c->workers + t.to) * GWI_CHECK_LEN;
    gwi_put_check(out_check, out, len);
    GWI_TRY(gwi_recv(c, t.check_recv, (int)t.from, in_check, GWI_CHECK_LEN));
    return gwi_send(c, t.check_send, (int)t.to, out_check, GWI_CHECK_LEN);
}

static gw_status close_turn(gw_comm *c, const gwi_parcels *x, size_t i)
{
    turn t = turn_of(c, i);

    GWI_TRY(gwi_wait(c, t.recv));
    x->in_lens[t.from] = t.recv->len;
    GWI_TRY(gwi_wait(c, t.send));
    if (x->checks == NULL)
        return GW_OK;
    GWI_TRY(gwi_wait_exactly(c, t.check_recv, GWI_CHECK_LEN));
    GWI_TRY(gwi_wait(c, t.check_send));
    return gwi_is_checked(x->checks + t.from * GWI_CHECK_LEN, x->in + t.from * x->cap,
                          t.recv->len)
               ? GW_OK
               : gwi_fail_check(c, (int)t.from);
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
static gw_status gather(gw_comm *c, const void *mine, size_t len, void *all, size_t cap,
                        size_t *lens, uint8_t *checks)
{
    uint8_t *slots = all;
    size_t r = (size_t)c->rank;

    if (len > cap)
        return gw_fail(GW_ERR_ARG,
                       "a message of %zu bytes does not fit in its slot of %zu bytes",
                       len, cap);
    if (len > 0 && mine != slots + r * cap)
        memmove(slots + r * cap, mine, len);
    lens[r] = len;
    return gwi_all_to_all(c, &(gwi_parcels){.out = slots + r * cap,
                                            .out_lens = &lens[r],
                                            .in = slots,
                                            .cap = cap,
                                            .in_lens = lens,
                                            .checks = checks});
}

gw_status gwi_allgather(gw_comm *c, const void *mine, size_t len, void *all, size_t cap,
                        size_t *lens)
{
    return gather(c, mine, len, all, cap, lens, NULL);
}

gw_status gw_allgather(gw_comm *c, const void *mine, size_t len, void *all, size_t cap,
                       size_t *lens)
{
    uint8_t *checks = gwi_comm_scratch(c, 2 * (size_t)c->workers * GWI_CHECK_LEN);

    return checks != NULL ? gather(c, mine, len, all, cap, lens, checks) : GW_ERR_NOMEM;
}
