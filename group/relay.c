/* SPDX-License-Identifier: Apache-2.0
 *
 * relay.c - passes bytes on between two members that can only call out. */
#define _GNU_SOURCE
#include "relay.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "address.h"

enum { FLOW_CAP = 1 << 16, NAP_MS = 100 };

/* What one side has sent, and the other has not taken yet. */
typedef struct flow {
    size_t at, len;
    bool ended; /* nothing more comes */
    bool deaf;  /* nothing more is taken */
    unsigned char bytes[FLOW_CAP];
} flow;

typedef struct pipe_pair {
    gwg_pair who; /* zeros: another pair takes its place */
    int fd[2];
    flow flow[2]; /* flow[i] goes from fd[i] to the other */
} pipe_pair;

typedef struct caller {
    gwg_talk talk;
    gwg_pair who;
    double since;
} caller;

struct gwg_relay {
    caller *callers; /* that wait; only the thread that takes callers in sees them */
    int caller_count;
    pthread_t thread; /* moves bytes */
    bool runs;
    int wake[2]; /* a pipe: a byte says that there is something new */

    pthread_mutex_t lock; /* of all that follows */
    pipe_pair *pairs[GWG_MOST_PAIRS];
    int count;
    double end_at; /* when it must end; 0: not yet */
    struct pollfd polls[2 * GWG_MOST_PAIRS + 1];
    gwg_relay *next; /* of all relays of the process */
};

static void end_pair(pipe_pair *p)
{
    close(p->fd[0]);
    close(p->fd[1]);
    free(p);
}

/* ---- forks -------------------------------------------------------------------------
 */

/* A forked child, such as one that loads data, must not keep pairs open after the
 * death of its parent. */
static gwg_relay *all_relays;
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
    pthread_mutex_lock(&all_lock);
    for (gwg_relay *r = all_relays; r != NULL; r = r->next)
        pthread_mutex_lock(&r->lock);
}

static void after_fork(void)
{
    for (gwg_relay *r = all_relays; r != NULL; r = r->next)
        pthread_mutex_unlock(&r->lock);
    pthread_mutex_unlock(&all_lock);
}

/* The child has no thread to move bytes, and nothing left to close a second time, when
 * it forks itself. */
static void in_child(void)
{
    for (gwg_relay *r = all_relays; r != NULL; r = r->next) {
        while (r->count > 0)
            end_pair(r->pairs[--r->count]);
        r->runs = false;
    }
    after_fork();
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork, in_child);
}

static void enlist(gwg_relay *r)
{
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&all_lock);
    r->next = all_relays;
    all_relays = r;
    pthread_mutex_unlock(&all_lock);
}

static void strike_off(gwg_relay *r)
{
    gwg_relay **at = &all_relays;

    pthread_mutex_lock(&all_lock);
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    pthread_mutex_unlock(&all_lock);
}

/* ---- bytes -------------------------------------------------------------------------
 */

static bool must_wait(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

/* Fills an empty flow. Returns whether there is something to pass on. */
static bool fill(flow *f, int from)
{
    ssize_t n = recv(from, f->bytes, sizeof f->bytes, 0);

    if (n < 0 && must_wait())
        return false;
    f->at = 0;
    f->len = n > 0 ? (size_t)n : 0;
    f->ended = n <= 0;
    return n > 0;
}

/* Returns whether all of it is gone. Whoever takes nothing more may still have sent
 * something. */
static bool drain(flow *f, int to)
{
    while (f->len > 0) {
        ssize_t n = send(to, f->bytes + f->at, f->len, MSG_NOSIGNAL);
        if (n <= 0 && must_wait())
            return false;
        if (n <= 0) {
            f->deaf = true;
            return false;
        }
        f->at += (size_t)n;
        f->len -= (size_t)n;
    }
    return true;
}

static bool is_over(const flow *f)
{
    return f->deaf || (f->ended && f->len == 0);
}

/* Moves what can be moved, but not for long, so that every pair gets a turn. */
static void move(flow *f, int from, int to)
{
    for (int i = 0; i < 4 && !is_over(f); i++)
        if ((f->len == 0 && !fill(f, from)) || !drain(f, to))
            break;
    /* The end is passed on like a byte. */
    if (f->ended && is_over(f))
        shutdown(to, SHUT_WR);
}

static void move_pair(pipe_pair *p)
{
    for (int i = 0; i < 2; i++)
        if (!is_over(&p->flow[i]))
            move(&p->flow[i], p->fd[i], p->fd[1 - i]);
}

/* ---- the thread --------------------------------------------------------------------
 */

static struct pollfd poll_of(const pipe_pair *p, int i)
{
    const flow *in = &p->flow[i], *out = &p->flow[1 - i];
    short events = (short)((in->len == 0 && !is_over(in) ? POLLIN : 0) |
                           (out->len > 0 && !is_over(out) ? POLLOUT : 0));

    /* A socket that is waited for in no way would still report its end for ever. */
    return (struct pollfd){.fd = events != 0 ? p->fd[i] : -1, .events = events};
}

static nfds_t fill_polls(gwg_relay *r)
{
    nfds_t n = 0;

    r->polls[n++] = (struct pollfd){.fd = r->wake[0], .events = POLLIN};
    for (int i = 0; i < r->count; i++) {
        r->polls[n++] = poll_of(r->pairs[i], 0);
        r->polls[n++] = poll_of(r->pairs[i], 1);
    }
    return n;
}

/* Only this thread takes pairs away, so those that were polled are still the first. */
static void move_all(gwg_relay *r, nfds_t polled)
{
    char bytes[64];
    int kept = 0;

    while (read(r->wake[0], bytes, sizeof bytes) > 0)
        continue;
    for (int i = 0; i < r->count; i++) {
        pipe_pair *p = r->pairs[i];
        nfds_t at = 1 + 2 * (nfds_t)i;
        if (at >= polled || r->polls[at].revents != 0 || r->polls[at + 1].revents != 0)
            move_pair(p);
        if (is_over(&p->flow[0]) && is_over(&p->flow[1]))
            end_pair(p);
        else
            r->pairs[kept++] = p;
    }
    r->count = kept;
}

static void *run(void *arg)
{
    gwg_relay *r = arg;

    pthread_mutex_lock(&r->lock);
    while (r->end_at == 0 || (r->count > 0 && gwg_now() < r->end_at)) {
        nfds_t n = fill_polls(r);
        int wait = r->end_at > 0 ? NAP_MS : -1;
        pthread_mutex_unlock(&r->lock);
        poll(r->polls, n, wait);
        pthread_mutex_lock(&r->lock);
        move_all(r, n);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

static gw_status start_thread(gwg_relay *r)
{
    sigset_t all, old;

    if (r->runs)
        return GW_OK;
    /* Signals are for the caller's threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    int code = pthread_create(&r->thread, NULL, run, r);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    r->runs = code == 0;
    return r->runs
               ? GW_OK
               : gw_fail(GW_ERR_SYSTEM, "cannot start a thread: %s", strerror(code));
}

static void wake_up(gwg_relay *r)
{
    (void)!write(r->wake[1], "", 1);
}

/* ---- opening and closing -----------------------------------------------------------
 */

gw_status gwg_relay_check(int pairs)
{
    struct rlimit limit;
    rlim_t needed = 2 * (rlim_t)pairs;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || needed < limit.rlim_cur)
        return GW_OK;
    return gw_fail(GW_ERR_SYSTEM,
                   "the hub of workers that only call out needs more than %llu open "
                   "files, and may have %llu: raise 'ulimit -n'",
                   (unsigned long long)needed, (unsigned long long)limit.rlim_cur);
}

gw_status gwg_relay_new(gwg_relay **out)
{
    gwg_relay *r = calloc(1, sizeof *r);

    *out = NULL;
    if (r != NULL)
        r->callers = calloc(GWG_MOST_PAIRS, sizeof *r->callers);
    if (r == NULL || r->callers == NULL) {
        free(r);
        return gw_fail(GW_ERR_NOMEM, "not enough memory to pass messages on");
    }
    if (pipe2(r->wake, O_CLOEXEC | O_NONBLOCK) != 0) {
        free(r->callers);
        free(r);
        return gw_fail(GW_ERR_SYSTEM, "cannot open a pipe: %s", strerror(errno));
    }
    pthread_mutex_init(&r->lock, NULL);
    enlist(r);
    *out = r;
    return GW_OK;
}

void gwg_relay_free(gwg_relay *r, double seconds)
{
    if (r == NULL)
        return;
    gwg_relay_forget(r, -1);
    pthread_mutex_lock(&r->lock);
    r->end_at = gwg_now() + seconds;
    pthread_mutex_unlock(&r->lock);
    wake_up(r);
    if (r->runs)
        pthread_join(r->thread, NULL);
    strike_off(r);
    for (int i = 0; i < r->count; i++)
        end_pair(r->pairs[i]);
    close(r->wake[0]);
    close(r->wake[1]);
    pthread_mutex_destroy(&r->lock);
    free(r->callers);
    free(r);
}

/* ---- callers -----------------------------------------------------------------------
 */

gw_status gwg_pair_read(const char *line, gwg_pair *out)
{
    int used = 0;

    if (sscanf(line, "relay %" SCNu64 " %" SCNu64 " %" SCNu64 "%n", &out->view,
               &out->from, &out->to, &used) != 3 ||
        line[used] != '\0' || out->from == out->to)
        return gw_fail(GW_ERR_DATA, "this is not how members ask a hub");
    return GW_OK;
}

static void drop_caller(gwg_relay *r, int i)
{
    gwg_talk_end(&r->callers[i].talk);
    r->callers[i] = r->callers[--r->caller_count];
}

void gwg_relay_forget(gwg_relay *r, double seconds)
{
    double now = gwg_now();

    for (int i = r->caller_count - 1; i >= 0; i--)
        if (now - r->callers[i].since > seconds)
            drop_caller(r, i);
}

/* Says that the other one is there, and takes the bare socket out of a talk, which ends
 * in any case. Returns it, or -1. */
static int say_relayed(gwg_talk *t)
{
    int fd = -1;

    /* A connection on which nothing was sent yet takes a line at once. */
    if (t->in_len == 0 && gwg_talk_put(t, "relayed") == GW_OK &&
        gwg_talk_send(t) == GW_OK && t->out_len == 0) {
        fd = gwg_conn_detach(t->conn);
        t->conn = NULL;
    }
    gwg_talk_end(t);
    return fd;
}

static gw_status add_pair(gwg_relay *r, pipe_pair *p)
{
    gw_status st = start_thread(r);

    pthread_mutex_lock(&r->lock);
    if (st == GW_OK && r->count < GWG_MOST_PAIRS)
        r->pairs[r->count++] = p;
    else if (st == GW_OK)
        st = gw_fail(GW_ERR_SPACE, "a hub serves %d pairs", GWG_MOST_PAIRS);
    pthread_mutex_unlock(&r->lock);
    wake_up(r);
    return st;
}

/* Makes a pair of two callers, whose talks end. */
static gw_status connect_two(gwg_relay *r, gwg_talk *a, gwg_talk *b,
                             const gwg_pair *who)
{
    pipe_pair *p = calloc(1, sizeof *p);
    gw_status st = GW_ERR_PEER;

    if (p == NULL) {
        gwg_talk_end(a);
        gwg_talk_end(b);
        return gw_fail(GW_ERR_NOMEM, "not enough memory to pass messages on");
    }
    p->who = *who;
    p->fd[0] = say_relayed(a);
    p->fd[1] = say_relayed(b);
    if (p->fd[0] >= 0 && p->fd[1] >= 0)
        st = add_pair(r, p);
    if (st == GW_OK)
        return GW_OK;
    for (int i = 0; i < 2; i++)
        if (p->fd[i] >= 0)
            close(p->fd[i]);
    free(p);
    return st == GW_ERR_PEER ? gw_fail(st, "a caller is gone") : st;
}

static int find_caller(const gwg_relay *r, uint64_t view, uint64_t from, uint64_t to)
{
    for (int i = 0; i < r->caller_count; i++) {
        const gwg_pair *w = &r->callers[i].who;
        if (w->view == view && w->from == from && w->to == to)
            return i;
    }
    return -1;
}

static bool are_same(const gwg_pair *a, const gwg_pair *b)
{
    return a->view == b->view && ((a->from == b->from && a->to == b->to) ||
                                  (a->from == b->to && a->to == b->from));
}

/* Ends a pair of which one calls again: it has lost its connection, and the other one
 * must hear of that. Only the thread takes pairs away; it sees two ends now. */
static void replace_pair(gwg_relay *r, const gwg_pair *who)
{
    pthread_mutex_lock(&r->lock);
    for (int i = 0; i < r->count; i++)
        if (are_same(&r->pairs[i]->who, who)) {
            r->pairs[i]->who = (gwg_pair){0};
            shutdown(r->pairs[i]->fd[0], SHUT_RDWR);
            shutdown(r->pairs[i]->fd[1], SHUT_RDWR);
        }
    pthread_mutex_unlock(&r->lock);
}

gw_status gwg_relay_take(gwg_relay *r, gwg_talk *talk, const gwg_pair *who)
{
    int again = find_caller(r, who->view, who->from, who->to);
    int other = find_caller(r, who->view, who->to, who->from);

    replace_pair(r, who);
    if (other >= 0) {
        gwg_talk first = r->callers[other].talk;
        r->callers[other] = r->callers[--r->caller_count];
        gw_status st = connect_two(r, &first, talk, who);
        return st;
    }
    /* One that calls again has lost its first connection. */
    if (again >= 0)
        drop_caller(r, again);
    if (r->caller_count == GWG_MOST_PAIRS)
        return gw_fail(GW_ERR_SPACE, "a hub serves %d pairs", GWG_MOST_PAIRS);
    r->callers[r->caller_count++] =
        (caller){.talk = *talk, .who = *who, .since = gwg_now()};
    *talk = (gwg_talk){0};
    return GW_OK;
}

int gwg_relay_pairs(gwg_relay *r, uint64_t view)
{
    int count = 0;

    pthread_mutex_lock(&r->lock);
    for (int i = 0; i < r->count; i++)
        count += r->pairs[i]->who.view == view;
    pthread_mutex_unlock(&r->lock);
    return count;
}
