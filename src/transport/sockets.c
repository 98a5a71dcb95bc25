/* SPDX-License-Identifier: Apache-2.0
 *
 * sockets.c - a transport over stream sockets that the caller has connected, one to
 * each other worker. sockets.h says which file does what.
 *
 * A worker that ends normally sends a goodbye, and one that fails sends its reason to
 * all others. If a connection ends without either, that worker is gone. Every other
 * worker sees this itself, whichever worker it waits for. */
#define _GNU_SOURCE
#include "transport/sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "comm.h"

/* How long closing waits while nothing of what was sent leaves. */
#define CLOSE_SECONDS 5.0

/* How often a worker that pauses tries to say so, every millisecond. */
enum { PAUSE_TURNS = 200 };

/* ---- posting and testing ------------------------------------------------ */

static void enqueue(gwi_stream_queue *q, gwi_stream_op *op)
{
    op->next = NULL;
    *q->end = op;
    q->end = &op->next;
}

/* Every post begins a new time of waiting, in which no signs of life are due yet. */
static gw_status begin(gwi_streams *s)
{
    s->slept = 0;
    return !s->foreign ? GW_OK
                       : gw_fail(GW_ERR_ARG, "this comm belongs to the process that "
                                             "made it; a forked process cannot use it");
}

static gw_status streams_send(void *ctx, int to, const void *buf, size_t len,
                              gw_request *req)
{
    gwi_streams *s = ctx;
    gwi_stream_op *op = (gwi_stream_op *)(void *)req;

    GWI_TRY(begin(s));
    *op = (gwi_stream_op){
        .buf = (uint8_t *)(uintptr_t)buf, .len = len, .peer = to, .sends = true};
    enqueue(&s->peers[to].sends, op);
    return gwi_streams_send_on(s, to);
}

static gw_status streams_recv(void *ctx, int from, void *buf, size_t cap,
                              gw_request *req)
{
    gwi_streams *s = ctx;
    gwi_stream_op *op = (gwi_stream_op *)(void *)req;

    GWI_TRY(begin(s));
    *op = (gwi_stream_op){.buf = buf, .len = cap, .peer = from};
    enqueue(&s->peers[from].recvs, op);
    return GW_OK;
}

static gw_status streams_test(void *ctx, gw_request *req, size_t *len)
{
    gwi_streams *s = ctx;
    gwi_stream_op *op = (gwi_stream_op *)(void *)req;

    if (!op->over)
        GWI_TRY(op->sends ? gwi_streams_send_on(s, op->peer)
                          : gwi_streams_receive(s, op->peer));
    if (!op->over)
        return GW_PENDING;
    if (!op->sends)
        *len = op->got;
    return GW_OK;
}

/* ---- waiting ------------------------------------------------------------ */

/* Fills in what to wait for of all peers and returns how many connections they have. A
 * message nobody asked for yet stays where it is, and its peer is not looked at: it
 * would be ready all the time. */
static nfds_t fill_polls(gwi_streams *s)
{
    struct pollfd *at = s->polls;
    uint64_t len;

    for (int r = 0; r < s->workers; r++) {
        const gwi_stream_peer *p = &s->peers[r];
        gwi_stripes_ask(&p->io, at, !gwi_stream_parked(p, &len), p->full);
        for (int k = 0; p->ended && k < p->io.count; k++)
            at[k].fd = -1;
        at += p->io.count;
    }
    return (nfds_t)(at - s->polls);
}

/* Whether bytes are there that the socket does not show any more. */
static bool has_more(const gwi_stream_peer *p)
{
    uint64_t len;

    return p->io.count > 0 && !p->ended && gwi_stripes_unread(&p->io) > 0 &&
           !gwi_stream_parked(p, &len);
}

static gw_status sleep_once(gwi_streams *s, double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds,
                         .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};

    const struct pollfd *at = s->polls;

    for (int r = 0; r < s->workers; r++)
        if (has_more(&s->peers[r]))
            t = (struct timespec){0};
    if (ppoll(s->polls, fill_polls(s), &t, NULL) < 0)
        return GW_OK;
    /* Peers that nothing is expected of have a sign of life, a goodbye, a reason or
     * an end. */
    for (int r = 0; r < s->workers; at += s->peers[r++].io.count) {
        bool seen = gwi_stripes_seen(&s->peers[r].io, at);
        gwi_stream_flush(&s->peers[r]);
        if ((seen || has_more(&s->peers[r])) && s->peers[r].recvs.first == NULL)
            GWI_TRY(gwi_streams_receive(s, r));
    }
    return GW_OK;
}

/* That there is something to read is no progress: it may be signs of life only. What
 * the tests before this call have moved is. */
static gw_status streams_wait(void *ctx, double seconds)
{
    gwi_streams *s = ctx;
    double before = gwi_now(), now;

    GWI_TRY(sleep_once(s, seconds));
    now = gwi_now();
    GWI_TRY(gwi_streams_live(s, now - before));
    bool progress = gwi_streams_progress(s, now - before);
    return progress || now < s->others_until ? GW_OK : GW_PENDING;
}

static void streams_busy(void *ctx, double until)
{
    gwi_streams *s = ctx;

    s->linked = true;
    s->busy_until = until;
    for (int r = 0; until > 0 && r < s->workers; r++)
        gwi_stream_sign(s, &s->peers[r]);
}

/* Those whose sockets are full have more to read than a pause lasts, or hang. */
static int streams_pause(void *ctx, int tell)
{
    struct timespec nap = {.tv_nsec = 1000000};
    gwi_streams *s = ctx;
    int pauses = 0, untold = tell != 0;

    for (int r = 0; r < s->workers; r++) {
        s->peers[r].untold = s->peers[r].untold || tell != 0;
        pauses += s->peers[r].pauses && !s->peers[r].left;
    }
    for (int turn = 0; untold > 0 && turn < PAUSE_TURNS; turn++) {
        if (turn > 0)
            nanosleep(&nap, NULL);
        untold = 0;
        for (int r = 0; r < s->workers; r++) {
            gwi_stream_peer *p = &s->peers[r];
            gwi_stream_sign(s, p);
            gwi_stream_flush(p);
            untold += p->untold && p->io.count > 0 && !p->ended && !p->left;
        }
    }
    return pauses;
}

/* ---- who is gone, and the end ------------------------------------------- */

static int streams_lost(void *ctx)
{
    const gwi_streams *s = ctx;

    for (int r = 0; r < s->workers; r++)
        if (s->peers[r].io.count > 0 && s->peers[r].ended && !s->peers[r].left)
            return r;
    return -1;
}

static const char *streams_host(void *ctx, int rank)
{
    const gwi_streams *s = ctx;

    return s->peers[rank].host;
}

/* The others see the end once they have read what was sent before. */
static void end_sending(gwi_streams *s)
{
    for (int r = 0; r < s->workers; r++)
        gwi_stripes_shut(&s->peers[r].io);
}

static void streams_abort(void *ctx, const char *reason)
{
    gwi_streams *s = ctx;
    size_t len = strnlen(reason, GWI_REASON_LEN - 1);

    for (int r = 0; r < s->workers; r++)
        gwi_stream_say_last(&s->peers[r], GWI_FRAME_ABORT, reason, len);
    for (int r = 0; r < s->workers; r++)
        gwi_stream_flush(&s->peers[r]);
    end_sending(s);
    s->aborted = true;
}

/* Hands what streams have taken to their sockets, as long as something leaves. */
static void flush_all(gwi_streams *s)
{
    struct timespec pause = {.tv_nsec = 1000000};
    double since = gwi_now();

    for (size_t before = SIZE_MAX;; nanosleep(&pause, NULL)) {
        size_t unsent = 0;
        for (int r = 0; r < s->workers; r++) {
            gwi_stream_peer *p = &s->peers[r];
            gwi_stream_flush(p);
            unsent += p->ended ? 0 : gwi_stripes_unsent(&p->io);
        }
        if (unsent < before)
            since = gwi_now();
        if (unsent == 0 || gwi_now() - since > CLOSE_SECONDS)
            return;
        before = unsent;
    }
}

/* Waits until what was sent has arrived at the others' hosts: bytes that come for a
 * connection after it was closed, such as signs of life, reset it, and what has not
 * left by then is lost. As long as something leaves it goes on. */
static void let_leave(gwi_streams *s)
{
    struct timespec pause = {.tv_nsec = 1000000};
    double since = gwi_now();

    for (int before = INT_MAX;; nanosleep(&pause, NULL)) {
        int unsent = 0;
        for (int r = 0; r < s->workers; r++) {
            gwi_stripes_drain(&s->peers[r].io);
            unsent += gwi_stream_unsent(&s->peers[r]);
        }
        if (unsent < before)
            since = gwi_now();
        if (unsent == 0 || gwi_now() - since > CLOSE_SECONDS)
            return;
        before = unsent;
    }
}

static void streams_close(void *ctx)
{
    gwi_streams *s = ctx;

    gwi_streams_unguard(s);
    if (!s->aborted) {
        flush_all(s);
        for (int r = 0; r < s->workers; r++)
            gwi_stream_say_last(&s->peers[r], GWI_FRAME_GOODBYE, "", 0);
        flush_all(s);
        end_sending(s);
        let_leave(s);
    }
    for (int r = 0; r < s->workers; r++) {
        gwi_stripes_drain(&s->peers[r].io);
        gwi_stripes_close(&s->peers[r].io);
    }
    gwi_free(s);
}

static const gw_transport streams_table = {
    .struct_size = sizeof(gw_transport),
    .name = "sockets",
    .send = streams_send,
    .recv = streams_recv,
    .test = streams_test,
    .wait = streams_wait,
    .lost = streams_lost,
    .suspect = gwi_streams_suspect,
    .host = streams_host,
    .abort = streams_abort,
    .close = streams_close,
    .busy = streams_busy,
    .pause = streams_pause,
};

/* ---- making one --------------------------------------------------------- */

/* Small messages leave at once, and a host that vanished without a word is noticed
 * after some twenty seconds. Both fail on sockets that are not TCP, which need
 * neither. */
static void tune(int fd)
{
    int on = 1, idle = 10, interval = 3, count = 4;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

static void name_host(gwi_stream_peer *p, const char *host)
{
    snprintf(p->host, sizeof p->host, "%s", host != NULL ? host : "?");
}

/* Programs that this one starts do not get the sockets, either. */
static gw_status prepare_line(gwi_line *line, const gw_stream *io, int rank)
{
    int fd = io->fd;
    int flags = fcntl(fd, F_GETFL), own = fcntl(fd, F_GETFD);

    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 || own < 0 ||
        fcntl(fd, F_SETFD, own | FD_CLOEXEC) < 0)
        return gw_fail(GW_ERR_ARG, "cannot use descriptor %d for worker %d: %s", fd,
                       rank, strerror(errno));
    tune(fd);
    line->io = *io;
    return GW_OK;
}

static gw_status prepare(gwi_stream_peer *p, gwi_line *lines, const gw_stream *streams,
                         int count, int rank)
{
    for (int k = 0; k < count; k++)
        GWI_TRY(prepare_line(&lines[k], &streams[k], rank));
    p->io.lines = lines;
    p->io.count = count;
    p->sends.end = &p->sends.first;
    p->recvs.end = &p->recvs.first;
    p->heard_at = gwi_now();
    return GW_OK;
}

/* One piece of memory: the streams, peers[workers], lines[lines], polls[lines]. */
static gwi_streams *new_streams(int rank, int workers, size_t lines)
{
    size_t p = (size_t)workers;
    gwi_streams *s = gwi_calloc(1, sizeof *s + p * sizeof *s->peers +
                                       lines * (sizeof(gwi_line) + sizeof *s->polls));

    if (s == NULL)
        return NULL;
    s->rank = rank;
    s->workers = workers;
    s->born = gwi_now();
    s->peers = (gwi_stream_peer *)(s + 1);
    s->polls = (struct pollfd *)((gwi_line *)(s->peers + p) + lines);
    return s;
}

static gw_status new_comm(gw_comm **out, gwi_streams *s, const gw_comm_options *opt)
{
    GWI_TRY(gw_comm_new(out, &streams_table, s, s->rank, s->workers, opt));
    s->comm = *out;
    s->timeout = (*out)->timeout;
    (*out)->head_len = GWI_HEAD_LEN;
    gw_status st = gwi_streams_guard(s);
    if (st != GW_OK) {
        (*out)->table.close = NULL; /* the sockets stay the caller's */
        gw_comm_free(*out);
        *out = NULL;
    }
    return st;
}

/* Returns how many connections there are to all others; 0: counts are wrong. */
static size_t count_lines(const int *counts, int rank, int workers)
{
    size_t sum = 0;

    for (int r = 0; r < workers; r++) {
        if (r != rank && (counts[r] < 1 || counts[r] > GW_MOST_STRIPES))
            return 0;
        sum += r != rank ? (size_t)counts[r] : 0;
    }
    return workers > 1 ? sum : 1;
}

gw_status gw_comm_striped(gw_comm **out, const gw_stream *const *streams,
                          const int *counts, const char *const *hosts, int rank,
                          int workers, const gw_comm_options *opt)
{
    gw_status st = GW_OK;
    size_t lines;
    gwi_streams *s;

    *out = NULL;
    if (streams == NULL || counts == NULL || workers < 1 || rank < 0 || rank >= workers)
        return gw_fail(GW_ERR_ARG, "invalid rank %d of %d workers, or NULL", rank,
                       workers);
    lines = count_lines(counts, rank, workers);
    if (lines == 0)
        return gw_fail(GW_ERR_ARG, "there are 1 to %d connections to each worker",
                       GW_MOST_STRIPES);
    s = new_streams(rank, workers, lines);
    if (s == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory for %zu sockets", lines);
    gwi_line *at = (gwi_line *)(s->peers + workers);
    for (int r = 0; st == GW_OK && r < workers; r++) {
        name_host(&s->peers[r], hosts != NULL ? hosts[r] : NULL);
        if (r == rank)
            continue;
        st = prepare(&s->peers[r], at, streams[r], counts[r], r);
        at += counts[r];
    }
    if (st == GW_OK)
        st = new_comm(out, s, opt);
    if (st != GW_OK)
        gwi_free(s);
    return st;
}

gw_status gw_comm_streams(gw_comm **out, const gw_stream *streams,
                          const char *const *hosts, int rank, int workers,
                          const gw_comm_options *opt)
{
    size_t count = workers > 0 ? (size_t)workers : 1;
    const gw_stream **each;
    gw_status st;

    *out = NULL;
    if (streams == NULL)
        return gw_fail(GW_ERR_ARG, "streams is NULL");
    each = gwi_calloc(count, sizeof *each + sizeof(int));
    if (each == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory for %zu sockets", count);
    int *counts = (int *)(each + count);
    for (size_t r = 0; r < count; r++) {
        each[r] = &streams[r];
        counts[r] = 1;
    }
    st = gw_comm_striped(out, each, counts, hosts, rank, workers, opt);
    gwi_free((void *)each);
    return st;
}

gw_status gw_comm_sockets(gw_comm **out, const int *fds, const char *const *hosts,
                          int rank, int workers, const gw_comm_options *opt)
{
    gw_stream *streams;
    gw_status st;

    *out = NULL;
    if (fds == NULL || workers < 1 || rank < 0 || rank >= workers)
        return gw_fail(GW_ERR_ARG, "invalid rank %d of %d workers, or fds is NULL",
                       rank, workers);
    streams = gwi_calloc((size_t)workers, sizeof *streams);
    if (streams == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory for %d sockets", workers);
    for (int r = 0; r < workers; r++)
        streams[r] = gwi_stream_plain(fds[r]);
    st = gw_comm_streams(out, streams, hosts, rank, workers, opt);
    gwi_free(streams);
    return st;
}
