/* SPDX-License-Identifier: Apache-2.0
 *
 * codec_clock.c - see codec_clock.h. */
#define _GNU_SOURCE
#include "codec_clock.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "comm.h"
#include "fold.h"

typedef enum mode { IDLE, MEASURES, CHARGES } mode;

struct gws_clock {
    gw_transport below;
    void *below_ctx;
    mode mode;
    double left;        /* processor time when the library was last entered */
    bool posted;        /* the head is over */
    gws_cost spent;     /* measured so far; `tail` is what came last */
    gws_cost due;       /* to be slept */
    double middle_left; /* of it */
};

/* The processor time of this thread. SimGrid replaces calls of clock_gettime(), but
 * not those in parentheses. */
static double processor_time(void)
{
    struct timespec t;

    (clock_gettime)(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void gws_sleep(double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds};

    if (!(seconds > 0))
        return;
    t.tv_nsec = lround((seconds - (double)t.tv_sec) * 1e9);
    if (t.tv_nsec > 999999999)
        t.tv_nsec = 999999999;
    nanosleep(&t, NULL);
}

/* ---- measuring and charging ---------------------------------------------- */

static void take(gws_clock *k)
{
    double part = processor_time() - k->left;

    if (!k->posted)
        k->spent.head += part;
    else
        k->spent.tail += part;
}

/* The library calls the transport: what it has done since was head or middle. */
static void stop_clock(gws_clock *k)
{
    if (k->mode == MEASURES) {
        take(k);
        k->spent.middle += k->spent.tail;
        k->spent.tail = 0;
    } else if (k->mode == CHARGES && !k->posted) {
        gws_sleep(k->due.head);
    }
    k->posted = true;
}

static void start_clock(gws_clock *k)
{
    if (k->mode == MEASURES)
        k->left = processor_time();
}

static void received(gws_clock *k, size_t len)
{
    double part =
        k->due.received > 0 ? k->due.middle * (double)len / k->due.received : 0;

    k->spent.received += (double)len;
    if (k->mode != CHARGES)
        return;
    part = part < k->middle_left ? part : k->middle_left;
    k->middle_left -= part;
    gws_sleep(part);
}

void gws_clock_enter(gws_clock *k, const gws_cost *cost)
{
    k->mode = cost != NULL ? CHARGES : MEASURES;
    k->posted = false;
    k->spent = (gws_cost){0};
    k->due = cost != NULL ? *cost : (gws_cost){0};
    k->middle_left = k->due.middle;
    start_clock(k);
}

gws_cost gws_clock_leave(gws_clock *k)
{
    if (k->mode == MEASURES)
        take(k);
    else
        gws_sleep((k->posted ? 0 : k->due.head) + k->middle_left + k->due.tail);
    k->mode = IDLE;
    return k->spent;
}

/* ---- the table ------------------------------------------------------------ */

static gw_status clock_send(void *ctx, int to, const void *buf, size_t len,
                            gw_request *req)
{
    gws_clock *k = ctx;

    stop_clock(k);
    gw_status st = k->below.send(k->below_ctx, to, buf, len, req);
    start_clock(k);
    return st;
}

static gw_status clock_recv(void *ctx, int from, void *buf, size_t cap, gw_request *req)
{
    gws_clock *k = ctx;

    stop_clock(k);
    if (!gws_is_folded(buf))
        memset(buf, 0, cap);
    gw_status st = k->below.recv(k->below_ctx, from, buf, cap, req);
    start_clock(k);
    return st;
}

static gw_status clock_test(void *ctx, gw_request *req, size_t *len)
{
    gws_clock *k = ctx;
    /* A request is the first member of the operation it belongs to. */
    bool sends = ((const gwi_op *)(const void *)req)->sends;

    stop_clock(k);
    gw_status st = k->below.test(k->below_ctx, req, len);
    if (st == GW_OK && !sends)
        received(k, *len);
    start_clock(k);
    return st;
}

static gw_status clock_wait(void *ctx, double seconds)
{
    gws_clock *k = ctx;

    stop_clock(k);
    gw_status st =
        k->below.wait != NULL ? k->below.wait(k->below_ctx, seconds) : GW_PENDING;
    start_clock(k);
    return st;
}

static gw_status clock_finish(void *ctx, gw_request *req, size_t *len)
{
    gws_clock *k = ctx;
    bool sends = ((const gwi_op *)(const void *)req)->sends;

    stop_clock(k);
    gw_status st = k->below.finish(k->below_ctx, req, len);
    if (st == GW_OK && !sends)
        received(k, *len);
    start_clock(k);
    return st;
}

static void clock_abort(void *ctx, const char *reason)
{
    gws_clock *k = ctx;

    if (k->below.abort != NULL)
        k->below.abort(k->below_ctx, reason);
}

static void clock_close(void *ctx)
{
    gws_clock *k = ctx;

    if (k->below.close != NULL)
        k->below.close(k->below_ctx);
    gwi_free(k);
}

gw_status gws_clock_new(gws_clock **out, gw_comm *comm)
{
    gws_clock *k = gwi_calloc(1, sizeof *k);

    *out = k;
    if (k == NULL)
        return gw_fail(GW_ERR_NOMEM, "no memory for a clock");
    k->below = comm->table;
    k->below_ctx = comm->ctx;
    comm->table = (gw_transport){
        .struct_size = sizeof(gw_transport),
        .name = k->below.name,
        .send = clock_send,
        .recv = clock_recv,
        .test = clock_test,
        .wait = clock_wait,
        .finish = k->below.finish != NULL ? clock_finish : NULL,
        .abort = clock_abort,
        .close = clock_close,
    };
    comm->ctx = k;
    return GW_OK;
}
