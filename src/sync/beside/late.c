/* SPDX-License-Identifier: Apache-2.0
 *
 * late.c - results that are used one step late, and what they have in common with those
 * of streams. */
#include "sync/beside/late.h"

#include <string.h>

#include "sync/beside/courier.h"
#include "sync/beside/overlap.h"
#include "sync/beside/stream.h"
#include "sync/momentum.h"
#include "sync/notes.h"
#include "trace.h"

typedef struct options {
    uint64_t delay; /* steps after which a result is used */
    double lead;    /* how many steps further its trend is followed */
} options;

static const options *options_of(const gwi_spec *spec)
{
    return gwi_options_of(spec, GWI_LATE);
}

static const gwi_key keys[] = {
    {.name = "delay",
     .meaning =
         "steps that are computed while an exchange runs; then its result is used",
     .fallback = "0",
     .range = "0, or 1 where gradients are exchanged",
     .least = 0,
     .most = 1,
     .unsaid = true,
     .at = offsetof(options, delay),
     .value = GWI_COUNT},
    {.name = "lead",
     .meaning = "of delay: follows the trend from the result before; 1: for one step",
     .fallback = "1",
     .range = "from 0 to 4",
     .least = 0,
     .most = 4,
     .unsaid = true,
     .at = offsetof(options, lead),
     .value = GWI_NUMBER},
    {.name = NULL},
};

bool gwi_is_late(const gwi_spec *spec)
{
    return spec->part[GWI_LATE] == &gwi_late && options_of(spec)->delay > 0 &&
           spec->subject == GWI_GRADIENT && gwi_schedule_of(spec)->talks;
}

/* ---- what is remembered ---------------------------------------------------------- */

enum { UNDER_WAY, HAS_BEFORE, NOTE, WAITING = NOTE + GWI_NOTE_PARTS };

static size_t waiting_floats(const gwi_spec *spec, const gw_layout *layout)
{
    (void)spec, (void)layout;
    return WAITING;
}

static bool leads(const gwi_spec *spec)
{
    return gwi_is_late(spec) && options_of(spec)->lead > 0;
}

static const gwi_remembered memories[] = {
    {.name = "before",
     .what = "result before",
     .tag = GWI_BEFORE,
     .handing = GW_HANDING_COMMON,
     .wanted = leads},
    {.name = "pending",
     .what = "result under way",
     .tag = GWI_PENDING,
     .handing = GW_HANDING_COMMON,
     .wanted = gwi_is_late},
    {.name = "waiting",
     .what = "note of the result under way",
     .tag = GWI_WAITING,
     .handing = GW_HANDING_COMMON,
     .wanted = gwi_is_late,
     .floats = waiting_floats},
    {.name = NULL},
};

const gwi_part gwi_late = {.name = "late", .keys = keys, .memories = memories};

static float *note_parts(const gw_sync *s)
{
    return s->kept[GWI_WAITING] + NOTE;
}

int gw_sync_pending(const gw_sync *s)
{
    return s->late != NULL && s->kept[GWI_WAITING][UNDER_WAY] != 0;
}

/* Nothing is under way any more. */
static void forget(gw_sync *s)
{
    float has_before = s->kept[GWI_WAITING][HAS_BEFORE];

    memset(s->kept[GWI_PENDING], 0, s->layout->floats * sizeof(float));
    memset(s->kept[GWI_WAITING], 0, WAITING * sizeof(float));
    s->kept[GWI_WAITING][HAS_BEFORE] = has_before;
}

/* ---- the courier's side ---------------------------------------------------------- */

struct gwi_late {
    gwi_courier *courier;
    gwi_feed feed;
    double rate; /* for the next exchange; below 0: as before */
    gw_stats stats;
    gw_health health;
};

/* Waiting beside the caller costs the caller nothing and does not count. */
static gw_status exchange(gw_sync *s)
{
    double waited = s->stats.wait_seconds;
    gwi_note note = 0;
    gw_status st = gwi_sync_whole(s, s->kept[GWI_PENDING], &note);

    s->stats.wait_seconds = waited;
    if (note != 0)
        memset(s->kept[GWI_PENDING], 0, s->layout->floats * sizeof(float));
    gwi_note_keep(note_parts(s), note);
    return st;
}

/* ---- the caller's side ----------------------------------------------------------- */

gw_status gwi_late_init(gw_sync *s)
{
    if (!gwi_is_late(&s->spec))
        return GW_OK;
    s->late = gwi_calloc(1, sizeof *s->late);
    if (s->late == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory for late results");
    s->late->rate = -1;
    return gwi_courier_new(&s->late->courier, s);
}

void gwi_late_free(gw_sync *s)
{
    if (s->late == NULL)
        return;
    gwi_courier_free(s->late->courier);
    gwi_free(s->late);
    s->late = NULL;
}

void gwi_late_await(const gw_sync *s)
{
    gwi_stream_await(s);
    if (s->late != NULL)
        gwi_courier_await(s->late->courier);
}

gw_status gwi_late_outcome(const gw_sync *s)
{
    GWI_TRY(gwi_stream_outcome(s));
    return s->late != NULL ? gwi_courier_outcome(s->late->courier) : GW_OK;
}

gwi_feed *gwi_late_feed(const gw_sync *s)
{
    return &s->late->feed;
}

bool gwi_late_rate(gw_sync *s, double rate)
{
    if (s->late != NULL)
        s->late->rate = rate;
    return s->late != NULL;
}

void gwi_late_show(gw_sync *s)
{
    if (s->late == NULL)
        return;
    s->late->stats = s->stats;
    s->late->health = s->guard.health;
}

gw_stats gwi_late_stats(const gw_sync *s)
{
    return s->late != NULL ? s->late->stats : gwi_stream_stats(s);
}

const gw_health *gwi_late_health(const gw_sync *s)
{
    return s->late != NULL ? &s->late->health : &s->guard.health;
}

/* Waits for the exchange under way, which is the caller's waiting, and returns what
 * became of it. */
static gw_status collect(gw_sync *s)
{
    double began = gwi_now();
    gw_status st = gwi_courier_outcome(s->late->courier);
    double now = gwi_now();

    s->stats.wait_seconds += now - began;
    gwi_trace_wait(s->comm, began, now);
    st = gwi_sync_outcome(s, st, gwi_note_kept(note_parts(s)));
    gwi_note_keep(note_parts(s), 0);
    if (st != GW_OK && st != GW_SKIPPED)
        forget(s);
    return st;
}

/* The result r of the exchange before is r_t-1. Where it is applied, r_t would be: what
 * follows from the last two results on a straight line is r_t-1 + r_t-1 - r_t-2. Signs
 * are taken of that. */
static void lead(gw_sync *s)
{
    float *r = s->kept[GWI_PENDING], *before = s->kept[GWI_BEFORE];
    float by = (float)options_of(&s->spec)->lead, *waiting = s->kept[GWI_WAITING];

    if (before == NULL || waiting[UNDER_WAY] == 0)
        return;
    for (size_t i = 0; i < s->layout->floats; i++) {
        float held = r[i];
        if (waiting[HAS_BEFORE] != 0)
            r[i] = held + by * (held - before[i]);
        before[i] = held;
    }
    waiting[HAS_BEFORE] = 1;
}

/* What waits becomes what is handed back. */
static void hand_back(gw_sync *s)
{
    lead(s);
    gwi_sync_step_outside(s, s->kept[GWI_PENDING]);
}

static void swap(float *a, float *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float held = a[i];
        a[i] = b[i];
        b[i] = held;
    }
}

static void begin(gw_sync *s)
{
    if (s->late->rate >= 0)
        gwi_momentum_rate(s, s->late->rate);
    gwi_sync_begin_step(s);
    s->kept[GWI_WAITING][UNDER_WAY] = 1;
    gwi_late_show(s);
    gwi_courier_send(s->late->courier, exchange);
}

gw_status gwi_late_gradient(gw_sync *s, const gw_piece *pieces, size_t count)
{
    float *at = s->kept[GWI_PENDING];
    gw_status st = collect(s);

    if (st != GW_OK && st != GW_SKIPPED)
        return st;
    if (st == GW_OK)
        hand_back(s);
    for (size_t i = 0; i < count; at += pieces[i++].floats)
        swap(pieces[i].at, at, pieces[i].floats);
    begin(s);
    return st;
}

gw_status gwi_late_finish(gw_sync *s)
{
    GWI_TRY(gwi_stream_finish(s));
    if (!gw_sync_pending(s))
        return GW_OK;
    gw_status st = collect(s);
    forget(s);
    return st == GW_SKIPPED ? GW_OK : st;
}

gw_status gw_sync_drain(gw_sync *s, float *grad)
{
    if (!gw_sync_pending(s))
        return gw_fail(GW_ERR_ARG, "no result is under way; ask gw_sync_pending()");
    gw_status st = collect(s);
    if (st == GW_OK) {
        hand_back(s);
        memcpy(grad, s->kept[GWI_PENDING], s->layout->floats * sizeof *grad);
    }
    forget(s);
    gwi_late_show(s);
    return st;
}
