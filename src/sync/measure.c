/* SPDX-License-Identifier: Apache-2.0
 *
 * measure.c - the clock of a call, and the counts of what crossed. */
#include "sync/measure.h"

enum { ENCODING, REST };

/* The clock is that of the whole, also while a segment is exchanged. */
void gwi_measure_begin(gw_sync *s)
{
    double now = gwi_now();

    s = s->whole;
    s->measure = (gwi_measure){.before = s->comm->traffic,
                               .since = now,
                               .waited = s->comm->traffic.wait_seconds};
    gwi_trace_begin(s->comm, GW_ACTIVITY_ENCODE, now);
}

/* The time since the last activity began, less what was waited in it. */
static double stop_clock(gw_sync *s)
{
    gwi_measure *m = &s->measure;
    double now = gwi_now(), waited = s->comm->traffic.wait_seconds;

    m->spent[m->activity] += now - m->since - (waited - m->waited);
    m->since = now;
    m->waited = waited;
    return now;
}

static void go_over(gw_sync *s, int activity, gw_activity traced)
{
    s = s->whole;
    if (s->measure.activity == activity)
        return;
    double now = stop_clock(s);
    s->measure.activity = activity;
    gwi_trace_next(s->comm, traced, now);
}

void gwi_encodes(gw_sync *s)
{
    go_over(s, ENCODING, GW_ACTIVITY_ENCODE);
}

void gwi_decodes(gw_sync *s)
{
    go_over(s, REST, GW_ACTIVITY_DECODE);
}

void gwi_measure_end(gw_sync *s)
{
    s = s->whole;
    const gw_traffic *now = &s->comm->traffic, *before = &s->measure.before;
    double end = stop_clock(s);

    s->stats.bytes_sent += now->bytes_sent - before->bytes_sent;
    s->stats.bytes_received += now->bytes_received - before->bytes_received;
    s->stats.messages_sent += now->messages_sent - before->messages_sent;
    s->stats.messages_received += now->messages_received - before->messages_received;
    s->stats.encode_seconds += s->measure.spent[ENCODING];
    s->stats.wait_seconds += now->wait_seconds - before->wait_seconds;
    s->stats.decode_seconds += s->measure.spent[REST];
    gwi_trace_end(s->comm, end);
}
