/* SPDX-License-Identifier: Apache-2.0
 *
 * meeting.c - opens and closes a meeting, and runs its loop. */
#define _GNU_SOURCE
#include "meeting.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The loop looks at its clocks at least so often. */
enum { TICK_MS = 200 };

static bool has_more(const gwg_guest *g)
{
    return g->shaken && gwg_talk_has_more(&g->talk);
}

/* Returns how many there are; *wait becomes 0 if somebody need not be waited for. */
static int fill_polls(gw_meeting *m, int *wait)
{
    int n = 0;

    m->polls[n++] = (struct pollfd){.fd = m->wake[0], .events = POLLIN};
    m->polls[n++] = (struct pollfd){.fd = m->listener, .events = POLLIN};
    for (int i = 0; i < GWG_MOST_GUESTS; i++) {
        gwg_guest *g = &m->guests[i];
        if (g->role == GWG_NOBODY)
            continue;
        if (has_more(g))
            *wait = 0;
        m->polled[n] = i;
        m->polls[n++] =
            (struct pollfd){.fd = gwg_conn_fd(g->talk.conn),
                            .events = g->shaken ? gwg_talk_events(&g->talk)
                                                : gwg_conn_events(g->talk.conn)};
    }
    return n;
}

/* Everybody is served who can move; lines that another one has caused leave, too. */
static void serve_all(gw_meeting *m, int n)
{
    for (int i = 2; i < n; i++) {
        gwg_guest *g = &m->guests[m->polled[i]];
        if (g->role != GWG_NOBODY && (m->polls[i].revents != 0 || has_more(g)))
            gwg_guest_serve(m, g);
    }
    if (m->polls[1].revents != 0)
        gwg_guests_accept(m);
}

static void *run(void *arg)
{
    gw_meeting *m = arg;

    for (;;) {
        int wait = TICK_MS, n = fill_polls(m, &wait);
        if (poll(m->polls, (nfds_t)n, wait) < 0 && errno != EINTR)
            return NULL;
        if (m->polls[0].revents != 0)
            return NULL;
        double now = gwg_now();
        serve_all(m, n);
        gwg_guests_expire(m, now);
        if (m->relay != NULL)
            gwg_relay_forget(m->relay, m->timeout);
        gwg_meeting_form(m, now);
    }
}

/* ---- opening and closing -----------------------------------------------------------
 */

static gw_status check(const gw_meeting_options *opt)
{
    if (opt->struct_size != sizeof *opt || opt->listen == NULL ||
        !(opt->timeout_seconds >= 0))
        return gw_fail(GW_ERR_ARG, "invalid gw_meeting_options");
    return GW_OK;
}

static gw_status start_thread(gw_meeting *m)
{
    sigset_t all, old;

    if (pipe2(m->wake, O_CLOEXEC) != 0)
        return gw_fail(GW_ERR_SYSTEM, "cannot open a pipe: %s", strerror(errno));
    /* Signals are for the caller's threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    int code = pthread_create(&m->thread, NULL, run, m);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (code == 0)
        return GW_OK;
    close(m->wake[0]);
    close(m->wake[1]);
    return gw_fail(GW_ERR_SYSTEM, "cannot start a thread: %s", strerror(code));
}

static gw_status open_it(gw_meeting *m, const gw_meeting_options *opt)
{
    gwg_address at;

    GWG_TRY(gwg_address_parse(opt->listen, &at));
    GWG_TRY(gwg_tls_new(&m->tls, opt->job != NULL ? opt->job : "job", opt->key));
    GWG_TRY(gwg_listen(&at, &m->listener, &m->port));
    return start_thread(m);
}

static void release(gw_meeting *m)
{
    for (int i = 0; i < GWG_MOST_GUESTS; i++)
        if (m->guests[i].role != GWG_NOBODY)
            gwg_talk_end(&m->guests[i].talk);
    if (m->listener >= 0)
        close(m->listener);
    gwg_relay_free(m->relay, 0);
    gwg_tls_free(m->tls);
    free(m);
}

gw_status gw_meeting_open(gw_meeting **out, const gw_meeting_options *opt)
{
    gw_meeting *m;
    gw_status st;

    *out = NULL;
    GWG_TRY(check(opt));
    m = calloc(1, sizeof *m);
    if (m == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory for a meeting");
    m->listener = -1;
    m->heard_at = gwg_now();
    m->timeout = opt->timeout_seconds > 0 ? opt->timeout_seconds : 60.0;
    m->tell = opt->tell;
    m->arg = opt->arg;
    st = open_it(m, opt);
    if (st != GW_OK) {
        release(m);
        return st;
    }
    *out = m;
    return GW_OK;
}

int gw_meeting_port(const gw_meeting *m)
{
    return m->port;
}

void gw_meeting_close(gw_meeting *m)
{
    if (m == NULL)
        return;
    (void)!write(m->wake[1], "", 1);
    pthread_join(m->thread, NULL);
    close(m->wake[0]);
    close(m->wake[1]);
    release(m);
}
