/* SPDX-License-Identifier: Apache-2.0
 *
 * meeting_view.c - what members say to a meeting, and how views come about.
 *
 * A view ends when a member of it is gone or asks for the next one, or when somebody
 * new has come and there is room. The others are told and ask for the next view, too,
 * between two of their steps. When all have asked, the view is made. */
#define _GNU_SOURCE
#include "meeting.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void gwg_meeting_tell(gw_meeting *m, const char *format, ...)
{
    char line[GWG_LINE_CAP];
    va_list args;

    if (m->tell == NULL)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    m->tell(m->arg, line);
}

int gwg_count_role(const gw_meeting *m, gwg_role role)
{
    int count = 0;

    for (int i = 0; i < GWG_MOST_GUESTS; i++)
        count += m->guests[i].role == role;
    return count;
}

int gwg_count_members(const gw_meeting *m)
{
    int count = 0;

    for (int i = 0; i < GWG_MOST_GUESTS; i++)
        count += gwg_is_member(&m->guests[i]);
    return count;
}

void gwg_guest_say(gwg_guest *g, const char *format, ...)
{
    char line[GWG_LINE_CAP];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    (void)gwg_talk_put(&g->talk, "%s", line);
}

/* ---- the end of a view ------------------------------------------------------------
 */

static void end_view(gw_meeting *m)
{
    if (m->over_at > 0 || m->view == 0)
        return;
    m->over_at = gwg_now();
    for (int i = 0; i < GWG_MOST_GUESTS; i++)
        if (m->guests[i].role == GWG_RUNS)
            gwg_guest_say(&m->guests[i], "over %llu", (unsigned long long)m->view);
}

void gwg_meeting_lost(gw_meeting *m, const gwg_guest *gone)
{
    if (gone->role == GWG_RUNS && gone->reported)
        m->past = gone->progress;
    if (gone->role == GWG_RUNS)
        end_view(m);
    m->told_have = 0;
}

/* ---- what guests say ----------------------------------------------------------------
 */

/* Whether a comes before b: those who have been in a view, then those who joined
 * first. */
static bool is_before(const gwg_guest *a, const gwg_guest *b)
{
    if ((a->view > 0) != (b->view > 0))
        return a->view > 0;
    return a->senior != b->senior ? a->senior < b->senior : a->id < b->id;
}

/* The member through which those talk that only call out; NULL: none is needed, or the
 * meeting itself passes on. */
static const gwg_guest *find_hub(const gw_meeting *m)
{
    const gwg_guest *hub = NULL;
    int out_only = 0;

    for (int i = 0; i < GWG_MOST_GUESTS; i++) {
        const gwg_guest *g = &m->guests[i];
        if (g->role != GWG_RUNS)
            continue;
        out_only += g->port == 0;
        if (g->port > 0 && (hub == NULL || is_before(g, hub)))
            hub = g;
    }
    return out_only > 1 ? hub : NULL;
}

/* member ID NAME HOST:PORT runs|hub|waits [STEP STEPS LOSS SAMPLES SENT] */
static gw_status show_member(gwg_guest *to, const gwg_guest *w, bool is_hub)
{
    const char *state = is_hub ? "hub" : w->role == GWG_RUNS ? "runs" : "waits";
    const gw_group_progress *p = &w->progress;
    char numbers[128] = "";

    if (w->reported)
        snprintf(numbers, sizeof numbers, " %" PRIu64 " %" PRIu64 " %.6g %.6g %" PRIu64,
                 p->step, p->steps, p->loss, p->samples, p->bytes_sent);
    return gwg_talk_put(&to->talk, "member %llu %s %s:%d %s%s",
                        (unsigned long long)w->id, w->name, w->host, w->port, state,
                        numbers);
}

/* watch VERSION: the job, then its members, then an end. */
static gw_status hear_watch(gw_meeting *m, gwg_guest *g)
{
    const gwg_guest *hub = find_hub(m);

    g->role = GWG_WATCHER;
    GWG_TRY(gwg_talk_put(&g->talk, "job view=%llu running=%d waiting=%d min=%d max=%d",
                         (unsigned long long)m->view, gwg_count_role(m, GWG_RUNS),
                         gwg_count_members(m) - gwg_count_role(m, GWG_RUNS),
                         m->terms.min, m->terms.max));
    for (int i = 0; i < GWG_MOST_GUESTS; i++) {
        if (gwg_is_member(&m->guests[i]))
            GWG_TRY(show_member(g, &m->guests[i], &m->guests[i] == hub));
    }
    return gwg_talk_put(&g->talk, "end");
}

/* relay VIEW FROM TO: nobody of that view can be called, so the meeting is its hub. The
 * connection is the relay's then, and not a guest any more. Ids are not looked at: a
 * meeting that has been started anew does not know those of the view. */
static gw_status hear_relay(gw_meeting *m, gwg_guest *g, const char *line)
{
    gwg_pair pair;

    GWG_TRY(gwg_pair_read(line, &pair));
    if (m->view == 0 || pair.view != m->view)
        return gw_fail(GW_ERR_DATA, "there is no such view");
    if (m->relay == NULL)
        GWG_TRY(gwg_relay_new(&m->relay));
    GWG_TRY(gwg_relay_take(m->relay, &g->talk, &pair));
    *g = (gwg_guest){.role = GWG_NOBODY};
    return GW_OK;
}

static gw_status hear_stranger(gw_meeting *m, gwg_guest *g, const char *line)
{
    if (strncmp(line, "join ", 5) == 0)
        return gwg_meeting_join(m, g, line);
    if (strcmp(line, "watch 1") == 0)
        return hear_watch(m, g);
    if (strncmp(line, "relay ", 6) == 0)
        return hear_relay(m, g, line);
    return gw_fail(GW_ERR_DATA, "this is not how guests begin");
}

static gw_status hear_next(gw_meeting *m, gwg_guest *g, const char *line)
{
    unsigned long long view;
    double patience;
    int used = 0;

    if (sscanf(line, "next %llu %lf%n", &view, &patience, &used) != 2 ||
        line[used] != '\0' || view != g->view || !(patience >= 0))
        return gw_fail(GW_ERR_DATA, "this member was not in that view");
    g->patience = patience;
    bool ends = g->role == GWG_RUNS;
    g->role = GWG_ASKS;
    if (ends)
        end_view(m);
    m->told_have = 0;
    return GW_OK;
}

/* report STEP STEPS LOSS SAMPLES SENT */
static gw_status hear_report(gwg_guest *g, const char *line)
{
    gw_group_progress p = {.struct_size = sizeof p};
    int used = 0;

    if (sscanf(line, "report %" SCNu64 " %" SCNu64 " %lf %lf %" SCNu64 "%n", &p.step,
               &p.steps, &p.loss, &p.samples, &p.bytes_sent, &used) != 5 ||
        line[used] != '\0')
        return gw_fail(GW_ERR_DATA, "this is not how members report");
    g->progress = p;
    g->reported = true;
    return GW_OK;
}

gw_status gwg_meeting_hear(gw_meeting *m, gwg_guest *g, const char *line)
{
    if (g->role == GWG_STRANGER)
        return hear_stranger(m, g, line);
    if (!gwg_is_member(g))
        return gw_fail(GW_ERR_DATA, "watchers say nothing");
    if (strncmp(line, "next ", 5) == 0)
        return hear_next(m, g, line);
    if (strncmp(line, "report ", 7) == 0)
        return hear_report(g, line);
    if (strcmp(line, "leave") == 0) {
        gwg_guest_drop(m, g, "leaves");
        return GW_OK;
    }
    return gw_fail(GW_ERR_DATA, "members do not say this");
}

/* ---- the next view ------------------------------------------------------------------
 */

/* The member that asks and comes next after `last`; NULL: the first. */
static gwg_guest *next_in_order(gw_meeting *m, const gwg_guest *last)
{
    gwg_guest *found = NULL;

    for (int i = 0; i < GWG_MOST_GUESTS; i++) {
        gwg_guest *g = &m->guests[i];
        if (g->role == GWG_ASKS && (last == NULL || is_before(last, g)) &&
            (found == NULL || is_before(g, found)))
            found = g;
    }
    return found;
}

static void send_view(gw_meeting *m, gwg_guest *to, gwg_guest *const *members, int rank,
                      int count)
{
    gw_status st = gwg_talk_put(&to->talk, "view %llu %d %d",
                                (unsigned long long)m->view, rank, count);

    for (int i = 0; st == GW_OK && i < count; i++)
        st = gwg_talk_put(&to->talk, "member %llu %s %d %s",
                          (unsigned long long)members[i]->id, members[i]->host,
                          members[i]->port, members[i]->name);
}

static void make_view(gw_meeting *m, int count)
{
    gwg_guest *members[GWG_MOST_WORKERS];

    for (int i = 0; i < count; i++)
        members[i] = next_in_order(m, i > 0 ? members[i - 1] : NULL);
    if (members[0]->view == 0) /* nobody has been in a view: it is another job */
        m->past = (gw_group_progress){0};
    m->view++;
    m->over_at = 0;
    m->missing = 0;
    gwg_meeting_tell(m, "view %llu has %d worker%s", (unsigned long long)m->view, count,
                     count == 1 ? "" : "s");
    for (int i = 0; i < count; i++) {
        send_view(m, members[i], members, i, count);
        members[i]->role = GWG_RUNS;
        members[i]->view = m->view;
    }
}

/* Members that wait hear how many are there: that wait, too, or that leave no room. */
static void tell_waiting(gw_meeting *m, int have)
{
    if (m->told_have == have)
        return;
    m->told_have = have;
    for (int i = 0; i < GWG_MOST_GUESTS; i++)
        if (m->guests[i].role == GWG_ASKS)
            gwg_guest_say(&m->guests[i], "wait %d %d", have, m->terms.min);
}

/* How long members may take until they ask: what the most patient one of those who have
 * been in the view has learned about its rounds, and never more than the meeting's own
 * limit. */
static double patience(const gw_meeting *m)
{
    double most = 0;

    for (int i = 0; i < GWG_MOST_GUESTS; i++) {
        const gwg_guest *g = &m->guests[i];
        if (g->role != GWG_ASKS || g->view == 0)
            continue;
        if (g->patience == 0 || g->patience > m->timeout)
            return m->timeout;
        most = g->patience > most ? g->patience : most;
    }
    return most > 0 ? most : m->timeout;
}

/* It is not refused: if it only was slow, it calls again and says which view it was in,
 * and enters the next one. */
static void drop_one(gw_meeting *m, gwg_guest *g)
{
    gwg_meeting_tell(m, "worker %llu (%s) does not answer", (unsigned long long)g->id,
                     g->name);
    gwg_guest_drop(m, g, NULL);
}

/* Members that do not ask, although the view is over or they have just joined, hang or
 * are cut off. */
static void drop_silent(gw_meeting *m, double now)
{
    double most = patience(m);
    bool late = m->over_at > 0 && now - m->over_at > most;

    for (int i = 0; i < GWG_MOST_GUESTS; i++) {
        gwg_guest *g = &m->guests[i];
        double waited = now - g->since;
        if ((g->role == GWG_RUNS && late) ||
            (g->role == GWG_JOINED && waited > (g->view > 0 ? most : m->timeout)))
            drop_one(m, g);
    }
}

void gwg_meeting_form(gw_meeting *m, double now)
{
    int asks = gwg_count_role(m, GWG_ASKS);

    if (asks == 0)
        return;
    drop_silent(m, now);
    bool settles = gwg_meeting_settles(m, now);
    /* Somebody new ends a view only if there is room in the next one. */
    if (!settles && gwg_count_members(m) <= m->terms.max)
        end_view(m);
    else if (!settles && gwg_count_role(m, GWG_RUNS) >= m->terms.max)
        tell_waiting(m, gwg_count_role(m, GWG_RUNS));
    if (gwg_count_role(m, GWG_RUNS) + gwg_count_role(m, GWG_JOINED) > 0)
        return;
    if (asks < m->terms.min)
        tell_waiting(m, asks);
    else if (!settles)
        make_view(m, asks < m->terms.max ? asks : m->terms.max);
}
