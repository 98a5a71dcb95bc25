/* SPDX-License-Identifier: Apache-2.0
 *
 * comm.c - one worker's connection to the others.
 *
 * A transport only posts and tests. This file is the one place that waits: every
 * posted operation is in a list. The wait loop tests all of them, sleeps in the
 * transport in between, and gives up when a worker is gone or when there was no
 * progress for as long as the time limit. */
#define _GNU_SOURCE
#include "comm.h"
#include "gradwire_elastic.h"
#include "limit.h"
#include "trace.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define DEFAULT_TIMEOUT 60.0

/* How long one sleep lasts at most. Also how often the transport is asked for
 * lost workers, which is promised in gradwire.h. */
#define SLICE 0.05

/* The table as the first version had it, without all that was added since. */
#define TABLE_MIN offsetof(gw_transport, allreduce)

static gw_status check_table(const gw_transport *t)
{
    if (t == NULL || t->struct_size < TABLE_MIN || t->struct_size > sizeof *t)
        return gw_fail(
            GW_ERR_ARG,
            "gw_transport.struct_size is not %zu; set it to sizeof(gw_transport)",
            sizeof(gw_transport));
    if (t->name == NULL || t->send == NULL || t->recv == NULL || t->test == NULL)
        return gw_fail(GW_ERR_ARG, "a transport needs a name, send, recv and test");
    return GW_OK;
}

gw_status gw_comm_new(gw_comm **out, const gw_transport *table, void *ctx, int rank,
                      int workers, const gw_comm_options *opt)
{
    gw_comm *c;

    *out = NULL;
    GWI_TRY(check_table(table));
    if (workers < 1 || rank < 0 || rank >= workers)
        return gw_fail(GW_ERR_ARG, "invalid rank %d: there are %d workers", rank,
                       workers);
    if (opt != NULL &&
        (opt->struct_size != sizeof *opt || !(opt->timeout_seconds >= 0)))
        return gw_fail(GW_ERR_ARG,
                       "invalid gw_comm_options: struct_size %zu (expected %zu), "
                       "timeout_seconds %g (expected 0 or more)",
                       opt->struct_size, sizeof *opt, opt->timeout_seconds);
    size_t ops = 4 * (size_t)workers;
    ops = ops < GWI_MIN_OPS ? GWI_MIN_OPS : ops > GWI_MAX_OPS ? GWI_MAX_OPS : ops;
    c = gwi_calloc(1, sizeof *c + ops * sizeof *c->ops +
                          (size_t)workers * sizeof *c->copiers + sizeof *c->lease);
    if (c == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory for a comm of %d workers",
                       workers);
    memcpy(&c->table, table, table->struct_size);
    c->ctx = ctx;
    c->rank = rank;
    c->workers = workers;
    c->timeout = opt != NULL && opt->timeout_seconds > 0 ? opt->timeout_seconds
                                                         : DEFAULT_TIMEOUT;
    c->active_end = &c->active;
    c->ops = (gwi_op *)(c + 1);
    c->copiers = (gwi_copier *)(c->ops + ops);
    c->lease = (gwi_lease *)(c->copiers + workers);
    gwi_lease_init(c->lease);
    *out = c;
    return GW_OK;
}

void gw_comm_free(gw_comm *c)
{
    if (c == NULL)
        return;
    if (c->table.close != NULL)
        c->table.close(c->ctx);
    gwi_lease_fini(c->lease);
    gw_limit_free(c->limit);
    gwi_free(c->scratch);
    gwi_free(c);
}

int gw_comm_rank(const gw_comm *c)
{
    return c->rank;
}

int gw_comm_workers(const gw_comm *c)
{
    return c->workers;
}

const char *gw_comm_transport(const gw_comm *c)
{
    return c->table.name;
}

gw_traffic gw_comm_traffic(const gw_comm *c)
{
    gwi_comm_await(c);
    return c->traffic;
}

void gwi_comm_set_step(gw_comm *c, uint64_t step)
{
    c->step = step;
    if (c->table.step != NULL)
        c->table.step(c->ctx, step);
}

void *gwi_comm_scratch(gw_comm *c, size_t len)
{
    gwi_comm_await(c);
    if (c->scratch == NULL || len > c->scratch_cap) {
        void *larger = gwi_calloc(1, len);
        if (larger == NULL) {
            gw_fail(GW_ERR_NOMEM, "not enough memory for %zu bytes of scratch space",
                    len);
            return NULL;
        }
        gwi_free(c->scratch);
        c->scratch = larger;
        c->scratch_cap = len;
    }
    return c->scratch;
}

/* ---- failing ------------------------------------------------------------ */

gw_status gwi_comm_break(gw_comm *c, gw_status status)
{
    if (c->broken != GW_OK)
        return status;
    c->broken = status;
    snprintf(c->reason, sizeof c->reason, "%s", gw_error_message());
    if (c->table.abort != NULL)
        c->table.abort(c->ctx, c->reason);
    return gw_fail(status, "%s (seen by worker %d in step %" PRIu64 ")", c->reason,
                   c->rank, c->step);
}

gw_status gwi_comm_usable(const gw_comm *c)
{
    gwi_comm_await(c);
    if (c->broken == GW_OK)
        return GW_OK;
    return gw_fail(c->broken, "this comm has failed before: %s", c->reason);
}

gw_status gw_comm_fail(gw_comm *c, gw_status status)
{
    gwi_comm_await(c);
    return gwi_comm_break(c, status);
}

const char *gw_comm_host(const gw_comm *c, int rank)
{
    if (rank < 0 || rank >= c->workers || c->table.host == NULL)
        return NULL;
    return c->table.host(c->ctx, rank);
}

static const char *host_of(const gw_comm *c, int rank)
{
    const char *host = gw_comm_host(c, rank);

    return host != NULL ? host : "?";
}

void gw_comm_interrupt(gw_comm *c)
{
    atomic_store(&c->interrupted, true);
}

/* Breaks the comm if another thread asked for it. */
static gw_status heed_interrupt(gw_comm *c)
{
    if (!atomic_load_explicit(&c->interrupted, memory_order_relaxed))
        return GW_OK;
    gw_fail(GW_ERR_STOPPED, "worker %d was interrupted", c->rank);
    return gwi_comm_break(c, GW_ERR_STOPPED);
}

static gw_status fail_lost(gw_comm *c, int rank)
{
    gw_fail(GW_ERR_PEER, "worker %d on host %s is gone", rank, host_of(c, rank));
    return gwi_comm_break(c, GW_ERR_PEER);
}

static gw_status fail_silent(gw_comm *c, const gwi_op *awaited)
{
    int rank = c->table.suspect != NULL ? c->table.suspect(c->ctx) : -1;

    if (rank < 0)
        rank = awaited->peer;
    gw_fail(GW_ERR_TIMEOUT, "worker %d on host %s has not answered for %g s", rank,
            host_of(c, rank), gwi_limit_now(c));
    return gwi_comm_break(c, GW_ERR_TIMEOUT);
}

/* ---- posting ------------------------------------------------------------ */

static void activate(gw_comm *c, gwi_op *op)
{
    op->pending = true;
    op->next = NULL;
    *c->active_end = op;
    c->active_end = &op->next;
}

static gw_status check_peer(gw_comm *c, int peer)
{
    if (peer < 0 || peer >= c->workers || peer == c->rank)
        return gw_fail(GW_ERR_ARG,
                       "worker %d cannot exchange messages with worker %d of %d",
                       c->rank, peer, c->workers);
    GWI_TRY(gwi_comm_usable(c));
    return heed_interrupt(c);
}

gw_status gwi_send(gw_comm *c, gwi_op *op, int to, const void *buf, size_t len)
{
    GWI_TRY(check_peer(c, to));
    *op = (gwi_op){.peer = to, .sends = true, .len = len};
    gw_status st = c->table.send(c->ctx, to, buf, len, &op->request);
    if (st != GW_OK)
        return gwi_comm_break(c, st);
    activate(c, op);
    gwi_trace_send(c, to, c->head_len + len);
    return GW_OK;
}

gw_status gwi_recv(gw_comm *c, gwi_op *op, int from, void *buf, size_t cap)
{
    GWI_TRY(check_peer(c, from));
    *op = (gwi_op){.peer = from, .sends = false, .len = 0};
    gw_status st = c->table.recv(c->ctx, from, buf, cap, &op->request);
    if (st != GW_OK)
        return gwi_comm_break(c, st);
    activate(c, op);
    return GW_OK;
}

/* ---- waiting ------------------------------------------------------------ */

static void count(gw_comm *c, const gwi_op *op)
{
    gw_traffic *t = &c->traffic;

    if (op->sends) {
        t->messages_sent++;
        t->bytes_sent += c->head_len + op->len;
    } else {
        t->messages_received++;
        t->bytes_received += c->head_len + op->len;
    }
}

/* Takes the operation that link leads to, which is over, out of the list. */
static void retire(gw_comm *c, gwi_op **link)
{
    gwi_op *op = *link;

    op->pending = false;
    *link = op->next;
    if (*link == NULL)
        c->active_end = link;
    count(c, op);
    if (!op->sends)
        gwi_limit_heard(c);
}

/* Tests everything posted once; *moved says whether anything finished. */
static gw_status test_all(gw_comm *c, bool *moved)
{
    gwi_op **link = &c->active;

    *moved = false;
    while (*link != NULL) {
        gwi_op *op = *link;
        gw_status st = c->table.test(c->ctx, &op->request, &op->len);
        if (st == GW_PENDING) {
            link = &op->next;
            continue;
        }
        if (st != GW_OK)
            return gwi_comm_break(c, st);
        *moved = true;
        retire(c, link);
    }
    return GW_OK;
}

/* For transports that cannot sleep: short sleeps that grow while it is quiet. */
static void nap(double silent)
{
    double seconds = silent < 0.001 ? 20e-6 : 500e-6;
    struct timespec t = {.tv_sec = 0, .tv_nsec = (long)(seconds * 1e9)};

    nanosleep(&t, NULL);
}

static gw_status sleep_once(gw_comm *c, double silent)
{
    if (c->table.wait == NULL) {
        nap(silent);
        return GW_PENDING;
    }
    return c->table.wait(c->ctx, SLICE);
}

/* The state of one wait: when the last sleep began, how long all was silent. The
 * silence adds up from sleeps and not from the clock, so that a job suspended
 * with Ctrl-Z for an hour does not wake up to a time-out. */
typedef struct patience {
    double before, silent, since_asked;
} patience;

static gw_status lose_patience(gw_comm *c, patience *p, const gwi_op *awaited,
                               gw_status slept)
{
    double now = gwi_now(), spent = now - p->before;

    GWI_TRY(heed_interrupt(c));
    p->before = now;
    p->since_asked += spent;
    p->silent =
        slept == GW_OK ? 0 : p->silent + (spent < 2 * SLICE ? spent : 2 * SLICE);
    if (p->since_asked >= SLICE && c->table.lost != NULL) {
        int rank = c->table.lost(c->ctx);
        p->since_asked = 0;
        if (rank >= 0)
            return fail_lost(c, rank);
    }
    if (p->silent >= gwi_limit_now(c))
        return fail_silent(c, awaited);
    return GW_OK;
}

/* By a transport that waits for one operation alone. */
static gw_status finish_alone(gw_comm *c, gwi_op *op)
{
    gwi_op **link = &c->active;
    double begin = gwi_now();
    gw_status st = c->table.finish(c->ctx, &op->request, &op->len);

    if (st != GW_OK)
        return gwi_comm_break(c, st);
    while (*link != op)
        link = &(*link)->next;
    retire(c, link);
    c->traffic.wait_seconds += gwi_now() - begin;
    return GW_OK;
}

gw_status gwi_wait(gw_comm *c, gwi_op *op)
{
    patience p = {.before = 0};
    double begin;
    bool moved;

    if (!op->pending)
        return GW_OK;
    GWI_TRY(gwi_comm_usable(c));
    if (c->table.finish != NULL)
        return finish_alone(c, op);
    GWI_TRY(test_all(c, &moved));
    if (!op->pending)
        return GW_OK;
    begin = p.before = gwi_now();
    gwi_trace_pause(c, begin);
    while (op->pending) {
        gw_status st = sleep_once(c, p.silent);
        if (st != GW_OK && st != GW_PENDING)
            return gwi_comm_break(c, st);
        GWI_TRY(test_all(c, &moved));
        GWI_TRY(lose_patience(c, &p, op, moved ? GW_OK : st));
    }
    double now = gwi_now();
    c->traffic.wait_seconds += now - begin;
    gwi_trace_resume(c, begin, now);
    return GW_OK;
}

gw_status gwi_wait_all(gw_comm *c, gwi_op *ops, size_t n)
{
    for (size_t i = 0; i < n; i++)
        GWI_TRY(gwi_wait(c, &ops[i]));
    return GW_OK;
}

gw_status gwi_wait_exactly(gw_comm *c, gwi_op *op, size_t len)
{
    GWI_TRY(gwi_wait(c, op));
    if (op->len == len)
        return GW_OK;
    gw_fail(GW_ERR_DATA, "worker %d sent %zu bytes, expected %zu", op->peer, op->len,
            len);
    return gwi_comm_break(c, GW_ERR_DATA);
}

gw_status gwi_swap(gw_comm *c, int to, const void *out, size_t out_len, int from,
                   void *in, size_t in_len)
{
    gwi_op *ops = c->ops;

    GWI_TRY(gwi_recv(c, &ops[0], from, in, in_len));
    GWI_TRY(gwi_send(c, &ops[1], to, out, out_len));
    GWI_TRY(gwi_wait_exactly(c, &ops[0], in_len));
    return gwi_wait(c, &ops[1]);
}
