/* SPDX-License-Identifier: Apache-2.0
 *
 * way.c - the thread that keeps a member's way to its meeting, and the letterbox
 * between the two. */
#define _GNU_SOURCE
#include "way.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* A view of the most members that there can be fits. */
enum { LETTERS_CAP = 1 << 20, MESSAGE_CAP = 512 };

struct gwg_link {
    const gwg_way *way;
    const gwg_self *self;
    pthread_t thread;
    int to_thread, to_member; /* eventfds that wake them */
    pthread_mutex_t lock;     /* for all below */
    gwg_wishes wishes;
    char *letters; /* lines for the member, each with a line feed */
    size_t len, cap;
    bool ended;
    gw_status status; /* why it has ended */
    char message[MESSAGE_CAP];
};

/* ---- kinds of meetings --------------------------------------------------------- */

static const gwg_way *const ways[] = {
    &gwg_way_tcp,
    &gwg_way_etcd,
};

gw_status gwg_way_find(const char *meeting, gwg_self *self, const gwg_way **out)
{
    for (size_t i = 0; meeting != NULL && i < sizeof ways / sizeof ways[0]; i++) {
        size_t len = strlen(ways[i]->scheme);
        if (strncmp(meeting, ways[i]->scheme, len) == 0) {
            *out = ways[i];
            return ways[i]->parse(self, meeting + len);
        }
    }
    return gw_fail(GW_ERR_ARG,
                   "invalid meeting '%s'; expected tcp://HOST:PORT or "
                   "etcd://HOST:PORT[,HOST:PORT...]/JOB",
                   meeting != NULL ? meeting : "");
}

/* ---- waking ---------------------------------------------------------------------- */

static void ring(int fd)
{
    uint64_t one = 1;

    (void)!write(fd, &one, sizeof one);
}

static void silence(int fd)
{
    uint64_t count;

    (void)!read(fd, &count, sizeof count);
}

int gwg_link_fd(const gwg_link *l)
{
    return l->to_member;
}

int gwg_link_wake_fd(const gwg_link *l)
{
    return l->to_thread;
}

void gwg_link_woken(gwg_link *l)
{
    silence(l->to_thread);
}

short gwg_link_sleep(gwg_link *l, int fd, short events, double seconds)
{
    struct pollfd p[2] = {{.fd = l->to_thread, .events = POLLIN},
                          {.fd = fd, .events = events}};

    poll(p, fd >= 0 ? 2 : 1, seconds > 0 ? (int)(1e3 * seconds) + 1 : 0);
    if (p[0].revents != 0)
        silence(l->to_thread);
    return p[1].revents;
}

/* ---- the member's side ------------------------------------------------------------
 */

static void *run(void *arg)
{
    gwg_link *l = arg;
    gw_status st = l->way->run(l);

    pthread_mutex_lock(&l->lock);
    l->ended = true;
    l->status = st;
    snprintf(l->message, sizeof l->message, "%s",
             st != GW_OK ? gw_error_message() : "");
    pthread_mutex_unlock(&l->lock);
    ring(l->to_member);
    return NULL;
}

static gw_status start(gwg_link *l)
{
    sigset_t all, old;

    l->to_thread = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    l->to_member = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (l->to_thread < 0 || l->to_member < 0)
        return gw_fail(GW_ERR_SYSTEM, "cannot open an eventfd: %s", strerror(errno));
    /* Signals are for the caller's threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    int code = pthread_create(&l->thread, NULL, run, l);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return code == 0
               ? GW_OK
               : gw_fail(GW_ERR_SYSTEM, "cannot start a thread: %s", strerror(code));
}

static void release(gwg_link *l)
{
    if (l->to_thread >= 0)
        close(l->to_thread);
    if (l->to_member >= 0)
        close(l->to_member);
    pthread_mutex_destroy(&l->lock);
    free(l->letters);
    free(l);
}

gw_status gwg_link_open(gwg_link **out, const gwg_way *way, const gwg_self *self)
{
    gwg_link *l = calloc(1, sizeof *l);
    gw_status st;

    *out = NULL;
    if (l == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory to join a job");
    l->way = way;
    l->self = self;
    l->to_thread = l->to_member = -1;
    pthread_mutex_init(&l->lock, NULL);
    st = start(l);
    if (st != GW_OK) {
        release(l);
        return st;
    }
    *out = l;
    return GW_OK;
}

void gwg_link_close(gwg_link *l)
{
    if (l == NULL)
        return;
    pthread_mutex_lock(&l->lock);
    l->wishes.leaves = true;
    pthread_mutex_unlock(&l->lock);
    ring(l->to_thread);
    pthread_join(l->thread, NULL);
    release(l);
}

/* Lines that came before the end are taken first. */
static gw_status take(gwg_link *l, char line[GWG_LINE_CAP])
{
    char *end = l->len > 0 ? memchr(l->letters, '\n', l->len) : NULL;

    if (end == NULL && l->ended)
        return gw_fail(l->status != GW_OK ? l->status : GW_ERR_PEER, "%s",
                       l->status != GW_OK ? l->message : "this worker has left");
    if (end == NULL)
        return GW_PENDING;
    size_t n = (size_t)(end - l->letters);
    memcpy(line, l->letters, n);
    line[n] = '\0';
    l->len -= n + 1;
    memmove(l->letters, end + 1, l->len);
    return GW_OK;
}

gw_status gwg_link_take(gwg_link *l, char line[GWG_LINE_CAP])
{
    silence(l->to_member);
    pthread_mutex_lock(&l->lock);
    gw_status st = take(l, line);
    pthread_mutex_unlock(&l->lock);
    return st;
}

void gwg_link_ask(gwg_link *l, uint64_t view, double patience)
{
    pthread_mutex_lock(&l->lock);
    l->wishes.asks = true;
    l->wishes.view = view;
    l->wishes.patience = patience;
    pthread_mutex_unlock(&l->lock);
    ring(l->to_thread);
}

void gwg_link_report(gwg_link *l, const gw_group_progress *progress)
{
    pthread_mutex_lock(&l->lock);
    l->wishes.report++;
    l->wishes.progress = *progress;
    pthread_mutex_unlock(&l->lock);
    ring(l->to_thread);
}

/* ---- the thread's side -------------------------------------------------------------
 */

const gwg_self *gwg_link_self(const gwg_link *l)
{
    return l->self;
}

gwg_wishes gwg_link_wishes(gwg_link *l)
{
    pthread_mutex_lock(&l->lock);
    gwg_wishes w = l->wishes;
    pthread_mutex_unlock(&l->lock);
    return w;
}

void gwg_link_answered(gwg_link *l, uint64_t view)
{
    pthread_mutex_lock(&l->lock);
    if (l->wishes.view < view)
        l->wishes.asks = false;
    pthread_mutex_unlock(&l->lock);
}

static gw_status add(gwg_link *l, const char *line, size_t n)
{
    if (l->len + n > l->cap) {
        size_t cap = l->cap > 0 ? l->cap : 1024;
        while (cap < l->len + n)
            cap *= 2;
        if (cap > LETTERS_CAP)
            return gw_fail(GW_ERR_SPACE, "this worker does not read");
        char *more = realloc(l->letters, cap);
        if (more == NULL)
            return gw_fail(GW_ERR_NOMEM, "not enough memory for a view");
        l->letters = more;
        l->cap = cap;
    }
    memcpy(l->letters + l->len, line, n);
    l->len += n;
    return GW_OK;
}

gw_status gwg_link_bring(gwg_link *l, const char *format, ...)
{
    char line[GWG_LINE_CAP];
    va_list args;

    va_start(args, format);
    int n = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    size_t len = n < 0 ? 0 : n < (int)sizeof line - 1 ? (size_t)n : sizeof line - 2;
    line[len] = '\n';
    pthread_mutex_lock(&l->lock);
    gw_status st = add(l, line, len + 1);
    pthread_mutex_unlock(&l->lock);
    ring(l->to_member);
    return st;
}
