/* SPDX-License-Identifier: Apache-2.0
 *
 * mesh.c - connects a member with all others of its view.
 *
 * A member calls those of lower rank and answers those of higher rank. After the
 * handshake each side sends one line, "peer VIEW FROM TO", with the ids of the members.
 * The caller speaks first, and the one that answers checks who it is. Connections that
 * are not for this view are closed. */
#define _GNU_SOURCE
#include "group.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Strangers that may be in their handshake at the same time, and how long each. */
enum { MOST_STRANGERS = 32, NAP_MS = 50 };
#define STRANGER_SECONDS 5.0

/* A connection that was refused, or ended early, is tried again after so long. */
#define RETRY_SECONDS 0.1

typedef enum stage { IDLE, SHAKES, GREETS, DONE } stage;

typedef struct line {
    stage stage;
    gwg_talk talk;
    double since; /* when it began, or ended */
} line;

typedef struct mesh {
    gw_group *g;
    int missing;                    /* members that are not connected yet */
    line *lines;                    /* [count] by rank */
    line strangers[MOST_STRANGERS]; /* that call, and have not said who they are */
    struct pollfd *polls;           /* [count + MOST_STRANGERS + 2] */
} mesh;

static void hang_up(line *l)
{
    gwg_talk_end(&l->talk);
    l->stage = IDLE;
    l->since = gwg_now();
}

/* ---- those that this member calls
 * ---------------------------------------------------- */

static void call(mesh *m, int rank)
{
    line *l = &m->lines[rank];
    gwg_conn *conn;
    int fd;

    l->since = gwg_now();
    if (gwg_connect_begin(&m->g->members[rank].at, &fd) != GW_OK ||
        gwg_conn_new(&conn, m->g->self.tls, fd, GWG_CALLS) != GW_OK)
        return;
    l->talk = gwg_talk_over(conn);
    l->stage = SHAKES;
}

static gw_status greet(mesh *m, line *l, int rank)
{
    const gw_group *g = m->g;

    return gwg_talk_put(&l->talk, "peer %llu %llu %llu", (unsigned long long)g->view,
                        (unsigned long long)g->id,
                        (unsigned long long)g->members[rank].id);
}

/* Whether a greeting names this view and this member; *from is who sent it. */
static int is_greeting(const mesh *m, const char *text, uint64_t *from)
{
    unsigned long long view, sender, to;

    if (sscanf(text, "peer %llu %llu %llu", &view, &sender, &to) != 3)
        return 0;
    *from = sender;
    return view == m->g->view && to == m->g->id;
}

/* The handshake, this member's greeting, then the other's. */
static void advance_call(mesh *m, int rank)
{
    line *l = &m->lines[rank];
    char text[GWG_LINE_CAP];
    uint64_t from;
    gw_status st = GW_OK;

    if (l->stage == SHAKES) {
        st = gwg_conn_shake(l->talk.conn);
        if (st == GW_OK) {
            l->stage = GREETS;
            st = greet(m, l, rank);
        }
    }
    if (st == GW_OK && l->stage == GREETS) {
        st = gwg_talk_send(&l->talk);
        if (st == GW_OK)
            st = gwg_talk_take(&l->talk, text);
        if (st == GW_OK && (l->talk.in_len > 0 || !is_greeting(m, text, &from) ||
                            from != m->g->members[rank].id))
            st = GW_ERR_PEER;
        if (st == GW_OK) {
            l->stage = DONE;
            m->missing--;
        }
    }
    if (st != GW_OK && st != GW_PENDING)
        hang_up(l);
}

/* ---- those that call this member
 * ------------------------------------------------------- */

static void accept_callers(mesh *m)
{
    char from[GWG_HOST_CAP];
    gwg_conn *conn;
    int fd;

    for (int i = 0; i < MOST_STRANGERS && (fd = gwg_accept(m->g->listener, from)) >= 0;
         i++) {
        line *oldest = &m->strangers[0];
        for (int k = 0; k < MOST_STRANGERS; k++)
            if (m->strangers[k].stage == IDLE) {
                oldest = &m->strangers[k];
                break;
            } else if (m->strangers[k].since < oldest->since) {
                oldest = &m->strangers[k];
            }
        hang_up(oldest);
        if (gwg_conn_new(&conn, m->g->self.tls, fd, GWG_ANSWERS) == GW_OK)
            *oldest = (line){
                .stage = SHAKES, .talk = gwg_talk_over(conn), .since = gwg_now()};
    }
}

static int rank_of(const mesh *m, uint64_t id)
{
    for (int r = 0; r < m->g->count; r++)
        if (m->g->members[r].id == id)
            return r;
    return -1;
}

/* Makes the connection of a caller that has said who it is. One that calls again has
 * lost its first connection. */
static gw_status admit(mesh *m, line *l, const char *text)
{
    uint64_t from;
    int rank = is_greeting(m, text, &from) ? rank_of(m, from) : -1;

    if (rank <= m->g->rank)
        return GW_ERR_PEER;
    GWG_TRY(greet(m, l, rank));
    /* Nothing may be read from here on: the first message may follow at once. A new
     * connection takes a line at once; one that does not is of no use. */
    GWG_TRY(gwg_talk_send(&l->talk));
    if (l->talk.in_len > 0 || l->talk.out_len > 0 || gwg_conn_unsent(l->talk.conn) > 0)
        return GW_ERR_PEER;
    if (m->lines[rank].stage == DONE) {
        hang_up(&m->lines[rank]);
        m->missing++;
    }
    m->lines[rank] = (line){.stage = DONE, .talk = l->talk};
    *l = (line){.stage = IDLE};
    m->missing--;
    return GW_OK;
}

static void advance_caller(mesh *m, line *l)
{
    char text[GWG_LINE_CAP];
    gw_status st = GW_OK;

    if (l->stage == SHAKES) {
        st = gwg_conn_shake(l->talk.conn);
        l->stage = st == GW_OK ? GREETS : SHAKES;
    }
    if (st == GW_OK)
        st = gwg_talk_take(&l->talk, text);
    if (st == GW_OK)
        st = admit(m, l, text);
    if ((st != GW_OK && st != GW_PENDING) ||
        (l->stage != IDLE && gwg_now() - l->since > STRANGER_SECONDS))
        hang_up(l);
}

/* ---- all of them
 * ------------------------------------------------------------------------ */

static void advance_all(mesh *m)
{
    double now = gwg_now();

    for (int r = 0; r < m->g->rank; r++) {
        line *l = &m->lines[r];
        if (l->stage == IDLE && now - l->since > RETRY_SECONDS)
            call(m, r);
        if (l->stage != IDLE && l->stage != DONE)
            advance_call(m, r);
    }
    accept_callers(m);
    for (int i = 0; i < MOST_STRANGERS; i++)
        if (m->strangers[i].stage != IDLE)
            advance_caller(m, &m->strangers[i]);
}

static short events_of(const line *l)
{
    return l->stage == SHAKES ? gwg_conn_events(l->talk.conn)
                              : gwg_talk_events(&l->talk);
}

static void sleep_once(mesh *m)
{
    nfds_t n = 0;

    m->polls[n++] = (struct pollfd){.fd = m->g->listener, .events = POLLIN};
    if (m->g->link != NULL)
        m->polls[n++] =
            (struct pollfd){.fd = gwg_link_fd(m->g->link), .events = POLLIN};
    for (int i = 0; i < m->g->count + MOST_STRANGERS; i++) {
        const line *l = i < m->g->count ? &m->lines[i] : &m->strangers[i - m->g->count];
        if (l->stage == SHAKES || l->stage == GREETS)
            m->polls[n++] = (struct pollfd){.fd = gwg_conn_fd(l->talk.conn),
                                            .events = events_of(l)};
    }
    poll(m->polls, n, NAP_MS);
}

static gw_status fail_missing(const mesh *m)
{
    const gw_group *g = m->g;

    for (int r = 0; r < g->count; r++)
        if (r != g->rank && m->lines[r].stage != DONE)
            return gw_fail(GW_ERR_TIMEOUT,
                           r < g->rank ? "worker %d (%s) cannot be reached at %s:%s"
                                       : "worker %d (%s) did not call from %s:%s",
                           r, g->members[r].name, g->members[r].at.host,
                           g->members[r].at.port);
    return GW_OK;
}

static gw_status connect_all(mesh *m)
{
    double end = gwg_now() + m->g->self.timeout;

    while (m->missing > 0) {
        advance_all(m);
        if (m->missing == 0)
            break;
        if (m->g->stopped)
            return gw_fail(GW_ERR_STOPPED, "stopped while connecting with others");
        if (gwg_now() > end)
            return fail_missing(m);
        sleep_once(m);
        /* While the meeting is away, its word that the view is over cannot come. */
        (void)gwg_group_hear(m->g);
        if (m->g->over)
            return GW_PENDING;
    }
    return GW_OK;
}

/* Hands the connections over to a comm. */
static gw_status make_comm(mesh *m, gw_comm **out)
{
    const gw_group *g = m->g;
    gw_comm_options opt = {.struct_size = sizeof opt,
                           .timeout_seconds = g->self.timeout};
    size_t count = (unsigned)g->count;
    gw_stream *streams = calloc(count, sizeof *streams);
    const char **hosts = calloc(count, sizeof *hosts);
    gw_status st = GW_OK;

    if (streams == NULL || hosts == NULL)
        st = gw_fail(GW_ERR_NOMEM, "not enough memory for %zu connections", count);
    for (int r = 0; st == GW_OK && r < g->count; r++) {
        hosts[r] = g->members[r].name;
        if (r != g->rank)
            streams[r] = gwg_conn_stream(m->lines[r].talk.conn, g->self.plain);
    }
    if (st == GW_OK)
        st = gw_comm_streams(out, streams, hosts, g->rank, g->count, &opt);
    for (int r = 0; st == GW_OK && r < g->count; r++)
        m->lines[r].talk.conn = NULL;
    free(streams);
    free(hosts);
    return st;
}

gw_status gwg_mesh(gw_group *g, gw_comm **out)
{
    size_t count = (unsigned)g->count;
    mesh *m = calloc(1, sizeof *m);
    gw_status st = GW_OK;

    if (m != NULL) {
        *m = (mesh){.g = g, .missing = g->count - 1};
        m->lines = calloc(count, sizeof *m->lines);
        m->polls = calloc(count + MOST_STRANGERS + 2, sizeof *m->polls);
    }
    if (m == NULL || m->lines == NULL || m->polls == NULL)
        st = gw_fail(GW_ERR_NOMEM, "not enough memory for %zu connections", count);
    if (st == GW_OK)
        st = connect_all(m);
    if (st == GW_OK)
        st = make_comm(m, out);
    for (size_t i = 0; m != NULL && m->lines != NULL && i < count; i++)
        gwg_talk_end(&m->lines[i].talk);
    for (int i = 0; m != NULL && i < MOST_STRANGERS; i++)
        gwg_talk_end(&m->strangers[i].talk);
    if (m != NULL) {
        free(m->lines);
        free(m->polls);
    }
    free(m);
    return st;
}
