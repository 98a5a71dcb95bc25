/* SPDX-License-Identifier: Apache-2.0
 *
 * way_etcd.c - the way to a meeting in an etcd cluster, etcd://HOST:PORT,.../JOB.
 *
 * A member stores a row about itself, bound to a lease that its thread keeps alive. It
 * watches the rows of all. When every member asks, one of them stores the next view, in
 * a transaction that fails if any row has changed meanwhile; so two never make
 * different views of the same number. Whoever finds itself in a new view enters it. */
#define _GNU_SOURCE
#include "etcd.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* It looks at the rows so often even if the watch is silent, and at its clocks. */
#define LOOK_SECONDS 2.0
#define REST_SECONDS 1.0

/* Between reports, and before it tries again when nobody answers. */
#define REPORT_SECONDS 1.0
#define RETRY_SECONDS  0.3

/* The member of rank r makes the next view if those before it have not done so after r
 * times this. */
#define TURN_SECONDS 0.5

/* How long it waits for the host of a member that may be dead, and of how many at
 * once. */
#define TRY_SECONDS 0.2
enum { MOST_TRIES = 4 };

typedef struct way {
    gwg_link *link;
    const gwg_self *self;
    gwg_store store;
    gwg_row row; /* its own, as it should be */
    double reported_at, ready_since, over_since, tried_at;
    unsigned reported;
    uint64_t told_over; /* the view that the member knows is over */
    int told_have;
} way;

/* ---- the text ---------------------------------------------------------------------
 */

static gw_status parse_endpoints(gwg_self *self, const char *text, size_t len)
{
    char one[GWG_HOST_CAP + GWG_PORT_CAP + 4];

    self->meeting_count = 0;
    for (size_t at = 0; at <= len;) {
        size_t n = strcspn(text + at, ",/");
        if (n > len - at)
            n = len - at;
        if (self->meeting_count == GWG_ENDPOINTS || n >= sizeof one)
            return gw_fail(GW_ERR_ARG, "a meeting has 1 to %d endpoints",
                           GWG_ENDPOINTS);
        snprintf(one, sizeof one, "%.*s", (int)n, text + at);
        gwg_address *to = &self->meetings[self->meeting_count++];
        GWG_TRY(gwg_address_parse(one, to));
        if (to->host[0] == '\0')
            return gw_fail(GW_ERR_ARG, "meeting 'etcd://%s' has no host", text);
        at += n + 1;
    }
    return GW_OK;
}

/* The job's name becomes part of keys. */
static gw_status parse(gwg_self *self, const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789._-";
    const char *slash = strchr(text, '/'), *job = slash != NULL ? slash + 1 : "";

    if (job[0] == '\0' || strlen(job) >= sizeof self->job ||
        strspn(job, letters) != strlen(job))
        return gw_fail(GW_ERR_ARG,
                       "invalid meeting 'etcd://%s'; expected "
                       "etcd://HOST:PORT[,HOST:PORT...]/JOB, where JOB has letters, "
                       "digits and '._-'",
                       text);
    snprintf(self->job, sizeof self->job, "%s", job);
    return parse_endpoints(self, text, (size_t)(slash - text));
}

/* ---- what follows from the rows -------------------------------------------------- */

static gw_status check_terms(const way *w)
{
    const gwg_row *old = gwg_table_oldest(&w->store.table), *r = &w->row;
    char text[GWG_TERMS_CAP];

    if (old == NULL || old->token == r->token || gwg_terms_same(&old->terms, &r->terms))
        return GW_OK;
    gwg_terms_say(text, &old->terms, &r->terms);
    return gw_fail(GW_ERR_MISMATCH, "the meeting refuses this worker: %s", text);
}

/* Brings the member the view in which it has a seat. */
static gw_status bring_view(way *w, int rank)
{
    const gwg_table *t = &w->store.table;

    GWG_TRY(gwg_link_bring(w->link, "welcome %" PRIu64, t->seats[rank].id));
    GWG_TRY(gwg_link_bring(w->link, "view %" PRIu64 " %d %d", t->view, rank,
                           t->seat_count));
    for (int i = 0; i < t->seat_count; i++)
        GWG_TRY(gwg_link_bring(w->link, "member %" PRIu64 " %s %d %s", t->seats[i].id,
                               t->seats[i].host, t->seats[i].port, t->seats[i].name));
    gwg_link_answered(w->link, t->view);
    w->row.view = t->view;
    w->row.wait = GWG_WAIT_RUNS;
    w->told_have = 0;
    w->ready_since = 0;
    return GW_OK;
}

/* Its place among those who ask. */
static int turn_of(const way *w)
{
    int turn = 0;

    for (int i = 0;
         i < w->store.table.count && w->store.table.rows[i].token != w->row.token; i++)
        turn += w->store.table.rows[i].wait == GWG_WAIT_ASKS;
    return turn;
}

static gw_status tell_waiting(way *w, int asks)
{
    int have = w->told_have;

    w->told_have = asks;
    if (have == asks)
        return GW_OK;
    return asks < w->row.terms.min
               ? gwg_link_bring(w->link, "wait %d %d", asks, w->row.terms.min)
               : gwg_link_bring(w->link, "hubless");
}

/* All ask: one of them makes the view. */
static gw_status form(way *w, int asks)
{
    double now = gwg_now();
    int count = asks < w->row.terms.max ? asks : w->row.terms.max;

    if (asks < w->row.terms.min || !gwg_table_can_meet(&w->store.table, count))
        return tell_waiting(w, asks);
    if (w->ready_since == 0)
        w->ready_since = now;
    if (now - w->ready_since < TURN_SECONDS * turn_of(w))
        return GW_OK;
    w->ready_since = now;
    return gwg_store_view(&w->store, count);
}

static bool is_late(const way *w, const gwg_row *row)
{
    const gwg_table *t = &w->store.table;

    return row->wait != GWG_WAIT_ASKS &&
           (row->view < t->view || gwg_table_is_over(t, t->view, w->row.terms.max));
}

/* A member listens as long as its process lives. If its host says that nobody does, it
 * has died, and its lease need not run out first. */
static gw_status drop_dead(way *w)
{
    const gwg_table *t = &w->store.table;

    for (int i = 0, tries = 0; i < t->count && tries < MOST_TRIES; i++) {
        gwg_address at;
        if (!is_late(w, &t->rows[i]) || t->rows[i].port == 0)
            continue;
        tries++;
        memcpy(at.host, t->rows[i].host, sizeof at.host);
        snprintf(at.port, sizeof at.port, "%d", t->rows[i].port);
        if (gwg_is_refused(&at, TRY_SECONDS))
            return gwg_store_drop(&w->store, &t->rows[i]);
    }
    return GW_OK;
}

/* Some do not ask yet: they have self->timeout for that, unless they are dead. */
static gw_status wait_for_others(way *w)
{
    const gwg_table *t = &w->store.table;
    double now = gwg_now();

    w->ready_since = 0;
    if (w->over_since == 0)
        w->over_since = w->tried_at = now;
    if (now - w->tried_at > TURN_SECONDS) {
        w->tried_at = now;
        GWG_TRY(drop_dead(w));
    }
    if (now - w->over_since < w->self->timeout)
        return GW_OK;
    w->over_since = now;
    for (int i = 0; i < t->count; i++)
        if (is_late(w, &t->rows[i]))
            return gwg_store_drop(&w->store, &t->rows[i]);
    return GW_OK;
}

static gw_status conclude(way *w, const gwg_wishes *wish)
{
    const gwg_table *t = &w->store.table;
    int seat = gwg_table_seat(t, w->row.token), others;

    GWG_TRY(check_terms(w));
    if (wish->asks && t->view > w->row.view && seat >= 0)
        return bring_view(w, seat);
    if (w->told_over < w->row.view &&
        gwg_table_is_over(t, w->row.view, w->row.terms.max)) {
        w->told_over = w->row.view;
        GWG_TRY(gwg_link_bring(w->link, "over %" PRIu64, w->row.view));
    }
    /* The row must be as the wish says before a view can be made with it. */
    const gwg_row *own = gwg_table_find(t, w->row.token);
    if (!wish->asks || own == NULL || own->wait != GWG_WAIT_ASKS)
        return GW_OK;
    int asks = gwg_table_asks(t, &others);
    if (others > 0)
        return wait_for_others(w);
    w->over_since = 0;
    return form(w, asks);
}

/* ---- the thread ------------------------------------------------------------------ */

static void fill_row(way *w)
{
    const gwg_self *s = w->self;

    w->row = (gwg_row){.token = s->token, .terms = s->terms, .port = s->port};
    memcpy(w->row.name, s->name, sizeof w->row.name);
    memcpy(w->row.host, s->address, sizeof w->row.host);
}

/* Stores its row for the first time. */
static gw_status enter(way *w, bool *refused)
{
    GWG_TRY(gwg_store_look(&w->store, false, refused));
    GWG_TRY(check_terms(w));
    uint64_t past = w->store.table.count == 0 ? w->store.table.view : 0;
    if (strcmp(w->row.host, "-") == 0)
        snprintf(w->row.host, sizeof w->row.host, "%s", gwg_etcd_local(w->store.etcd));
    GWG_TRY(gwg_store_lease(&w->store, refused));
    GWG_TRY(gwg_store_row(&w->store, &w->row, refused));
    GWG_TRY(gwg_store_look(&w->store, false, refused));
    const gwg_row *own = gwg_table_find(&w->store.table, w->row.token);
    if (own == NULL)
        return gw_fail(GW_ERR_DATA, "etcd does not have what was stored");
    w->row.senior = own->id;
    GWG_TRY(check_terms(w));
    GWG_TRY(gwg_link_bring(w->link, "welcome %" PRIu64, own->id));
    return past > 0 ? gwg_link_bring(w->link, "past %" PRIu64 " 0 0", past) : GW_OK;
}

/* While a cluster has no leader it is worth while to try again; not so if there is
 * nobody at all. */
static gw_status enter_in_time(way *w)
{
    double end = gwg_now() + w->self->timeout;
    bool refused = false;
    gw_status st;

    while ((st = enter(w, &refused)) == GW_ERR_PEER && !refused && gwg_now() < end) {
        gwg_link_sleep(w->link, -1, 0, RETRY_SECONDS);
        if (gwg_link_wishes(w->link).leaves)
            break;
    }
    return st;
}

/* A row that has gone, although the lease has not, is stored again. */
static gw_status look_again(way *w)
{
    bool refused;

    GWG_TRY(gwg_store_look(&w->store, false, &refused));
    w->store.changed = false;
    if (gwg_table_find(&w->store.table, w->row.token) == NULL)
        w->store.row.len = 0;
    gwg_etcd_watch(w->store.etcd, w->store.prefix.at, w->store.table.revision + 1);
    return GW_OK;
}

/* A row or a report that etcd refuses has a lease that has run out. */
static gw_status forgive(way *w, gw_status st)
{
    if (st != GW_ERR_DATA)
        return st;
    gwg_store_forget(&w->store);
    return GW_OK;
}

static gw_status report(way *w, const gwg_wishes *wish)
{
    if (wish->report == w->reported || gwg_now() - w->reported_at < REPORT_SECONDS)
        return GW_OK;
    w->reported = wish->report;
    w->reported_at = gwg_now();
    return gwg_store_report(&w->store, &wish->progress);
}

static gw_status step(way *w, const gwg_wishes *wish)
{
    bool refused;

    GWG_TRY(gwg_store_renew(&w->store));
    if (wish->asks && w->row.wait != GWG_WAIT_ASKS) {
        w->row.wait = GWG_WAIT_ASKS;
        w->over_since = 0;
    }
    GWG_TRY(forgive(w, gwg_store_row(&w->store, &w->row, &refused)));
    if (w->store.changed || gwg_now() - w->store.looked > LOOK_SECONDS)
        GWG_TRY(look_again(w));
    GWG_TRY(conclude(w, wish));
    GWG_TRY(forgive(w, gwg_store_row(&w->store, &w->row, &refused)));
    return forgive(w, report(w, wish));
}

/* Until the member leaves, is sent away, or nobody answers. */
static gw_status stay(way *w)
{
    for (;;) {
        gwg_wishes wish = gwg_link_wishes(w->link);
        if (wish.leaves)
            return GW_OK;
        GWG_TRY(step(w, &wish));
        double rest = wish.asks ? TURN_SECONDS / 2 : REST_SECONDS;
        if (w->store.changed ||
            gwg_etcd_sleep(w->store.etcd, gwg_link_wake_fd(w->link), rest))
            w->store.changed = true;
        gwg_link_woken(w->link);
    }
}

static gw_status come_back(way *w)
{
    bool refused;

    GWG_TRY(gwg_link_bring(w->link, "away none of the meeting's endpoints answers"));
    while (gwg_store_look(&w->store, false, &refused) != GW_OK) {
        gwg_link_sleep(w->link, -1, 0, RETRY_SECONDS);
        if (gwg_link_wishes(w->link).leaves)
            return GW_ERR_STOPPED;
    }
    w->store.changed = true;
    return gwg_link_bring(w->link, "back");
}

static gw_status live(way *w)
{
    gw_status st = enter_in_time(w);

    while (st == GW_OK) {
        st = stay(w);
        if (st != GW_ERR_PEER && st != GW_ERR_DATA)
            break;
        st = come_back(w);
    }
    if (st != GW_ERR_PEER && st != GW_ERR_STOPPED)
        gwg_store_leave(&w->store);
    return st == GW_ERR_STOPPED ? GW_OK : st;
}

static gw_status run(gwg_link *link)
{
    way w = {.link = link, .self = gwg_link_self(link)};
    gw_status st = gwg_store_open(&w.store, w.self);

    fill_row(&w);
    if (st == GW_OK)
        st = live(&w);
    gwg_store_close(&w.store);
    return st;
}

/* ---- the status ------------------------------------------------------------------ */

static void show(const gwg_table *t, void (*line)(void *arg, const char *line),
                 void *arg)
{
    const gwg_row *old = gwg_table_oldest(t), *hub = gwg_table_hub(t);
    char text[GWG_LINE_CAP], numbers[128];
    int runs = 0;

    for (int i = 0; i < t->count; i++)
        runs += t->rows[i].wait == GWG_WAIT_RUNS;
    snprintf(text, sizeof text,
             "job view=%" PRIu64 " running=%d waiting=%d min=%d max=%d", t->view, runs,
             t->count - runs, old != NULL ? old->terms.min : 0,
             old != NULL ? old->terms.max : 0);
    line(arg, text);
    for (int i = 0; i < t->count; i++) {
        const gwg_row *r = &t->rows[i];
        const gw_group_progress *p = &r->progress;
        numbers[0] = '\0';
        if (r->reported)
            snprintf(numbers, sizeof numbers,
                     " %" PRIu64 " %" PRIu64 " %.6g %.6g %" PRIu64, p->step, p->steps,
                     p->loss, p->samples, p->bytes_sent);
        const char *state = r->wait == GWG_WAIT_RUNS ? "runs" : "waits";
        snprintf(text, sizeof text, "member %" PRIu64 " %s %s:%d %s%s", r->id, r->name,
                 r->host, r->port, r == hub ? "hub" : state, numbers);
        line(arg, text);
    }
}

static gw_status watch(const gwg_self *self, void (*line)(void *arg, const char *line),
                       void *arg)
{
    gwg_store store;
    bool refused;
    gw_status st = gwg_store_open(&store, self);

    if (st == GW_OK)
        st = gwg_store_look(&store, true, &refused);
    if (st == GW_OK)
        show(&store.table, line, arg);
    gwg_store_close(&store);
    return st;
}

const gwg_way gwg_way_etcd = {
    .scheme = "etcd://",
    .parse = parse,
    .run = run,
    .watch = watch,
};
