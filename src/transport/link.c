/* SPDX-License-Identifier: Apache-2.0
 *
 * link.c - makes any transport behave like a network of a given rate and latency.
 *
 * Every worker is a host with one full-duplex interface. A message of S bytes
 * leaves when the sender's interface is free and occupies it for S / rate:
 *
 *     sender:    start = max(now, egress free);         egress free = start + S/rate
 *     receiver:  begin = max(start + latency, ingress free);
 *                due   = ingress free = begin + S/rate
 *
 * Only the sender knows when its interface is free, and only the receiver knows
 * when its own is. So no state is shared: a time stamp before each message tells the
 * start. The message itself moves through the transport below as fast as it can, but
 * the receive is reported only when it is due. Stamps are part of the emulation and are
 * not counted as traffic.
 *
 * A worker that waits for a message on the link tells all others, through the
 * transport, how long it will take. Some of them may wait for this worker and cannot
 * see that message. */
#define _GNU_SOURCE
#include "transport/link.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "comm.h"

/* The share of the time limit after which the others are told that messages are on
 * their way. */
#define TELL_SHARE (1.0 / 8)

typedef struct stamp {
    double start;
    uint64_t len;
} stamp;

/* One operation: a stamp and a message on the transport below. */
typedef struct link_op {
    struct link_op *next; /* in the list of active or of unused ones */
    gw_request stamp_request, body_request;
    stamp stamp;
    double due; /* when it may be reported; known for a receive once stamped */
    size_t len;
    bool sends, stamp_over, body_over;
} link_op;

typedef struct link_end {
    gw_transport below;
    void *below_ctx;
    gwi_link_rate rate;
    double egress_free, ingress_free;
    double tell_every;          /* seconds */
    double told_at, told_until; /* when the others were told, and until when */
    link_op *active, *unused;
    char name[96];
} link_end;

/* ---- reading "1gbit,50us" ----------------------------------------------- */

typedef struct unit {
    const char *name;
    double factor;
} unit;

static const unit rate_units[] = {
    {"kbit", 1e3 / 8}, {"mbit", 1e6 / 8}, {"gbit", 1e9 / 8}};
static const unit time_units[] = {{"us", 1e-6}, {"ms", 1e-3}};

/* Reads a number with one of n units, up to a comma or the end. */
static bool read_quantity(const char *text, const unit *units, size_t n, double *value)
{
    char *end;
    double number = strtod(text, &end);
    size_t len = strcspn(end, ",");

    if (end == text || !(number >= 0) || number > 1e9)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (strlen(units[i].name) == len && strncmp(end, units[i].name, len) == 0) {
            *value = number * units[i].factor;
            return true;
        }
    }
    return false;
}

gw_status gwi_link_parse(const char *text, gwi_link_rate *rate)
{
    const char *comma = strchr(text, ',');

    *rate = (gwi_link_rate){.latency = 0};
    if (!read_quantity(text, rate_units, 3, &rate->bytes_per_second) ||
        rate->bytes_per_second <= 0)
        return gw_fail(GW_ERR_ARG,
                       "invalid link rate '%.*s'; expected a number with kbit, mbit or "
                       "gbit, as in 100mbit or 1gbit,50us",
                       (int)strcspn(text, ","), text);
    if (comma != NULL && (strchr(comma + 1, ',') != NULL ||
                          !read_quantity(comma + 1, time_units, 2, &rate->latency)))
        return gw_fail(
            GW_ERR_ARG,
            "invalid link latency '%s'; expected a number with us or ms, as in 50us",
            comma + 1);
    return GW_OK;
}

gw_status gwi_link_check(const char *text)
{
    gwi_link_rate rate;

    return gwi_link_parse(text, &rate);
}

/* ---- operations --------------------------------------------------------- */

static link_op *take_op(link_end *l)
{
    link_op *op = l->unused;

    if (op == NULL)
        return gwi_calloc(1, sizeof *op);
    l->unused = op->next;
    memset(op, 0, sizeof *op);
    return op;
}

static gw_status activate(link_end *l, link_op *op, gw_request *req)
{
    op->next = l->active;
    l->active = op;
    req->pointer[0] = op;
    return GW_OK;
}

static void retire(link_end *l, link_op *op)
{
    link_op **at = &l->active;

    while (*at != op)
        at = &(*at)->next;
    *at = op->next;
    op->next = l->unused;
    l->unused = op;
}

static double later(double a, double b)
{
    return a > b ? a : b;
}

static gw_status link_send(void *ctx, int to, const void *buf, size_t len,
                           gw_request *req)
{
    link_end *l = ctx;
    link_op *op = take_op(l);

    if (op == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory for a message on a link");
    op->sends = true;
    op->stamp.start = later(gwi_now(), l->egress_free);
    op->stamp.len = len;
    op->due = op->stamp.start + (double)len / l->rate.bytes_per_second;
    l->egress_free = op->due;
    activate(l, op, req);
    GWI_TRY(l->below.send(l->below_ctx, to, &op->stamp, sizeof op->stamp,
                          &op->stamp_request));
    return l->below.send(l->below_ctx, to, buf, len, &op->body_request);
}

static gw_status link_recv(void *ctx, int from, void *buf, size_t cap, gw_request *req)
{
    link_end *l = ctx;
    link_op *op = take_op(l);

    if (op == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory for a message on a link");
    activate(l, op, req);
    GWI_TRY(l->below.recv(l->below_ctx, from, &op->stamp, sizeof op->stamp,
                          &op->stamp_request));
    return l->below.recv(l->below_ctx, from, buf, cap, &op->body_request);
}

/* The stamp of a receive is here: its message gets its place on the interface. */
static gw_status schedule(link_end *l, link_op *op, size_t stamp_len)
{
    if (stamp_len != sizeof op->stamp)
        return gw_fail(GW_ERR_DATA, "another worker does not emulate a link; use the "
                                    "same link on every worker");
    double begin = later(op->stamp.start + l->rate.latency, l->ingress_free);
    op->due = begin + (double)op->stamp.len / l->rate.bytes_per_second;
    l->ingress_free = op->due;
    return GW_OK;
}

static gw_status test_stamp(link_end *l, link_op *op)
{
    size_t len = 0;

    GWI_TRY(l->below.test(l->below_ctx, &op->stamp_request, &len));
    op->stamp_over = true;
    return op->sends ? GW_OK : schedule(l, op, len);
}

static gw_status test_body(link_end *l, link_op *op)
{
    GWI_TRY(l->below.test(l->below_ctx, &op->body_request, &op->len));
    op->body_over = true;
    return GW_OK;
}

static gw_status link_test(void *ctx, gw_request *req, size_t *len)
{
    link_end *l = ctx;
    link_op *op = req->pointer[0];

    if (!op->stamp_over)
        GWI_TRY(test_stamp(l, op));
    if (!op->body_over)
        GWI_TRY(test_body(l, op));
    if (gwi_now() < op->due)
        return GW_PENDING;
    if (!op->sends)
        *len = op->len;
    retire(l, op);
    return GW_OK;
}

/* The next moment at which an operation becomes due, or 0. One that is due but has
 * not come through the transport below is for that one to wait for. */
static double next_due(const link_end *l, double now)
{
    double next = 0;

    for (const link_op *op = l->active; op != NULL; op = op->next) {
        bool waits_below = op->due <= now && !(op->stamp_over && op->body_over);
        if (op->due > 0 && !waits_below && (next == 0 || op->due < next))
            next = op->due;
    }
    return next;
}

/* Linux lets timers fire up to 50 us late to save power; here that would be seen
 * in every message. Per thread, hence here and not where the link is made. */
static void sharpen_timers(void)
{
    static _Thread_local bool done;

    if (!done)
        prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
    done = true;
}

/* Long waits are told at once, short ones now and then: they may be many. */
static void tell_others(link_end *l, double now, double due)
{
    bool enough = due - now > l->tell_every || now - l->told_at > l->tell_every;

    if (l->below.busy == NULL || due <= l->told_until || !enough)
        return;
    l->told_at = now;
    l->told_until = due;
    l->below.busy(l->below_ctx, due);
}

static gw_status link_wait(void *ctx, double seconds)
{
    link_end *l = ctx;
    double now = gwi_now(), due = next_due(l, now);

    sharpen_timers();
    if (due > 0) {
        seconds = due - now < seconds ? due - now : seconds;
        if (seconds <= 0)
            return GW_OK;
        tell_others(l, now, due);
    }
    if (l->below.wait == NULL)
        return GW_PENDING;
    gw_status st = l->below.wait(l->below_ctx, seconds);
    /* What is on its way through the modelled network is progress. */
    return st == GW_PENDING && due > 0 ? GW_OK : st;
}

/* ---- the rest is the transport below ------------------------------------ */

static int link_lost(void *ctx)
{
    link_end *l = ctx;

    return l->below.lost != NULL ? l->below.lost(l->below_ctx) : -1;
}

static int link_suspect(void *ctx)
{
    link_end *l = ctx;

    return l->below.suspect != NULL ? l->below.suspect(l->below_ctx) : -1;
}

static const char *link_host(void *ctx, int rank)
{
    link_end *l = ctx;

    return l->below.host != NULL ? l->below.host(l->below_ctx, rank) : NULL;
}

static void link_step(void *ctx, uint64_t step)
{
    link_end *l = ctx;

    if (l->below.step != NULL)
        l->below.step(l->below_ctx, step);
}

static void link_abort(void *ctx, const char *reason)
{
    link_end *l = ctx;

    if (l->below.abort != NULL)
        l->below.abort(l->below_ctx, reason);
}

static void free_list(link_op *op)
{
    while (op != NULL) {
        link_op *next = op->next;
        gwi_free(op);
        op = next;
    }
}

static int link_pause(void *ctx, int tell)
{
    link_end *l = ctx;

    return l->below.pause != NULL ? l->below.pause(l->below_ctx, tell) : 0;
}

static void link_close(void *ctx)
{
    link_end *l = ctx;

    if (l->below.close != NULL)
        l->below.close(l->below_ctx);
    free_list(l->active);
    free_list(l->unused);
    gwi_free(l);
}

static const gw_transport link_table = {
    .struct_size = sizeof(gw_transport),
    .send = link_send,
    .recv = link_recv,
    .test = link_test,
    .wait = link_wait,
    .lost = link_lost,
    .suspect = link_suspect,
    .host = link_host,
    .step = link_step,
    .abort = link_abort,
    .close = link_close,
    .pause = link_pause,
};

gw_status gw_comm_link(gw_comm *c, const char *link)
{
    gwi_link_rate rate;
    link_end *l;

    if (c == NULL || link == NULL)
        return gw_fail(GW_ERR_ARG, "gw_comm_link() needs a comm and a link");
    GWI_TRY(gwi_link_parse(link, &rate));
    if (c->active != NULL)
        return gw_fail(GW_ERR_ARG,
                       "gw_comm_link() must be called before anything is sent");
    if (c->table.allreduce != NULL)
        return gw_fail(GW_ERR_ARG,
                       "cannot emulate a link, because %s has its own all-reduce; use "
                       "gradwire's collectives",
                       c->table.name);
    l = gwi_calloc(1, sizeof *l);
    if (l == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory for a link");
    l->below = c->table;
    l->below_ctx = c->ctx;
    l->rate = rate;
    l->tell_every = c->timeout * TELL_SHARE;
    if (l->below.busy != NULL)
        l->below.busy(l->below_ctx, 0);
    snprintf(l->name, sizeof l->name, "link(%s,%s)", c->table.name, link);
    c->table = link_table;
    c->table.name = l->name;
    c->ctx = l;
    c->shared.bytes = 0; /* what is sent that way would cross no link */
    return GW_OK;
}
