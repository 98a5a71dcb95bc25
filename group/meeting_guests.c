/* SPDX-License-Identifier: Apache-2.0
 *
 * meeting_guests.c - the connections of a meeting. Strangers have few places and little
 * time: if there are too many, the one that came first goes, so that neither many
 * connections nor slow ones keep a member out for long. */
#define _GNU_SOURCE
#include "meeting.h"

#include <string.h>
#include <unistd.h>

static gwg_guest *free_place(gw_meeting *m)
{
    for (int i = 0; i < GWG_MOST_GUESTS; i++)
        if (m->guests[i].role == GWG_NOBODY)
            return &m->guests[i];
    return NULL;
}

/* The stranger that came first, if there are too many of them. */
static gwg_guest *excess_stranger(gw_meeting *m)
{
    gwg_guest *first = NULL;
    int count = 0;

    for (int i = 0; i < GWG_MOST_GUESTS; i++) {
        gwg_guest *g = &m->guests[i];
        if (g->role != GWG_STRANGER)
            continue;
        count++;
        if (first == NULL || g->since < first->since)
            first = g;
    }
    return count >= GWG_MOST_STRANGERS ? first : NULL;
}

static void take_in(gw_meeting *m, int fd, const char *from)
{
    gwg_guest *late = excess_stranger(m), *g;
    gwg_conn *conn;

    if (late != NULL)
        gwg_guest_drop(m, late, NULL);
    g = free_place(m);
    if (g == NULL) {
        close(fd);
        return;
    }
    if (gwg_conn_new(&conn, m->tls, fd, GWG_ANSWERS) != GW_OK)
        return;
    *g = (gwg_guest){.role = GWG_STRANGER, .talk = gwg_talk_over(conn)};
    g->since = gwg_now();
    memcpy(g->from, from, sizeof g->from);
}

void gwg_guests_accept(gw_meeting *m)
{
    char from[GWG_HOST_CAP];
    int fd;

    /* A bounded number, so that those who are in get their turn. */
    for (int i = 0; i < 64 && (fd = gwg_accept(m->listener, from)) >= 0; i++)
        take_in(m, fd, from);
}

void gwg_guest_drop(gw_meeting *m, gwg_guest *g, const char *why)
{
    gwg_guest gone = *g;

    if (g->shaken && why != NULL && gwg_talk_put(&g->talk, "refused %s", why) == GW_OK)
        (void)gwg_talk_move(&g->talk);
    gwg_talk_end(&g->talk);
    *g = (gwg_guest){.role = GWG_NOBODY};
    if (!gwg_is_member(&gone))
        return;
    gwg_meeting_tell(m, "worker %llu (%s) %s", (unsigned long long)gone.id, gone.name,
                     why != NULL ? why : "is gone");
    gwg_meeting_lost(m, &gone);
}

static gw_status shake(gwg_guest *g)
{
    gw_status st = g->shaken ? GW_OK : gwg_conn_shake(g->talk.conn);

    g->shaken = st == GW_OK;
    return st;
}

void gwg_guest_serve(gw_meeting *m, gwg_guest *g)
{
    char line[GWG_LINE_CAP];
    gw_status st = shake(g);

    /* A bounded number of lines, so that everybody gets a turn. */
    for (int i = 0; st == GW_OK && i < 64; i++) {
        st = gwg_talk_take(&g->talk, line);
        if (st != GW_OK)
            break;
        st = gwg_meeting_hear(m, g, line);
        if (g->role == GWG_NOBODY)
            return;
    }
    if (st == GW_OK || st == GW_PENDING)
        st = g->shaken ? gwg_talk_move(&g->talk) : GW_OK;
    if (st != GW_OK)
        gwg_guest_drop(m, g, st == GW_ERR_DATA ? gw_error_message() : NULL);
}

void gwg_guests_expire(gw_meeting *m, double now)
{
    for (int i = 0; i < GWG_MOST_GUESTS; i++) {
        gwg_guest *g = &m->guests[i];
        if (g->role == GWG_STRANGER && now - g->since > GWG_STRANGER_SECONDS)
            gwg_guest_drop(m, g, NULL);
    }
}
