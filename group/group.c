/* SPDX-License-Identifier: Apache-2.0
 *
 * group.c - a member of a job: joins at the meeting, enters views, leaves. */
#define _GNU_SOURCE
#include "group.h"

#include <openssl/rand.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_WORKERS = 1024 };

/* Callers that are sent away at once, at most. */
enum { MOST_CALLERS = 4096 };

/* How long one sleep is at most, so that an interrupt is noticed. */
enum { NAP_MS = 100 };

/* How long a hub that leaves goes on passing messages on. */
#define LINGER_SECONDS 10.0

/* How long a member that is about to leave waits for a meeting that is away: one that
 * was started anew is back by then. */
#define GRACE_SECONDS 3.0

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

static gw_status take_terms(gwg_terms *t, const gw_group_options *opt)
{
    t->min = opt->min_workers != 0 ? opt->min_workers : 1;
    t->max = opt->max_workers != 0 ? opt->max_workers : MOST_WORKERS;
    t->plain = opt->plain != 0;
    t->streams = opt->streams != 0 ? opt->streams : 1;
    if (t->min < 1 || t->max < t->min || t->max > MOST_WORKERS)
        return gw_fail(GW_ERR_ARG, "a job has 1 to %d workers, not %d to %d",
                       MOST_WORKERS, t->min, t->max);
    if (t->streams < 1 || t->streams > GWG_MOST_STREAMS)
        return gw_fail(GW_ERR_ARG,
                       "workers have 1 to %d connections to each other, not %d",
                       GWG_MOST_STREAMS, t->streams);
    return GW_OK;
}

static gw_status take_options(gw_group *g, const gw_group_options *opt)
{
    char host[GWG_MEMBER_NAME_CAP] = "host";
    const char *job = opt->job != NULL ? opt->job : "job";
    gwg_self *s = &g->self;

    if (opt->struct_size != sizeof *opt || !(opt->timeout_seconds >= 0) ||
        opt->port < 0 || opt->port > 65535)
        return gw_fail(GW_ERR_ARG, "invalid gw_group_options");
    if (opt->out_only && (opt->port != 0 || opt->address != NULL))
        return gw_fail(GW_ERR_ARG, "a worker that only calls out has neither an "
                                   "address nor a port for others");
    GWG_TRY(take_terms(&s->terms, opt));
    gethostname(host, sizeof host - 1);
    copy_word(s->name, sizeof s->name, opt->name != NULL ? opt->name : host);
    copy_word(s->address, sizeof s->address, opt->address != NULL ? opt->address : "-");
    s->timeout = opt->timeout_seconds > 0 ? opt->timeout_seconds : 60.0;
    g->tell = opt->tell;
    g->arg = opt->arg;
    if (opt->learn_timeout)
        GWG_TRY(gw_limit_new(&g->limit));
    snprintf(s->job, sizeof s->job, "%s", job);
    GWG_TRY(gwg_way_find(opt->meeting, s, &g->way));
    return gwg_tls_new(&s->tls, strlen(job) < sizeof s->job ? s->job : job, opt->key);
}

static gw_status open_port(gw_group *g, int port)
{
    gwg_address at = {.host = ""};

    snprintf(at.port, sizeof at.port, "%d", port);
    return gwg_listen(&at, &g->listener, &g->self.port);
}

/* Sleeps until the meeting may have said something, but not for long, so that an
 * interrupt is noticed. */
static void nap(gw_group *g)
{
    struct pollfd p = {.fd = gwg_link_fd(g->link), .events = POLLIN};

    poll(&p, 1, NAP_MS);
}

/* Becomes a member; the link knows how long that may take. */
static gw_status register_here(gw_group *g)
{
    if (RAND_bytes((unsigned char *)&g->self.token, sizeof g->self.token) != 1)
        return gw_fail(GW_ERR_SYSTEM, "the system has no random numbers");
    g->view = g->next_id = 0;
    g->lacking = 0;
    g->away_at = 0;
    GWG_TRY(gwg_link_open(&g->link, g->way, &g->self));
    for (;;) {
        GWG_TRY(gwg_group_hear(g));
        if (g->next_id != 0)
            return GW_OK;
        nap(g);
    }
}

static gw_status join(gw_group *g, const gw_group_options *opt)
{
    GWG_TRY(take_options(g, opt));
    if (!opt->out_only)
        GWG_TRY(open_port(g, opt->port));
    return register_here(g);
}

/* Says nothing, so that a message about a failure stays. Those who talk through this
 * member may have something left to say, until they have heard that it leaves. */
static void release(gw_group *g)
{
    double patience =
        g->self.timeout < LINGER_SECONDS ? g->self.timeout : LINGER_SECONDS;

    gwg_link_close(g->link);
    gwg_relay_free(g->relay, patience);
    if (g->listener >= 0)
        close(g->listener);
    gwg_tls_free(g->self.tls);
    gw_limit_free(g->limit);
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
    if (g != NULL)
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
    g->id = g->next_id;
    g->rank = rank;
    g->count = count;
    g->known = g->over = g->lacking = 0;
    return GW_OK;
}

/* A member that has called a meeting at its own machine is where the meeting is: by the
 * address that the meeting saw, each other machine would look for it at home. The
 * endpoints of etcd are not known to be where their callers are. */
static void find_beside_meeting(const gw_group *g, gwg_member *m)
{
    if (g->way->relays && gwg_is_loopback(m->at.host))
        snprintf(m->at.host, sizeof m->at.host, "%s", g->self.meetings[0].host);
}

static gw_status hear_member(gw_group *g, const char *line)
{
    gwg_member m = {0};
    unsigned long long id;

    if (g->known >= g->count || sscanf(line, "member %llu %255s %7s %63s", &id,
                                       m.at.host, m.at.port, m.name) != 4)
        return gw_fail(GW_ERR_DATA, "the meeting sent a malformed member");
    m.id = id;
    find_beside_meeting(g, &m);
    g->members[g->known++] = m;
    return GW_OK;
}

/* What the link says about itself. */
static gw_status hear_presence(gw_group *g, const char *line)
{
    unsigned long long id;

    if (sscanf(line, "welcome %llu", &id) == 1 && id > 0) {
        g->next_id = id;
    } else if (strncmp(line, "away ", 5) == 0) {
        g->away_at = gwg_now();
        g->told_away = 0;
        snprintf(g->away, sizeof g->away, "%.127s", line + 5);
        tell(g, "%s; those who have met go on", g->away);
    } else if (strcmp(line, "back") == 0) {
        g->away_at = 0;
        tell(g, "the meeting is back");
    } else {
        return gw_fail(GW_ERR_DATA, "the meeting says '%.60s'", line);
    }
    return GW_OK;
}

/* Who comes after the end of a job would wait for others, or begin anew, without
 * knowing why. */
static void hear_past(gw_group *g, unsigned long long step, unsigned long long steps)
{
    if (steps > 0 && step >= steps)
        tell(g,
             "the job that was here has ended, with all of its %llu steps; this worker "
             "would begin another one",
             steps);
    else
        tell(g, "all workers of the job that was here are gone; this worker would "
                "begin another one");
}

static gw_status hear_line(gw_group *g, const char *line)
{
    unsigned long long view, step, steps;
    int have, min;

    if (strncmp(line, "view ", 5) == 0)
        return hear_view(g, line);
    if (strncmp(line, "member ", 7) == 0)
        return hear_member(g, line);
    if (sscanf(line, "over %llu", &view) == 1) {
        g->over = g->over || view == g->view;
        return GW_OK;
    }
    if (sscanf(line, "wait %d %d", &have, &min) == 2 && have >= min) {
        tell(g, "the job has all of its %d workers; this one waits until one is gone",
             have);
        return GW_OK;
    }
    if (sscanf(line, "wait %d %d", &have, &min) == 2) {
        g->lacking = 1;
        tell(g, "waiting for %d more worker%s; %d of %d there", min - have,
             min - have == 1 ? "" : "s", have, min);
        return GW_OK;
    }
    if (strcmp(line, "hubless") == 0) {
        g->lacking = 1;
        tell(g, "waiting for a worker that others can call; those that are there only "
                "call out");
        return GW_OK;
    }
    if (sscanf(line, "past %llu %llu %llu", &view, &step, &steps) == 3) {
        hear_past(g, step, steps);
        return GW_OK;
    }
    return hear_presence(g, line);
}

gw_status gwg_group_hear(gw_group *g)
{
    char line[GWG_LINE_CAP];
    gw_status st = GW_OK;

    while (g->link != NULL && st == GW_OK &&
           (st = gwg_link_take(g->link, line)) == GW_OK)
        st = hear_line(g, line);
    if (st == GW_PENDING || g->link == NULL)
        return GW_OK;
    /* A view that goes on without this member is over for it. */
    g->over = 1;
    gwg_link_close(g->link);
    g->link = NULL;
    return st;
}

/* ---- the next view
 * ------------------------------------------------------------------- */

/* Those who have met keep what they have until the meeting is back, however long that
 * takes; they say so once. */
static void tell_away(gw_group *g)
{
    time_t at = time(NULL) - (time_t)(gwg_now() - g->away_at);
    char since[32] = "";
    struct tm local;

    if (g->told_away)
        return;
    g->told_away = 1;
    if (localtime_r(&at, &local) != NULL)
        strftime(since, sizeof since, "%Y-%m-%d %H:%M:%S", &local);
    tell(g, "waiting for the meeting, away since %s: %s", since, g->away);
}

/* Whether a member that began to wait at `start` goes on to wait for the meeting. */
static gw_status wait_for_meeting(gw_group *g, double start)
{
    double now = gwg_now(), since = g->away_at > start ? g->away_at : start;

    if (g->leaving && now - g->away_at > GRACE_SECONDS)
        return gw_fail(GW_ERR_STOPPED, "this worker leaves, and %s", g->away);
    if (!g->met && now - since > g->self.timeout)
        return gw_fail(GW_ERR_PEER, "%s, and this worker has met no other yet",
                       g->away);
    if (g->met)
        tell_away(g);
    return GW_OK;
}

/* Other members call this one only after it has asked for a view. Whoever called before
 * may fill the queue in which they would wait, and their second try would come after a
 * second. */
static void send_callers_away(gw_group *g)
{
    char from[GWG_HOST_CAP];
    int fd = 0;

    for (int i = 0; g->listener >= 0 && fd >= 0 && i < MOST_CALLERS; i++) {
        fd = gwg_accept(g->listener, from);
        if (fd >= 0)
            close(fd);
    }
}

/* Waits for a view that is complete. */
static gw_status await_view(gw_group *g)
{
    uint64_t last = g->view;
    double start = gwg_now();

    send_callers_away(g);
    gwg_link_ask(g->link, last, g->limit != NULL ? gw_limit_seconds(g->limit) : 0);
    for (;;) {
        if (g->stopped)
            return gw_fail(GW_ERR_STOPPED, "stopped while waiting for other workers");
        GWG_TRY(gwg_group_hear(g));
        if (g->view > last && g->known == g->count)
            return GW_OK;
        /* Who has met nobody has nothing to hand over. */
        if (g->leaving && (g->lacking || !g->met))
            return gw_fail(GW_ERR_STOPPED, "this worker leaves, and there are too few "
                                           "others to hand anything over to");
        if (g->away_at > 0)
            GWG_TRY(wait_for_meeting(g, start));
        nap(g);
    }
}

/* A member that cannot be reached, such as one that hangs, has its chance in the view;
 * those who have met before try again without it. */
gw_status gw_group_next(gw_group *g, gw_comm **out)
{
    *out = NULL;
    for (;;) {
        if (g->link == NULL)
            GWG_TRY(register_here(g));
        GWG_TRY(await_view(g));
        gw_status st = gwg_mesh(g, out);
        g->met = g->met || st == GW_OK;
        if (st == GW_ERR_TIMEOUT && g->met)
            tell(g, "%s; asking for another view", gw_error_message());
        else if (st != GW_PENDING)
            return st;
    }
}

int gw_group_due(gw_group *g)
{
    /* A meeting that is away changes nothing for those who are connected. */
    (void)gwg_group_hear(g);
    return g->over;
}

uint64_t gw_group_view(const gw_group *g)
{
    return g->view;
}

void gw_group_report(gw_group *g, const gw_group_progress *p)
{
    if (p->struct_size == sizeof *p && g->link != NULL)
        gwg_link_report(g->link, p);
}

void gw_group_interrupt(gw_group *g)
{
    g->stopped = 1;
}

void gw_group_leaving(gw_group *g)
{
    g->leaving = 1;
}

/* ---- status and keys
 * ------------------------------------------------------------------ */

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
        st = g->way->watch(&g->self, line, arg);
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
