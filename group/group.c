/* SPDX-License-Identifier: Apache-2.0
 *
 * group.c - a member of a job: joins at the meeting, enters views, leaves. */
#define _GNU_SOURCE
#include "group.h"

#include <inttypes.h>
#include <openssl/rand.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_WORKERS = 1024 };

/* How long one sleep is at most, so that an interrupt is noticed. */
enum { NAP_MS = 100 };

static void tell(gw_group *g, const char *format, ...) GW_PRINTF(2, 3);
static void tell(gw_group *g, const char *format, ...)
{
    char line[GWG_LINE_CAP];
    va_list args;

    if (g->tell == NULL)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    g->tell(g->arg, line);
}

/* ---- calling the meeting
 * ------------------------------------------------------------- */

static gw_status parse_meeting(const char *text, gwg_address *out)
{
    static const char scheme[] = "tcp://";

    if (text == NULL || strncmp(text, scheme, strlen(scheme)) != 0)
        return gw_fail(GW_ERR_ARG, "invalid meeting '%s'; expected tcp://HOST:PORT",
                       text != NULL ? text : "");
    GWG_TRY(gwg_address_parse(text + strlen(scheme), out));
    if (out->host[0] == '\0')
        return gw_fail(GW_ERR_ARG, "meeting '%s' has no host", text);
    return GW_OK;
}

/* Waits until the connection can move, but not past the time `end`. */
static gw_status rest(int fd, short events, double end)
{
    struct pollfd p = {.fd = fd, .events = events};
    double left = 1e3 * (end - gwg_now());

    if (left <= 0)
        return gw_fail(GW_ERR_TIMEOUT, "the meeting does not answer");
    poll(&p, 1, left < NAP_MS ? (int)left + 1 : NAP_MS);
    return GW_OK;
}

static gw_status shake(gwg_conn *conn, double end)
{
    gw_status st;

    while ((st = gwg_conn_shake(conn)) == GW_PENDING)
        GWG_TRY(rest(gwg_conn_fd(conn), gwg_conn_events(conn), end));
    return st;
}

/* Connects with the meeting and proves the key. */
static gw_status call_meeting(gwg_talk *out, gwg_tls *tls, const gwg_address *at,
                              double seconds)
{
    double end = gwg_now() + seconds;
    gwg_conn *conn;
    int fd;

    GWG_TRY(gwg_connect(at, seconds, &fd));
    GWG_TRY(gwg_conn_new(&conn, tls, fd, GWG_CALLS));
    if (shake(conn, end) != GW_OK) {
        gwg_conn_free(conn);
        return gw_fail(GW_ERR_PEER,
                       "the meeting at '%s:%s' turned this worker away: is it a "
                       "gradwire meeting, with the same job and key?",
                       at->host, at->port);
    }
    *out = gwg_talk_over(conn);
    return GW_OK;
}

/* Waits for a line. */
static gw_status await_line(gwg_talk *t, char line[GWG_LINE_CAP], double end)
{
    gw_status st;

    for (;;) {
        GWG_TRY(gwg_talk_move(t));
        st = gwg_talk_take(t, line);
        if (st != GW_PENDING)
            return st;
        GWG_TRY(rest(gwg_conn_fd(t->conn), gwg_talk_events(t), end));
    }
}

static gw_status register_here(gw_group *g)
{
    char line[GWG_LINE_CAP];
    unsigned long long id;

    GWG_TRY(call_meeting(&g->talk, g->tls, &g->meeting, g->timeout));
    GWG_TRY(gwg_talk_put(&g->talk, "join 1 %d %d %d %d %s %s", g->min, g->max, g->plain,
                         g->port, g->address, g->name));
    GWG_TRY(await_line(&g->talk, line, gwg_now() + g->timeout));
    if (strncmp(line, "refused ", 8) == 0)
        return gw_fail(GW_ERR_MISMATCH, "the meeting refuses this worker: %s",
                       line + 8);
    if (sscanf(line, "welcome %llu", &id) != 1)
        return gw_fail(GW_ERR_DATA, "the meeting answers '%.60s'", line);
    g->id = id;
    g->view = 0;
    return GW_OK;
}

/* ---- joining ----------------------------------------------------------------------
 */

/* Names travel as one word of printable ASCII. */
static void copy_word(char *to, size_t cap, const char *from)
{
    size_t n = 0;

    for (; from[n] != '\0' && n + 1 < cap; n++)
        to[n] = (char)(from[n] > ' ' && from[n] <= '~' ? from[n] : '_');
    to[n] = '\0';
    if (n == 0)
        snprintf(to, cap, "-");
}

static gw_status take_options(gw_group *g, const gw_group_options *opt)
{
    char host[GWG_MEMBER_NAME_CAP] = "host";

    if (opt->struct_size != sizeof *opt || !(opt->timeout_seconds >= 0) ||
        opt->port < 0 || opt->port > 65535)
        return gw_fail(GW_ERR_ARG, "invalid gw_group_options");
    g->min = opt->min_workers != 0 ? opt->min_workers : 1;
    g->max = opt->max_workers != 0 ? opt->max_workers : MOST_WORKERS;
    if (g->min < 1 || g->max < g->min || g->max > MOST_WORKERS)
        return gw_fail(GW_ERR_ARG, "a job has 1 to %d workers, not %d to %d",
                       MOST_WORKERS, g->min, g->max);
    gethostname(host, sizeof host - 1);
    copy_word(g->name, sizeof g->name, opt->name != NULL ? opt->name : host);
    copy_word(g->address, sizeof g->address, opt->address != NULL ? opt->address : "-");
    g->plain = opt->plain != 0;
    g->timeout = opt->timeout_seconds > 0 ? opt->timeout_seconds : 60.0;
    g->tell = opt->tell;
    g->arg = opt->arg;
    return parse_meeting(opt->meeting, &g->meeting);
}

static gw_status open_port(gw_group *g, int port)
{
    gwg_address at = {.host = ""};

    snprintf(at.port, sizeof at.port, "%d", port);
    return gwg_listen(&at, &g->listener, &g->port);
}

static gw_status join(gw_group *g, const gw_group_options *opt)
{
    GWG_TRY(take_options(g, opt));
    GWG_TRY(gwg_tls_new(&g->tls, opt->job != NULL ? opt->job : "job", opt->key));
    GWG_TRY(open_port(g, opt->port));
    return register_here(g);
}

/* Says nothing, so that a message about a failure stays. */
static void release(gw_group *g)
{
    gwg_talk_end(&g->talk);
    if (g->listener >= 0)
        close(g->listener);
    gwg_tls_free(g->tls);
    free(g->members);
    free(g);
}

gw_status gw_group_join(gw_group **out, const gw_group_options *opt)
{
    gw_group *g = calloc(1, sizeof *g);
    gw_status st;

    *out = NULL;
    if (g == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory for a group");
    g->listener = -1;
    st = join(g, opt);
    if (st != GW_OK) {
        release(g);
        return st;
    }
    *out = g;
    return GW_OK;
}

void gw_group_leave(gw_group *g)
{
    if (g == NULL)
        return;
    if (g->talk.conn != NULL) {
        (void)gwg_talk_put(&g->talk, "leave");
        (void)gwg_talk_send(&g->talk);
    }
    release(g);
}

/* ---- what the meeting says
 * ------------------------------------------------------------ */

static gw_status hear_view(gw_group *g, const char *line)
{
    unsigned long long view;
    int rank, count;

    if (sscanf(line, "view %llu %d %d", &view, &rank, &count) != 3 || count < 1 ||
        count > MOST_WORKERS || rank < 0 || rank >= count || view <= g->view)
        return gw_fail(GW_ERR_DATA, "the meeting sent a malformed view");
    gwg_member *members = realloc(g->members, (size_t)count * sizeof *members);
    if (members == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory for %d members", count);
    g->members = members;
    g->view = view;
    g->rank = rank;
    g->count = count;
    g->known = g->over = 0;
    return GW_OK;
}

static gw_status hear_member(gw_group *g, const char *line)
{
    gwg_member m = {0};
    unsigned long long id;

    if (g->known >= g->count || sscanf(line, "member %llu %255s %7s %63s", &id,
                                       m.at.host, m.at.port, m.name) != 4)
        return gw_fail(GW_ERR_DATA, "the meeting sent a malformed member");
    m.id = id;
    g->members[g->known++] = m;
    return GW_OK;
}

static gw_status hear_line(gw_group *g, const char *line)
{
    unsigned long long view;
    int have, min;

    if (strncmp(line, "view ", 5) == 0)
        return hear_view(g, line);
    if (strncmp(line, "member ", 7) == 0)
        return hear_member(g, line);
    if (sscanf(line, "over %llu", &view) == 1) {
        g->over = g->over || view == g->view;
        return GW_OK;
    }
    if (sscanf(line, "wait %d %d", &have, &min) == 2) {
        tell(g, "waiting for %d more worker%s; %d of %d there", min - have,
             min - have == 1 ? "" : "s", have, min);
        return GW_OK;
    }
    if (strncmp(line, "refused ", 8) == 0)
        return gw_fail(GW_ERR_MISMATCH, "the meeting sends this worker away: %s",
                       line + 8);
    return gw_fail(GW_ERR_DATA, "the meeting says '%.60s'", line);
}

gw_status gwg_group_hear(gw_group *g)
{
    char line[GWG_LINE_CAP];
    gw_status st = GW_OK;

    if (g->talk.conn == NULL)
        return gw_fail(GW_ERR_PEER, "the meeting is away");
    st = gwg_talk_move(&g->talk);
    while (st == GW_OK && (st = gwg_talk_take(&g->talk, line)) == GW_OK)
        st = hear_line(g, line);
    if (st == GW_PENDING)
        return GW_OK;
    gwg_talk_end(&g->talk);
    return st;
}

/* ---- the next view
 * ------------------------------------------------------------------- */

/* Waits for a view that is complete. */
static gw_status await_view(gw_group *g)
{
    uint64_t last = g->view;

    GWG_TRY(gwg_talk_put(&g->talk, "next %llu", (unsigned long long)last));
    for (;;) {
        struct pollfd p;
        if (g->stopped)
            return gw_fail(GW_ERR_STOPPED, "stopped while waiting for other workers");
        GWG_TRY(gwg_group_hear(g));
        if (g->view > last && g->known == g->count)
            return GW_OK;
        p = (struct pollfd){.fd = gwg_conn_fd(g->talk.conn),
                            .events = gwg_talk_events(&g->talk)};
        poll(&p, 1, NAP_MS);
    }
}

gw_status gw_group_next(gw_group *g, gw_comm **out)
{
    gw_status st;

    *out = NULL;
    if (g->talk.conn == NULL)
        GWG_TRY(register_here(g));
    do {
        GWG_TRY(await_view(g));
        st = gwg_mesh(g, out);
    } while (st == GW_PENDING);
    return st;
}

int gw_group_due(gw_group *g)
{
    /* A meeting that is away changes nothing for those who are connected. */
    if (g->talk.conn != NULL)
        (void)gwg_group_hear(g);
    return g->over;
}

uint64_t gw_group_view(const gw_group *g)
{
    return g->view;
}

void gw_group_report(gw_group *g, const gw_group_progress *p)
{
    /* Only the newest report counts, so one that does not fit is left out. */
    if (p->struct_size == sizeof *p && g->talk.conn != NULL && g->talk.out_len == 0 &&
        gwg_talk_put(&g->talk, "report %" PRIu64 " %" PRIu64 " %.6g %.6g %" PRIu64,
                     p->step, p->steps, p->loss, p->samples, p->bytes_sent) == GW_OK)
        (void)gwg_group_hear(g);
}

void gw_group_interrupt(gw_group *g)
{
    g->stopped = 1;
}

/* ---- status and keys
 * ------------------------------------------------------------------ */

static gw_status watch(gw_group *g, void (*line)(void *arg, const char *line),
                       void *arg)
{
    char text[GWG_LINE_CAP];
    double end = gwg_now() + g->timeout;

    GWG_TRY(call_meeting(&g->talk, g->tls, &g->meeting, g->timeout));
    GWG_TRY(gwg_talk_put(&g->talk, "watch 1"));
    for (;;) {
        GWG_TRY(await_line(&g->talk, text, end));
        if (strcmp(text, "end") == 0)
            return GW_OK;
        line(arg, text);
    }
}

gw_status gw_meeting_status(const gw_group_options *opt,
                            void (*line)(void *arg, const char *line), void *arg)
{
    gw_group *g = calloc(1, sizeof *g);
    gw_status st;

    if (g == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory for a group");
    g->listener = -1;
    st = take_options(g, opt);
    if (st == GW_OK)
        st = gwg_tls_new(&g->tls, opt->job != NULL ? opt->job : "job", opt->key);
    if (st == GW_OK)
        st = watch(g, line, arg);
    release(g);
    return st;
}

gw_status gw_group_new_key(char key[44])
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    unsigned char bytes[43];

    if (RAND_bytes(bytes, sizeof bytes) != 1)
        return gw_fail(GW_ERR_SYSTEM, "the system has no random numbers");
    for (size_t i = 0; i < sizeof bytes; i++)
        key[i] = digits[bytes[i] & 63];
    key[sizeof bytes] = '\0';
    return GW_OK;
}
