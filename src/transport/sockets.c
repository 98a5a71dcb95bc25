/* SPDX-License-Identifier: Apache-2.0
 *
 * sockets.c - a transport over stream sockets that the caller has connected, one to
 * each other worker.
 *
 *     frame:  8 bytes, little-endian: length (7 bytes), kind (the highest byte);
 *             then as many bytes as the length says
 *
 * A worker that ends in order says goodbye; one that fails sends its reason to all.
 * A connection that ends without either is a worker that is gone, and every other
 * one sees that by itself, whoever it waits for. */
#define _GNU_SOURCE
#include "comm.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEAD_LEN = 8, REASON_LEN = 512, HOST_LEN = 64 };
enum { KIND_MESSAGE = 0, KIND_GOODBYE = 1, KIND_ABORT = 2 };

/* What is kept in a gw_request. */
typedef struct stream_op {
    struct stream_op *next; /* of the same peer and direction */
    uint8_t *buf;
    size_t len; /* of the message to send, or the room for one */
    size_t got; /* length of the message received */
    int peer;
    bool sends, over;
} stream_op;

_Static_assert(sizeof(stream_op) <= sizeof(gw_request), "an op fits a request");

typedef struct stream_queue {
    stream_op *first, **end;
} stream_queue;

typedef struct stream_peer {
    int fd;
    stream_queue sends, recvs;
    uint8_t out_head[HEAD_LEN], in_head[HEAD_LEN];
    size_t out_done, in_done; /* bytes of the current frame moved, head included */
    bool full;                /* the last send could not go on */
    bool ended;               /* nothing more will come */
    bool left;                /* it said goodbye before */
    char reason[REASON_LEN];  /* why it failed, as it tells */
    char host[HOST_LEN];
} stream_peer;

typedef struct streams {
    int rank, workers;
    bool aborted;
    stream_peer *peers;   /* [workers] */
    struct pollfd *polls; /* [workers] */
} streams;

/* ---- frames ------------------------------------------------------------- */

static void put_head(uint8_t head[HEAD_LEN], size_t len, int kind)
{
    for (int i = 0; i < HEAD_LEN - 1; i++)
        head[i] = (uint8_t)((uint64_t)len >> 8 * i);
    head[HEAD_LEN - 1] = (uint8_t)kind;
}

static uint64_t head_len(const uint8_t head[HEAD_LEN])
{
    uint64_t len = 0;

    for (int i = HEAD_LEN - 2; i >= 0; i--)
        len = len << 8 | head[i];
    return len;
}

static void enqueue(stream_queue *q, stream_op *op)
{
    op->next = NULL;
    *q->end = op;
    q->end = &op->next;
}

static void finish_first(stream_queue *q)
{
    stream_op *op = q->first;

    q->first = op->next;
    if (q->first == NULL)
        q->end = &q->first;
    op->over = true;
}

static bool would_block(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

static gw_status fail_gone(streams *s, int rank)
{
    stream_peer *p = &s->peers[rank];

    if (p->reason[0] != 0)
        return gw_fail(GW_ERR_PEER, "%s", p->reason);
    return gw_fail(GW_ERR_PEER, "worker %d on host %s %s", rank, p->host,
                   p->left ? "has ended" : "is gone");
}

/* ---- receiving ---------------------------------------------------------- */

/* Reads up to len bytes; 0 if none are there, or none will come (ended is set). */
static size_t take(stream_peer *p, void *to, size_t len)
{
    ssize_t n = recv(p->fd, to, len, 0);

    if (n > 0)
        return (size_t)n;
    if (n == 0 || !would_block())
        p->ended = true;
    return 0;
}

/* Reads on in a frame of len bytes that goes to `to`; true once it is complete. */
static bool take_body(stream_peer *p, void *to, size_t len)
{
    while (p->in_done < HEAD_LEN + len) {
        size_t at = p->in_done - HEAD_LEN;
        size_t n = take(p, (uint8_t *)to + at, len - at);
        if (n == 0)
            return false;
        p->in_done += n;
    }
    p->in_done = 0;
    return true;
}

static bool take_head(stream_peer *p)
{
    while (p->in_done < HEAD_LEN) {
        size_t n = take(p, p->in_head + p->in_done, HEAD_LEN - p->in_done);
        if (n == 0)
            return false;
        p->in_done += n;
    }
    return true;
}

static gw_status take_message(stream_peer *p, int rank, bool *more)
{
    uint64_t len = head_len(p->in_head);
    stream_op *op = p->recvs.first;

    if (op == NULL)
        return GW_OK;
    if (len > op->len)
        return gw_fail(GW_ERR_DATA,
                       "worker %d sent %llu bytes where at most %zu were due", rank,
                       (unsigned long long)len, op->len);
    if (take_body(p, op->buf, (size_t)len)) {
        op->got = (size_t)len;
        finish_first(&p->recvs);
        *more = true;
    }
    return GW_OK;
}

/* One frame, or what there is of it; *more says whether to go on. */
static gw_status take_frame(stream_peer *p, int rank, bool *more)
{
    uint64_t len;

    *more = false;
    if (!take_head(p))
        return GW_OK;
    len = head_len(p->in_head);
    switch (p->in_head[HEAD_LEN - 1]) {
    case KIND_MESSAGE:
        return take_message(p, rank, more);
    case KIND_GOODBYE:
        p->left = true;
        p->in_done = 0;
        *more = true;
        return GW_OK;
    case KIND_ABORT:
        if (len < REASON_LEN) {
            p->ended = take_body(p, p->reason, (size_t)len) || p->ended;
            return GW_OK;
        }
        break;
    default:
        break;
    }
    p->ended = true;
    return gw_fail(GW_ERR_DATA, "worker %d sent what is no frame of gradwire's", rank);
}

/* Takes what has come from a peer, as far as it was asked for. */
static gw_status advance_recvs(streams *s, int rank)
{
    stream_peer *p = &s->peers[rank];

    for (bool more = true; more && !p->ended;)
        GWI_TRY(take_frame(p, rank, &more));
    if (p->ended && (p->recvs.first != NULL || p->reason[0] != 0))
        return fail_gone(s, rank);
    return GW_OK;
}

/* ---- sending ------------------------------------------------------------ */

static gw_status advance_sends(streams *s, int rank)
{
    stream_peer *p = &s->peers[rank];

    p->full = false;
    for (stream_op *op = p->sends.first; op != NULL; op = p->sends.first) {
        put_head(p->out_head, op->len, KIND_MESSAGE);
        bool in_head = p->out_done < HEAD_LEN;
        size_t at = in_head ? 0 : p->out_done - HEAD_LEN;
        struct iovec parts[2] = {
            {p->out_head + p->out_done, in_head ? HEAD_LEN - p->out_done : 0},
            {op->buf + at, op->len - at}};
        struct msghdr message = {.msg_iov = in_head ? parts : parts + 1,
                                 .msg_iovlen = in_head ? 2 : 1};
        ssize_t n = sendmsg(p->fd, &message, MSG_NOSIGNAL);
        if (n < 0 && would_block()) {
            p->full = true;
            return GW_OK;
        }
        if (n < 0) {
            /* Why it closed its end may be there to be read. */
            GWI_TRY(advance_recvs(s, rank));
            p->ended = true;
            return fail_gone(s, rank);
        }
        p->out_done += (size_t)n;
        if (p->out_done == HEAD_LEN + op->len) {
            p->out_done = 0;
            finish_first(&p->sends);
        }
    }
    return GW_OK;
}

/* ---- the table ---------------------------------------------------------- */

static gw_status streams_send(void *ctx, int to, const void *buf, size_t len,
                              gw_request *req)
{
    streams *s = ctx;
    stream_op *op = (stream_op *)(void *)req;

    *op = (stream_op){
        .buf = (uint8_t *)(uintptr_t)buf, .len = len, .peer = to, .sends = true};
    enqueue(&s->peers[to].sends, op);
    return advance_sends(s, to);
}

static gw_status streams_recv(void *ctx, int from, void *buf, size_t cap,
                              gw_request *req)
{
    streams *s = ctx;
    stream_op *op = (stream_op *)(void *)req;

    *op = (stream_op){.buf = buf, .len = cap, .peer = from};
    enqueue(&s->peers[from].recvs, op);
    return GW_OK;
}

static gw_status streams_test(void *ctx, gw_request *req, size_t *len)
{
    streams *s = ctx;
    stream_op *op = (stream_op *)(void *)req;

    if (!op->over)
        GWI_TRY(op->sends ? advance_sends(s, op->peer) : advance_recvs(s, op->peer));
    if (!op->over)
        return GW_PENDING;
    if (!op->sends)
        *len = op->got;
    return GW_OK;
}

/* What to wait for of a peer. A message nobody asked for yet stays where it is, and
 * its peer is not looked at: it would be ready all the time. */
static struct pollfd interest(const stream_peer *p)
{
    bool parked = p->in_done >= HEAD_LEN && p->recvs.first == NULL;
    short events = (short)((parked ? 0 : POLLIN) | (p->full ? POLLOUT : 0));

    return (struct pollfd){.fd = p->ended || events == 0 ? -1 : p->fd,
                           .events = events};
}

static gw_status streams_wait(void *ctx, double seconds)
{
    streams *s = ctx;
    struct timespec t = {.tv_sec = (time_t)seconds,
                         .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};

    for (int r = 0; r < s->workers; r++)
        s->polls[r] = interest(&s->peers[r]);
    if (ppoll(s->polls, (nfds_t)s->workers, &t, NULL) <= 0)
        return GW_PENDING;
    /* Peers that nothing is expected of have a goodbye, a reason or an end. */
    for (int r = 0; r < s->workers; r++)
        if (s->polls[r].revents != 0 && s->peers[r].recvs.first == NULL)
            GWI_TRY(advance_recvs(s, r));
    return GW_OK;
}

static int streams_lost(void *ctx)
{
    const streams *s = ctx;

    for (int r = 0; r < s->workers; r++)
        if (s->peers[r].fd >= 0 && s->peers[r].ended && !s->peers[r].left)
            return r;
    return -1;
}

static const char *streams_host(void *ctx, int rank)
{
    const streams *s = ctx;

    return s->peers[rank].host;
}

/* Sends a last frame if none is under way, and ends the connection for sending. What
 * does not fit into the socket's buffer is not sent: nothing may block here. */
static void say_last(stream_peer *p, int kind, const char *text, size_t len)
{
    uint8_t frame[HEAD_LEN + REASON_LEN];

    if (p->fd < 0)
        return;
    put_head(frame, len, kind);
    memcpy(frame + HEAD_LEN, text, len);
    if (p->out_done == 0)
        (void)!send(p->fd, frame, HEAD_LEN + len, MSG_NOSIGNAL);
    shutdown(p->fd, SHUT_WR);
}

static void streams_abort(void *ctx, const char *reason)
{
    streams *s = ctx;
    size_t len = strnlen(reason, REASON_LEN - 1);

    for (int r = 0; r < s->workers; r++)
        say_last(&s->peers[r], KIND_ABORT, reason, len);
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

static void streams_close(void *ctx)
{
    streams *s = ctx;

    for (int r = 0; r < s->workers; r++) {
        stream_peer *p = &s->peers[r];
        if (p->fd < 0)
            continue;
        if (!s->aborted)
            say_last(p, KIND_GOODBYE, "", 0);
        drain(p->fd);
        close(p->fd);
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
    .host = streams_host,
    .abort = streams_abort,
    .close = streams_close,
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

static gw_status prepare(stream_peer *p, int fd, const char *host, int rank)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return gw_fail(GW_ERR_ARG, "descriptor %d for worker %d: %s", fd, rank,
                       strerror(errno));
    tune(fd);
    p->fd = fd;
    p->sends.end = &p->sends.first;
    p->recvs.end = &p->recvs.first;
    snprintf(p->host, sizeof p->host, "%s", host != NULL ? host : "?");
    return GW_OK;
}

gw_status gw_comm_sockets(gw_comm **out, const int *fds, const char *const *hosts,
                          int rank, int workers, const gw_comm_options *opt)
{
    gw_status st = GW_OK;
    streams *s;

    *out = NULL;
    if (fds == NULL || workers < 1 || rank < 0 || rank >= workers)
        return gw_fail(GW_ERR_ARG, "rank %d is not one of %d workers, or no sockets",
                       rank, workers);
    size_t p = (size_t)workers;
    s = gwi_calloc(1, sizeof *s + p * (sizeof *s->peers + sizeof *s->polls));
    if (s == NULL)
        return gw_fail(GW_ERR_NOMEM, "no memory for %d sockets", workers);
    s->rank = rank;
    s->workers = workers;
    s->peers = (stream_peer *)(s + 1);
    s->polls = (struct pollfd *)(s->peers + p);
    for (int r = 0; r < workers; r++)
        s->peers[r].fd = -1;
    for (int r = 0; st == GW_OK && r < workers; r++)
        if (r != rank)
            st = prepare(&s->peers[r], fds[r], hosts != NULL ? hosts[r] : NULL, r);
    if (st == GW_OK)
        st = gw_comm_new(out, &streams_table, s, rank, workers, opt);
    if (st != GW_OK)
        gwi_free(s);
    return st;
}
