/* SPDX-License-Identifier: Apache-2.0
 *
 * way_tcp.c - the way to a meeting that 'gradwire meet' runs: one connection. When it
 * breaks, the member calls again and says which view it is in, so that a meeting that
 * was started anew goes on with the same numbers. */
#define _GNU_SOURCE
#include "way.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

/* How soon it calls again, and how long it waits for an answer then. */
#define RETRY_SECONDS  0.3
#define ANSWER_SECONDS 5.0

/* How long a goodbye may take. */
#define LEAVE_SECONDS 1.0

typedef struct way {
    gwg_link *link;
    const gwg_self *self;
    gwg_talk talk;
    uint64_t senior;      /* the first id that it got */
    uint64_t view, count; /* the last view that it was in, and its members; 0: none */
    uint64_t next_view, next_count; /* the one that is being named */
    int unnamed;                    /* members of that view that are not named yet */
    bool said_next;                 /* the wish for a view has been sent */
    unsigned reported;              /* reports that have been sent */
} way;

static gw_status parse(gwg_self *self, const char *text)
{
    self->meeting_count = 1;
    GWG_TRY(gwg_address_parse(text, &self->meetings[0]));
    if (self->meetings[0].host[0] == '\0')
        return gw_fail(GW_ERR_ARG, "meeting 'tcp://%s' has no host", text);
    return GW_OK;
}

/* ---- calling -----------------------------------------------------------------------
 */

/* Waits until the connection can move, but not past the time `end`: GW_ERR_TIMEOUT,
 * without a message. Without a link nobody can end the wait. */
static gw_status rest(gwg_link *link, int fd, short events, double end)
{
    double left = end - gwg_now();

    if (left <= 0)
        return GW_ERR_TIMEOUT;
    if (link == NULL) {
        struct pollfd p = {.fd = fd, .events = events};
        poll(&p, 1, (int)(1e3 * left) + 1);
        return GW_OK;
    }
    gwg_link_sleep(link, fd, events, left);
    return gwg_link_wishes(link).leaves ? gw_fail(GW_ERR_STOPPED, "this worker leaves")
                                        : GW_OK;
}

/* Whoever listens there, but says nothing, may be anybody. */
static gw_status fail_silent(const gwg_address *at)
{
    return gw_fail(GW_ERR_PEER,
                   "something listens at '%s:%s', but did not answer in time: is it a "
                   "gradwire meeting, and not stopped?",
                   at->host, at->port);
}

static gw_status fail_call(gw_status st, const gwg_address *at)
{
    if (st == GW_ERR_STOPPED)
        return st;
    if (st == GW_ERR_TIMEOUT)
        return fail_silent(at);
    return gw_fail(GW_ERR_PEER,
                   "the meeting at '%s:%s' turned this worker away: is it a "
                   "gradwire meeting, with the same job and key?",
                   at->host, at->port);
}

/* Connects with the meeting and proves the key. */
static gw_status call(gwg_talk *out, const gwg_self *self, gwg_link *link, double end)
{
    const gwg_address *at = &self->meetings[0];
    gwg_conn *conn;
    gw_status st;
    int fd;

    GWG_TRY(gwg_connect(at, end - gwg_now(), &fd));
    GWG_TRY(gwg_conn_new(&conn, self->tls, fd, GWG_CALLS));
    while ((st = gwg_conn_shake(conn)) == GW_PENDING) {
        st = rest(link, gwg_conn_fd(conn), gwg_conn_events(conn), end);
        if (st != GW_OK)
            break;
    }
    if (st == GW_OK) {
        *out = gwg_talk_over(conn);
        return GW_OK;
    }
    gwg_conn_free(conn);
    return fail_call(st, at);
}

/* Waits for a line. */
static gw_status await_line(gwg_talk *t, const gwg_self *self, gwg_link *link,
                            char line[GWG_LINE_CAP], double end)
{
    gw_status st;

    while ((st = gwg_talk_take(t, line)) == GW_PENDING) {
        GWG_TRY(gwg_talk_move(t));
        if (gwg_talk_has_more(t))
            continue;
        st = rest(link, gwg_conn_fd(t->conn), gwg_talk_events(t), end);
        if (st != GW_OK)
            return st == GW_ERR_TIMEOUT ? fail_silent(&self->meetings[0]) : st;
    }
    return st;
}

/* Joins, or comes back. */
static gw_status enter(way *w, double end)
{
    const gwg_self *s = w->self;
    char line[GWG_LINE_CAP];
    unsigned long long id;

    GWG_TRY(call(&w->talk, s, w->link, end));
    GWG_TRY(gwg_talk_put(
        &w->talk,
        "join 3 %d %d %d %d %d %s %s %016" PRIx64 " %" PRIu64 " %" PRIu64 " %" PRIu64,
        s->terms.min, s->terms.max, s->terms.plain, s->terms.streams, s->port,
        s->address, s->name, s->token, w->senior, w->view, w->count));
    GWG_TRY(await_line(&w->talk, s, w->link, line, end));
    if (strncmp(line, "refused ", 8) == 0)
        return gw_fail(GW_ERR_MISMATCH, "the meeting refuses this worker: %s",
                       line + 8);
    if (sscanf(line, "welcome %llu", &id) != 1)
        return gw_fail(GW_ERR_DATA, "the meeting answers '%.60s'", line);
    if (w->senior == 0)
        w->senior = id;
    w->said_next = false;
    w->unnamed = 0;
    return gwg_link_bring(w->link, "%s", line);
}

/* ---- moving lines ---------------------------------------------------------------- */

/* A view counts once all of its members have been named. */
static void note_view(way *w, const char *line)
{
    unsigned long long view;
    int count;

    if (sscanf(line, "view %llu %*d %d", &view, &count) == 2) {
        w->next_view = view;
        w->next_count = count > 0 ? (uint64_t)count : 0;
        w->unnamed = count;
    } else if (strncmp(line, "member ", 7) == 0 && w->unnamed > 0 &&
               --w->unnamed == 0) {
        w->view = w->next_view;
        w->count = w->next_count;
        w->said_next = false;
        gwg_link_answered(w->link, w->view);
    }
}

static gw_status hear(way *w)
{
    char line[GWG_LINE_CAP];
    gw_status st;

    while ((st = gwg_talk_take(&w->talk, line)) == GW_OK) {
        if (strncmp(line, "refused ", 8) == 0)
            return gw_fail(GW_ERR_MISMATCH, "the meeting sends this worker away: %s",
                           line + 8);
        note_view(w, line);
        GWG_TRY(gwg_link_bring(w->link, "%s", line));
    }
    return st == GW_PENDING ? GW_OK : st;
}

static gw_status speak(way *w, const gwg_wishes *wish)
{
    const gw_group_progress *p = &wish->progress;

    if (wish->asks && !w->said_next) {
        GWG_TRY(gwg_talk_put(&w->talk, "next %" PRIu64 " %.3f", wish->view,
                             wish->patience));
        w->said_next = true;
    }
    /* Only the newest report counts, so one that must wait is made anew. */
    if (wish->report != w->reported && w->talk.out_len == 0) {
        GWG_TRY(gwg_talk_put(&w->talk,
                             "report %" PRIu64 " %" PRIu64 " %.6g %.6g %" PRIu64,
                             p->step, p->steps, p->loss, p->samples, p->bytes_sent));
        w->reported = wish->report;
    }
    return gwg_talk_move(&w->talk);
}

static void say_goodbye(way *w)
{
    double end = gwg_now() + LEAVE_SECONDS;
    struct pollfd p;

    if (gwg_talk_put(&w->talk, "leave") != GW_OK)
        return;
    while (gwg_talk_send(&w->talk) == GW_OK && gwg_now() < end &&
           (w->talk.out_len > 0 || gwg_conn_unsent(w->talk.conn) > 0)) {
        p = (struct pollfd){.fd = gwg_conn_fd(w->talk.conn), .events = POLLOUT};
        poll(&p, 1, 50);
    }
}

/* Until the member leaves (GW_OK), is sent away, or the connection ends. */
static gw_status talk(way *w)
{
    for (;;) {
        gwg_wishes wish = gwg_link_wishes(w->link);
        if (wish.leaves) {
            (void)speak(w, &wish); /* the last report, if there is one */
            say_goodbye(w);
            return GW_OK;
        }
        GWG_TRY(speak(w, &wish));
        GWG_TRY(hear(w));
        if (!gwg_talk_has_more(&w->talk))
            gwg_link_sleep(w->link, gwg_conn_fd(w->talk.conn),
                           gwg_talk_events(&w->talk), 60.0);
    }
}

/* Calls until the meeting is back. GW_OK, GW_ERR_STOPPED: the member leaves, or what
 * the meeting has against it. */
static gw_status come_back(way *w)
{
    const gwg_address *at = &w->self->meetings[0];
    gw_status st;

    GWG_TRY(gwg_link_bring(w->link, "away the meeting at '%s:%s' does not answer",
                           at->host, at->port));
    for (;;) {
        st = enter(w, gwg_now() + ANSWER_SECONDS);
        if (st == GW_OK)
            return gwg_link_bring(w->link, "back");
        gwg_talk_end(&w->talk);
        if (st == GW_ERR_MISMATCH || st == GW_ERR_STOPPED)
            return st;
        gwg_link_sleep(w->link, -1, 0, RETRY_SECONDS);
        if (gwg_link_wishes(w->link).leaves)
            return GW_ERR_STOPPED;
    }
}

static gw_status run(gwg_link *link)
{
    way w = {.link = link, .self = gwg_link_self(link)};
    gw_status st = enter(&w, gwg_now() + w.self->timeout);

    while (st == GW_OK) {
        st = talk(&w);
        gwg_talk_end(&w.talk);
        if (st == GW_OK || st == GW_ERR_MISMATCH)
            return st;
        st = come_back(&w);
    }
    gwg_talk_end(&w.talk);
    return st == GW_ERR_STOPPED ? GW_OK : st;
}

static gw_status watch(const gwg_self *self, void (*line)(void *arg, const char *line),
                       void *arg)
{
    char text[GWG_LINE_CAP];
    double end = gwg_now() + self->timeout;
    gwg_talk t;
    gw_status st;

    GWG_TRY(call(&t, self, NULL, end));
    st = gwg_talk_put(&t, "watch 1");
    while (st == GW_OK && (st = await_line(&t, self, NULL, text, end)) == GW_OK &&
           strcmp(text, "end") != 0)
        line(arg, text);
    gwg_talk_end(&t);
    return st;
}

const gwg_way gwg_way_tcp = {
    .scheme = "tcp://",
    .relays = true,
    .parse = parse,
    .run = run,
    .watch = watch,
};
