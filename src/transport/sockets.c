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

/* What to wait for of a peer. A message nobody asked for yet stays where it is, and
 * its peer is not looked at: it would be ready all the time. */
static struct pollfd interest(const gwi_stream_peer *p)
{
    uint64_t len;
    bool parked = gwi_stream_parked(p, &len);
    bool leaves = p->full || (p->fd >= 0 && p->io.unsent(p->io.ctx) > 0);
    short events = (short)((parked ? 0 : POLLIN) | (leaves ? POLLOUT : 0));

    return (struct pollfd){.fd = p->ended || events == 0 ? -1 : p->fd,
                           .events = events};
}

/* Whether bytes are there that the socket does not show any more. */
static bool has_more(const gwi_stream_peer *p)
{
    uint64_t len;

    return p->fd >= 0 && !p->ended && p->io.unread(p->io.ctx) > 0 &&
           !gwi_stream_parked(p, &len);
}

static gw_status sleep_once(gwi_streams *s, double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds,
                         .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};

    for (int r = 0; r < s->workers; r++) {
        s->polls[r] = interest(&s->peers[r]);
        if (has_more(&s->peers[r]))
            t = (struct timespec){0};
    }
    if (ppoll(s->polls, (nfds_t)s->workers, &t, NULL) < 0)
        return GW_OK;
    /* Peers that nothing is expected of have a sign of life, a goodbye, a reason or
     * an end. */
    for (int r = 0; r < s->workers; r++) {
        gwi_stream_flush(&s->peers[r]);
        if ((s->polls[r].revents != 0 || has_more(&s->peers[r])) &&
            s->peers[r].recvs.first == NULL)
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

/* ---- who is gone, and the end ------------------------------------------- */

static int streams_lost(void *ctx)
{
    const gwi_streams *s = ctx;

    for (int r = 0; r < s->workers; r++)
        if (s->peers[r].fd >= 0 && s->peers[r].ended && !s->peers[r].left)
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
        if (s->peers[r].fd >= 0)
            shutdown(s->peers[r].fd, SHUT_WR);
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

/* Reads what is left: closing a socket with unread bytes would make the other end
 * lose those it has not read. */
static void drain(int fd)
{
    char rest[4096];

    for (int i = 0; i < 64 && recv(fd, rest, sizeof rest, 0) > 0; i++)
        ;
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
            unsent += p->fd >= 0 && !p->ended ? p->io.unsent(p->io.ctx) : 0;
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
            if (s->peers[r].fd >= 0)
                drain(s->peers[r].fd);
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
        if (s->peers[r].fd < 0)
            continue;
        drain(s->peers[r].fd);
        s->peers[r].io.release(s->peers[r].io.ctx);
        close(s->peers[r].fd);
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
static gw_status prepare(gwi_stream_peer *p, const gw_stream *io, int rank)
{
    int fd = io->fd;
    int flags = fcntl(fd, F_GETFL), own = fcntl(fd, F_GETFD);

    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 || own < 0 ||
        fcntl(fd, F_SETFD, own | FD_CLOEXEC) < 0)
        return gw_fail(GW_ERR_ARG, "cannot use descriptor %d for worker %d: %s", fd,
                       rank, strerror(errno));
    tune(fd);
    p->fd = fd;
    p->io = *io;
    p->sends.end = &p->sends.first;
    p->recvs.end = &p->recvs.first;
    p->heard_at = gwi_now();
    return GW_OK;
}

static gwi_streams *new_streams(int rank, int workers)
{
    size_t p = (size_t)workers;
    gwi_streams *s =
        gwi_calloc(1, sizeof *s + p * (sizeof *s->peers + sizeof *s->polls));

    if (s == NULL)
        return NULL;
    s->rank = rank;
    s->workers = workers;
    s->born = gwi_now();
    s->peers = (gwi_stream_peer *)(s + 1);
    s->polls = (struct pollfd *)(s->peers + p);
    for (int r = 0; r < workers; r++)
        s->peers[r].fd = -1;
    return s;
}

static gw_status new_comm(gw_comm **out, gwi_streams *s, const gw_comm_options *opt)
{
    GWI_TRY(gw_comm_new(out, &streams_table, s, s->rank, s->workers, opt));
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

gw_status gw_comm_streams(gw_comm **out, const gw_stream *streams,
                          const char *const *hosts, int rank, int workers,
                          const gw_comm_options *opt)
{
    gw_status st = GW_OK;
    gwi_streams *s;

    *out = NULL;
    if (streams == NULL || workers < 1 || rank < 0 || rank >= workers)
        return gw_fail(GW_ERR_ARG, "invalid rank %d of %d workers, or NULL", rank,
                       workers);
    s = new_streams(rank, workers);
    if (s == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory for %d sockets", workers);
    for (int r = 0; st == GW_OK && r < workers; r++) {
        name_host(&s->peers[r], hosts != NULL ? hosts[r] : NULL);
        if (r != rank)
            st = prepare(&s->peers[r], &streams[r], r);
    }
    if (st == GW_OK)
        st = new_comm(out, s, opt);
    if (st != GW_OK)
        gwi_free(s);
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
