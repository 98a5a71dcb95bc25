/* SPDX-License-Identifier: Apache-2.0
 *
 * meeting_join.c - members join a meeting, and come back to it.
 *
 * A member that comes back says which view it is in and how many are in it. A meeting
 * that was started anew goes on from there: with that number, and not before the others
 * had time to come back, too. So those who run are not disturbed, and nobody who is new
 * starts the job over while it runs. */
#define _GNU_SOURCE
#include "meeting.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static gw_status check_terms(gw_meeting *m, const gwg_terms *t)
{
    char text[GWG_TERMS_CAP];

    if (t->min < 1 || t->max < t->min || t->max > GWG_MOST_WORKERS)
        return gw_fail(GW_ERR_DATA, "this needs 1 to %d workers", GWG_MOST_WORKERS);
    if (t->streams < 1 || t->streams > GWG_MOST_STREAMS)
        return gw_fail(GW_ERR_DATA, "members have 1 to %d connections to each other",
                       GWG_MOST_STREAMS);
    if (gwg_count_members(m) == 0)
        m->terms = *t;
    if (gwg_terms_same(&m->terms, t))
        return GW_OK;
    gwg_terms_say(text, &m->terms, t);
    return gw_fail(GW_ERR_DATA, "%s", text);
}

/* What a join says beside the guest's own. */
typedef struct request {
    int version, port;
    gwg_terms terms;
    char host[GWG_HOST_CAP], name[GWG_NAME_CAP];
    uint64_t token, senior, view;
    int count;
} request;

/* join 3 MIN MAX PLAIN STREAMS PORT HOST NAME TOKEN SENIOR VIEW COUNT */
static gw_status read_request(const char *line, request *r)
{
    int used = 0;

    *r = (request){0};
    if (sscanf(line, "join %d", &r->version) == 1 && r->version != 3)
        return gw_fail(GW_ERR_DATA, "the meeting speaks version 3 and not %d",
                       r->version);
    if (sscanf(line,
               "join %d %d %d %d %d %d %255s %63s %" SCNx64 " %" SCNu64 " %" SCNu64
               " %d%n",
               &r->version, &r->terms.min, &r->terms.max, &r->terms.plain,
               &r->terms.streams, &r->port, r->host, r->name, &r->token, &r->senior,
               &r->view, &r->count, &used) != 12 ||
        line[used] != '\0' || r->port < 0 || r->port > 65535 ||
        (r->view == 0) != (r->count == 0) || r->count < 0 || r->view > INT64_MAX ||
        r->count > GWG_MOST_WORKERS)
        return gw_fail(GW_ERR_DATA, "this is not how members join");
    return GW_OK;
}

/* Its old connection may be half open; its place is the new one. Returns whether there
 * was one. */
static bool replace_old(gw_meeting *m, const gwg_guest *g)
{
    for (int i = 0; i < GWG_MOST_GUESTS; i++) {
        gwg_guest *old = &m->guests[i];
        if (old == g || !gwg_is_member(old) || old->token != g->token)
            continue;
        gwg_talk_end(&old->talk);
        *old = (gwg_guest){.role = GWG_NOBODY};
        return true;
    }
    return false;
}

/* A view that the meeting does not know: it has been started anew. Whoever it has let
 * into views of its own joins that one. */
static void take_over(gw_meeting *m, uint64_t view, int count)
{
    for (int i = 0; i < GWG_MOST_GUESTS; i++) {
        gwg_guest *g = &m->guests[i];
        if (g->role != GWG_RUNS)
            continue;
        g->role = GWG_JOINED;
        g->since = gwg_now();
        gwg_guest_say(g, "over %llu", (unsigned long long)g->view);
    }
    m->view = view;
    m->missing = count;
    m->over_at = 0;
    m->heard_at = gwg_now();
    gwg_meeting_tell(m, "goes on with view %llu, which has %d worker%s",
                     (unsigned long long)view, count, count == 1 ? "" : "s");
}

static void come_back(gw_meeting *m, gwg_guest *g, const request *r, bool was_here)
{
    if (r->view > m->view)
        take_over(m, r->view, r->count);
    g->view = r->view;
    if (r->view == m->view && !was_here && m->missing > 0)
        m->missing--;
    /* One that was given up gets new time to ask. */
    g->role = r->view == m->view && m->over_at == 0 ? GWG_RUNS : GWG_JOINED;
    if (r->view < m->view || m->over_at > 0)
        gwg_guest_say(g, "over %llu", (unsigned long long)r->view);
}

static void tell_joined(gw_meeting *m, const gwg_guest *g, const char *did)
{
    unsigned long long id = g->id;

    if (g->port > 0)
        gwg_meeting_tell(m, "worker %llu (%s) %s from %s, port %d", id, g->name, did,
                         g->host, g->port);
    else
        gwg_meeting_tell(m, "worker %llu (%s) %s from %s, and only calls out", id,
                         g->name, did, g->host);
}

gw_status gwg_meeting_join(gw_meeting *m, gwg_guest *g, const char *line)
{
    request r;

    GWG_TRY(read_request(line, &r));
    g->token = r.token;
    bool was_here = replace_old(m, g);
    GWG_TRY(check_terms(m, &r.terms));
    g->port = r.port;
    memcpy(g->host, strcmp(r.host, "-") == 0 ? g->from : r.host, sizeof g->host);
    memcpy(g->name, r.name, sizeof g->name);
    g->id = ++m->last_id;
    g->senior = r.senior > 0 ? r.senior : g->id;
    g->role = GWG_JOINED;
    GWG_TRY(gwg_talk_put(&g->talk, "welcome %llu", (unsigned long long)g->id));
    if (r.view > 0)
        come_back(m, g, &r, was_here);
    else if (m->view > 0 && gwg_count_members(m) == 1)
        gwg_guest_say(g, "past %llu %" PRIu64 " %" PRIu64, (unsigned long long)m->view,
                      m->past.step, m->past.steps);
    tell_joined(m, g, r.view > 0 ? "is back" : "has joined");
    return GW_OK;
}

bool gwg_meeting_settles(const gw_meeting *m, double now)
{
    bool runs = gwg_count_role(m, GWG_RUNS) > 0 && m->over_at == 0;
    double patience = runs ? m->timeout : GWG_SETTLE_SECONDS;

    /* A job that is complete need not wait for more. */
    if (m->view == 0 && gwg_count_role(m, GWG_ASKS) >= m->terms.max)
        return false;
    return (m->view == 0 || m->missing > 0) && now - m->heard_at < patience;
}
