/* SPDX-License-Identifier: Apache-2.0
 *
 * trace.c - tells a tracer what a worker does inside the calls of a sync: stretches
 * of encoding or decoding, parted by waits, and sends. */
#include "comm.h"
#include "trace.h"

void gw_comm_trace(gw_comm *comm, gw_trace *tell, void *arg)
{
    gwi_comm_await(comm);
    comm->trace = tell;
    comm->trace_arg = arg;
    comm->tracing = false;
}

/* The stretch since the last mark, if it has any length. */
static void tell_stretch(gw_comm *c, double end)
{
    if (end > c->since)
        c->trace(c->trace_arg, c->activity, c->since, end, -1, 0);
    c->since = end;
}

void gwi_trace_begin(gw_comm *c, gw_activity activity, double now)
{
    if (c->trace == NULL)
        return;
    c->tracing = true;
    c->activity = activity;
    c->since = now;
}

void gwi_trace_next(gw_comm *c, gw_activity activity, double now)
{
    if (!c->tracing)
        return;
    tell_stretch(c, now);
    c->activity = activity;
}

void gwi_trace_end(gw_comm *c, double now)
{
    if (!c->tracing)
        return;
    tell_stretch(c, now);
    c->tracing = false;
}

void gwi_trace_pause(gw_comm *c, double now)
{
    if (c->tracing)
        tell_stretch(c, now);
}

void gwi_trace_resume(gw_comm *c, double began, double now)
{
    if (!c->tracing)
        return;
    c->since = now;
    c->trace(c->trace_arg, GW_ACTIVITY_WAIT, began, c->since, -1, 0);
}

void gwi_trace_wait(gw_comm *c, double began, double now)
{
    if (c->trace != NULL && now > began)
        c->trace(c->trace_arg, GW_ACTIVITY_WAIT, began, now, -1, 0);
}

void gwi_trace_send(gw_comm *c, int to, size_t len)
{
    if (!c->tracing)
        return;
    double now = gwi_now();
    c->trace(c->trace_arg, GW_ACTIVITY_SEND, now, now, to, len);
}
