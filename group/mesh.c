/* SPDX-License-Identifier: Apache-2.0
 *
 * mesh.c - connects a member with all others of its view.
 *
 * A member calls those of lower rank and answers those of higher rank. One that can
 * only call out calls all that can be called. Two that can only call out both call the
 * hub, the first member that can be called, which passes bytes on between them
 * (relay.h); without such a member, the meeting's server does that.
 *
 * After the handshake each side sends one line, "peer VIEW FROM TO STREAM STREAMS",
 * with the ids of the members and which of their connections it is. The caller, or the
 * one of higher rank, speaks first; the other one checks who it is. Connections that
 * are not for this view are closed. Two members have as many connections as the job
 * says, or one through a hub. The others are made when the first one is there. */
#define _GNU_SOURCE
#include "group.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Strangers that may be in their handshake at the same time, and how long each. */
enum { STRANGERS = 32, MOST_STRANGERS = 512, NAP_MS = 50 };
#define STRANGER_SECONDS 5.0

/* A connection that was refused, or ended early, is tried again after so long. */
#define RETRY_SECONDS 0.1

typedef enum stage {
    IDLE,
    KNOCKS, /* in its handshake with the hub */
    ASKS,   /* waits until the hub has the other one, too */
    SHAKES,
    GREETS,
    DONE,
} stage;

typedef struct line {
    stage stage;
    gwg_talk talk;
    double since; /* when it began, or ended */
} line;

typedef struct mesh {
    gw_group *g;
    int hub;         /* its rank; -1: the meeting */
    int relayed;     /* pairs for which this member is the hub */
    int missing;     /* connections that are not there yet */
    int streams;     /* places in `lines` for each member */
    int count;       /* lines to members */
    line *lines;     /* [members][streams] by rank, then the strangers */
    line *strangers; /* [places] that call, and have not said who they are */
    int places;
    struct pollfd *polls; /* [count + places + 2] */
} mesh;

static void hang_up(line *l)
{
    gwg_talk_end(&l->talk);
    l->stage = IDLE;
    l->since = gwg_now();
}

/* ---- who calls whom ----------------------------------------------------------------
 */

static int is_out_only(const mesh *m, int rank)
{
    return strcmp(m->g->members[rank].at.port, "0") == 0;
}

static int is_relayed(const mesh *m, int rank)
{
    return is_out_only(m, m->g->rank) && is_out_only(m, rank);
}

static line *line_to(const mesh *m, int rank, int stream)
{
    return &m->lines[rank * m->streams + stream];
}

/* How many connections this member has to that one. */
static int streams_to(const mesh *m, int rank)
{
    return rank == m->g->rank ? 0 : is_relayed(m, rank) ? 1 : m->streams;
}

/* Whether this member waits for a call of that one. */
static int answers(const mesh *m, int rank)
{
    int self = m->g->rank;

    if (is_out_only(m, self) || rank == self)
        return 0;
    return is_out_only(m, rank) || rank > self;
}

static void find_hub(mesh *m)
{
    int out_only = 0;

    m->hub = -1;
    for (int r = m->g->count - 1; r >= 0; r--)
        if (is_out_only(m, r))
            out_only++;
        else
            m->hub = r;
    if (m->hub == m->g->rank)
        m->relayed = out_only * (out_only - 1) / 2;
}

static const gwg_address *hub_address(const mesh *m)
{
    return m->hub >= 0 ? &m->g->members[m->hub].at : &m->g->self.meetings[0];
}

static gw_status check_hub(const mesh *m)
{
    if (m->relayed > GWG_MOST_PAIRS)
        return gw_fail(GW_ERR_ARG,
                       "too many workers only call out: a hub serves %d "
                       "pairs",
                       GWG_MOST_PAIRS);
    if (m->hub < 0 && m->g->count > 1 && !m->g->way->relays)
        return gw_fail(GW_ERR_PEER, "all workers only call out, so they cannot talk to "
                                    "each other");
    if (m->relayed > 0)
        GWG_TRY(gwg_relay_check(m->relayed));
    return m->relayed > 0 && m->g->relay == NULL ? gwg_relay_new(&m->g->relay) : GW_OK;
}

/* Whether all pairs that talk through this member are connected. */
static int has_relayed(const mesh *m)
{
    return m->relayed == 0 || gwg_relay_pairs(m->g->relay, m->g->view) >= m->relayed;
}

/* ---- those that this member calls
 * ---------------------------------------------------- */

static void call(mesh *m, line *l, int rank)
{
    int by_hub = is_relayed(m, rank);
    gwg_conn *conn;
    int fd;

    l->since = gwg_now();
    if (gwg_connect_begin(by_hub ? hub_address(m) : &m->g->members[rank].at, &fd) !=
            GW_OK ||
        gwg_conn_new(&conn, m->g->self.tls, fd, GWG_CALLS) != GW_OK)
        return;
    l->talk = gwg_talk_over(conn);
    l->stage = by_hub ? KNOCKS : SHAKES;
}

static gw_status greet(mesh *m, line *l, int rank, int stream)
{
    const gw_group *g = m->g;

    return gwg_talk_put(&l->talk, "peer %llu %llu %llu %d %d",
                        (unsigned long long)g->view, (unsigned long long)g->id,
                        (unsigned long long)g->members[rank].id, stream,
                        streams_to(m, rank));
}

static int rank_of(const mesh *m, uint64_t id)
{
    for (int r = 0; r < m->g->count; r++)
        if (m->g->members[r].id == id)
            return r;
    return -1;
}

/* Whether a greeting is for this view and this member, and for one of the connections
 * that it has to the sender: *rank and *stream. */
static int is_greeting(const mesh *m, const char *text, int *rank, int *stream)
{
    unsigned long long view, sender, to;
    int streams, used = 0;

    if (sscanf(text, "peer %llu %llu %llu %d %d%n", &view, &sender, &to, stream,
               &streams, &used) != 5 ||
        text[used] != '\0')
        return 0;
    *rank = rank_of(m, sender);
    return view == m->g->view && to == m->g->id && *rank >= 0 &&
           streams == streams_to(m, *rank) && *stream >= 0 && *stream < streams;
}

/* Proves the key to the hub and says for whom this member calls. */
static gw_status knock(mesh *m, line *l, int rank)
{
    GWG_TRY(gwg_conn_shake(l->talk.conn));
    l->stage = ASKS;
    return gwg_talk_put(&l->talk, "relay %llu %llu %llu",
                        (unsigned long long)m->g->view, (unsigned long long)m->g->id,
                        (unsigned long long)m->g->members[rank].id);
}

/* What follows the hub's answer comes from the other member, and is none of its
 * business. */
static gw_status ask_hub(mesh *m, line *l, int rank)
{
    char text[GWG_LINE_CAP];

    GWG_TRY(gwg_talk_send(&l->talk));
    GWG_TRY(gwg_talk_take(&l->talk, text));
    if (strcmp(text, "relayed") != 0 || l->talk.in_len > 0)
        return GW_ERR_PEER;
    l->stage = SHAKES;
    return gwg_conn_again(l->talk.conn, m->g->self.tls,
                          rank < m->g->rank ? GWG_CALLS : GWG_ANSWERS);
}

static gw_status shake(mesh *m, line *l, int rank, int stream, int first)
{
    GWG_TRY(gwg_conn_shake(l->talk.conn));
    l->stage = GREETS;
    return first ? greet(m, l, rank, stream) : GW_OK;
}

/* Nothing may be read after both greetings: the first message may follow at once. A new
 * connection takes a line at once; one that does not is of no use. */
static gw_status greet_last(mesh *m, line *l, int rank, int stream)
{
    GWG_TRY(greet(m, l, rank, stream));
    GWG_TRY(gwg_talk_send(&l->talk));
    return l->talk.out_len > 0 || gwg_conn_unsent(l->talk.conn) > 0 ? GW_ERR_PEER
                                                                    : GW_OK;
}

static gw_status meet(mesh *m, line *l, int rank, int stream, int first)
{
    char text[GWG_LINE_CAP];
    int from, which;

    GWG_TRY(gwg_talk_send(&l->talk));
    GWG_TRY(gwg_talk_take(&l->talk, text));
    if (l->talk.in_len > 0 || !is_greeting(m, text, &from, &which) || from != rank ||
        which != stream)
        return GW_ERR_PEER;
    if (!first)
        GWG_TRY(greet_last(m, l, rank, stream));
    l->stage = DONE;
    m->missing--;
    return GW_OK;
}

static void advance_call(mesh *m, int rank, int stream)
{
    line *l = line_to(m, rank, stream);
    int first = !is_relayed(m, rank) || rank < m->g->rank;
    gw_status st = GW_OK;

    if (l->stage == KNOCKS)
        st = knock(m, l, rank);
    if (st == GW_OK && l->stage == ASKS)
        st = ask_hub(m, l, rank);
    if (st == GW_OK && l->stage == SHAKES)
        st = shake(m, l, rank, stream, first);
    if (st == GW_OK && l->stage == GREETS)
        st = meet(m, l, rank, stream, first);
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

    for (int i = 0; i < STRANGERS && (fd = gwg_accept(m->g->listener, from)) >= 0;
         i++) {
        line *oldest = &m->strangers[0];
        for (int k = 0; k < m->places; k++)
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

/* Keeps a caller that wants to talk to another one through this member. */
static gw_status admit_for_other(mesh *m, line *l, const char *text)
{
    gwg_pair pair;

    GWG_TRY(gwg_pair_read(text, &pair));
    int from = rank_of(m, pair.from), to = rank_of(m, pair.to);
    if (m->relayed == 0 || pair.view != m->g->view || from < 0 || to < 0 ||
        !is_out_only(m, from) || !is_out_only(m, to))
        return GW_ERR_PEER;
    GWG_TRY(gwg_relay_take(m->g->relay, &l->talk, &pair));
    *l = (line){.stage = IDLE};
    return GW_OK;
}

/* Makes the connection of a caller that has said who it is. One that calls again has
 * lost its first connection. */
static gw_status admit(mesh *m, line *l, const char *text)
{
    int rank, stream;

    if (strncmp(text, "relay ", 6) == 0)
        return admit_for_other(m, l, text);
    if (!is_greeting(m, text, &rank, &stream) || !answers(m, rank) ||
        l->talk.in_len > 0)
        return GW_ERR_PEER;
    GWG_TRY(greet_last(m, l, rank, stream));
    line *place = line_to(m, rank, stream);
    if (place->stage == DONE) {
        hang_up(place);
        m->missing++;
    }
    *place = (line){.stage = DONE, .talk = l->talk};
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

/* Those who call with many connections at once would turn each other away. */
static void advance_calls(mesh *m, int rank)
{
    double now = gwg_now();

    for (int k = 0; k < streams_to(m, rank); k++) {
        line *l = line_to(m, rank, k);
        if (k > 0 && line_to(m, rank, 0)->stage != DONE)
            break;
        if (l->stage == IDLE && now - l->since > RETRY_SECONDS)
            call(m, l, rank);
        if (l->stage != IDLE && l->stage != DONE)
            advance_call(m, rank, k);
    }
}

static void advance_all(mesh *m)
{
    for (int r = 0; r < m->g->count; r++)
        if (!answers(m, r))
            advance_calls(m, r);
    if (m->g->listener >= 0)
        accept_callers(m);
    for (int i = 0; i < m->places; i++)
        if (m->strangers[i].stage != IDLE)
            advance_caller(m, &m->strangers[i]);
}

static short events_of(const line *l)
{
    return l->stage == SHAKES || l->stage == KNOCKS ? gwg_conn_events(l->talk.conn)
                                                    : gwg_talk_events(&l->talk);
}

static void sleep_once(mesh *m)
{
    nfds_t n = 0;

    m->polls[n++] = (struct pollfd){.fd = m->g->listener, .events = POLLIN};
    if (m->g->link != NULL)
        m->polls[n++] =
            (struct pollfd){.fd = gwg_link_fd(m->g->link), .events = POLLIN};
    for (int i = 0; i < m->count + m->places; i++) {
        const line *l = &m->lines[i];
        if (l->stage != IDLE && l->stage != DONE)
            m->polls[n++] = (struct pollfd){.fd = gwg_conn_fd(l->talk.conn),
                                            .events = events_of(l)};
    }
    poll(m->polls, n, NAP_MS);
}

static gw_status fail_relayed(const mesh *m, int rank)
{
    const gwg_address *at = hub_address(m);

    if (line_to(m, rank, 0)->stage == ASKS)
        return gw_fail(GW_ERR_TIMEOUT,
                       "worker %d (%s), which only calls out, did not call the hub at "
                       "%s:%s",
                       rank, m->g->members[rank].name, at->host, at->port);
    return gw_fail(GW_ERR_TIMEOUT, "the hub cannot be reached at %s:%s", at->host,
                   at->port);
}

static int is_connected(const mesh *m, int rank)
{
    for (int k = 0; k < streams_to(m, rank); k++)
        if (line_to(m, rank, k)->stage != DONE)
            return 0;
    return 1;
}

static gw_status fail_missing(const mesh *m)
{
    const gw_group *g = m->g;

    for (int r = 0; r < g->count; r++) {
        const gwg_member *other = &g->members[r];
        if (is_connected(m, r))
            continue;
        if (is_relayed(m, r))
            return fail_relayed(m, r);
        if (answers(m, r))
            return gw_fail(GW_ERR_TIMEOUT, "worker %d (%s) did not call from %s", r,
                           other->name, other->at.host);
        return gw_fail(GW_ERR_TIMEOUT,
                       "worker %d (%s) cannot be reached at %s:%s; if it cannot be "
                       "called at all, it should only call out",
                       r, other->name, other->at.host, other->at.port);
    }
    return gw_fail(GW_ERR_TIMEOUT, "workers that only call out did not call the hub, "
                                   "which is this one");
}

static gw_status connect_all(mesh *m)
{
    double end = gwg_now() + m->g->self.timeout;

    while (m->missing > 0 || !has_relayed(m)) {
        advance_all(m);
        if (m->missing == 0 && has_relayed(m))
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

/* What a comm is made of. */
typedef struct ends {
    gw_stream *streams;     /* [count][streams] */
    const gw_stream **each; /* [count] */
    const char **hosts;     /* [count] */
    int *counts;            /* [count] */
} ends;

static gw_status comm_over(mesh *m, ends *e, gw_comm **out)
{
    const gw_group *g = m->g;
    gw_comm_options opt = {.struct_size = sizeof opt,
                           .timeout_seconds = g->self.timeout};

    for (int r = 0; r < g->count; r++) {
        gw_stream *to = &e->streams[r * m->streams];
        e->hosts[r] = g->members[r].name;
        e->each[r] = to;
        e->counts[r] = streams_to(m, r);
        for (int k = 0; k < e->counts[r]; k++)
            to[k] = gwg_conn_stream(line_to(m, r, k)->talk.conn, g->self.terms.plain);
    }
    gw_status st =
        gw_comm_striped(out, e->each, e->counts, e->hosts, g->rank, g->count, &opt);
    if (st == GW_OK && g->limit != NULL)
        (void)gw_comm_learn(*out, g->limit); /* a new comm can */
    return st;
}

/* Hands the connections over to a comm. */
static gw_status make_comm(mesh *m, gw_comm **out)
{
    size_t count = (unsigned)m->g->count, lines = count * (unsigned)m->streams;
    ends e = {calloc(lines, sizeof *e.streams), calloc(count, sizeof *e.each),
              calloc(count, sizeof *e.hosts), calloc(count, sizeof *e.counts)};
    gw_status st = GW_OK;

    if (e.streams == NULL || e.each == NULL || e.hosts == NULL || e.counts == NULL)
        st = gw_fail(GW_ERR_NOMEM, "not enough memory for %zu connections", lines);
    if (st == GW_OK)
        st = comm_over(m, &e, out);
    for (size_t i = 0; st == GW_OK && i < lines; i++)
        m->lines[i].talk.conn = NULL;
    free(e.streams);
    free((void *)e.each);
    free((void *)e.hosts);
    free(e.counts);
    return st;
}

/* A hub is called twice for each pair, by all at once, and by each member for all but
 * its first connection: one that had fewer places would hang up on most of them in the
 * middle of their handshakes, again and again. */
static int count_places(const mesh *m)
{
    int places = STRANGERS + 2 * m->relayed + m->count - m->g->count;

    return places < MOST_STRANGERS ? places : MOST_STRANGERS;
}

static mesh *new_mesh(gw_group *g)
{
    mesh *m = calloc(1, sizeof *m);
    size_t all;

    if (m == NULL)
        return NULL;
    *m = (mesh){.g = g, .streams = g->self.terms.streams};
    m->count = g->count * m->streams;
    find_hub(m);
    for (int r = 0; r < g->count; r++)
        m->missing += streams_to(m, r);
    m->places = count_places(m);
    all = (size_t)(m->count + m->places);
    m->lines = calloc(all, sizeof *m->lines);
    m->polls = calloc(all + 2, sizeof *m->polls);
    if (m->lines == NULL || m->polls == NULL) {
        free(m->lines);
        free(m->polls);
        free(m);
        return NULL;
    }
    m->strangers = m->lines + m->count;
    return m;
}

static void free_mesh(mesh *m)
{
    for (int i = 0; i < m->count + m->places; i++)
        gwg_talk_end(&m->lines[i].talk);
    free(m->lines);
    free(m->polls);
    free(m);
}

gw_status gwg_mesh(gw_group *g, gw_comm **out)
{
    mesh *m = new_mesh(g);
    gw_status st;

    if (m == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory for %d members", g->count);
    st = check_hub(m);
    if (st == GW_OK)
        st = connect_all(m);
    if (m->relayed > 0 && g->relay != NULL)
        gwg_relay_forget(g->relay, -1);
    if (st == GW_OK)
        st = make_comm(m, out);
    free_mesh(m);
    return st;
}
