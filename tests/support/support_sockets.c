/* SPDX-License-Identifier: Apache-2.0
 *
 * support_sockets.c - a toy transport over socketpairs. */
#define _GNU_SOURCE
#include "support_sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct socket_group {
    int workers;
    int *fds; /* [rank * workers + peer] */
};

typedef struct socket_end {
    socket_group *group;
    int rank;
    int *fds;          /* this rank's row */
    uint64_t *tickets; /* [4][workers]: sends posted, sends over, receives likewise */
    bool *full;        /* [workers]: a send waits for room */
    bool *awaited;     /* [workers]: a receive was tested since the last wait */
} socket_end;

/* What the transport keeps in a gw_request. */
typedef struct socket_op {
    uint8_t *buf;
    uint64_t len; /* in front of each message on the wire */
    size_t done;  /* bytes moved, the 8 of the length included */
    size_t cap;
    uint64_t ticket;
    int peer, sends;
} socket_op;

socket_group *socket_group_new(int workers)
{
    size_t p = (size_t)workers;
    socket_group *g = calloc(1, sizeof *g);

    g->workers = workers;
    g->fds = malloc(p * p * sizeof *g->fds);
    memset(g->fds, -1, p * p * sizeof *g->fds);
    for (size_t a = 0; a < p; a++) {
        for (size_t b = a + 1; b < p; b++) {
            int pair[2];
            if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) != 0) {
                socket_group_free(g);
                return NULL;
            }
            g->fds[a * p + b] = pair[0];
            g->fds[b * p + a] = pair[1];
        }
    }
    return g;
}

void socket_group_free(socket_group *g)
{
    for (int i = 0; i < g->workers * g->workers; i++)
        if (g->fds[i] >= 0)
            close(g->fds[i]);
    free(g->fds);
    free(g);
}

static gw_status post(socket_end *e, gw_request *req, socket_op op)
{
    op.ticket = e->tickets[(op.sends ? 0 : 2) * e->group->workers + op.peer]++;
    memcpy(req, &op, sizeof op);
    return GW_OK;
}

static gw_status toy_send(void *ctx, int to, const void *buf, size_t len,
                          gw_request *req)
{
    socket_op op = {
        .buf = (uint8_t *)(uintptr_t)buf, .len = len, .peer = to, .sends = 1};

    return post(ctx, req, op);
}

static gw_status toy_recv(void *ctx, int from, void *buf, size_t cap, gw_request *req)
{
    socket_op op = {.buf = buf, .cap = cap, .peer = from};

    return post(ctx, req, op);
}

/* Moves bytes [done, end) of length prefix or payload; the number moved, 0 if none
 * could be, -1 if the peer is gone. */
static ssize_t move(int fd, socket_op *op, uint8_t *from, size_t len)
{
    ssize_t n = op->sends ? send(fd, from, len, MSG_NOSIGNAL) : recv(fd, from, len, 0);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    return n == 0 ? -1 : n;
}

static gw_status advance(socket_end *e, socket_op *op)
{
    while (op->done < sizeof op->len || op->done - sizeof op->len < op->len) {
        bool prefix = op->done < sizeof op->len;
        uint8_t *at = prefix ? (uint8_t *)&op->len + op->done
                             : op->buf + (op->done - sizeof op->len);
        size_t left = (prefix ? sizeof op->len : sizeof op->len + op->len) - op->done;
        ssize_t n = move(e->fds[op->peer], op, at, left);
        if (op->sends)
            e->full[op->peer] = n == 0;
        if (n == 0)
            return GW_PENDING;
        if (n < 0)
            return gw_fail(GW_ERR_PEER, "worker %d hung up", op->peer);
        op->done += (size_t)n;
        if (!op->sends && op->done == sizeof op->len && op->len > op->cap)
            return gw_fail(GW_ERR_DATA, "worker %d sent too much", op->peer);
    }
    return GW_OK;
}

static gw_status toy_test(void *ctx, gw_request *req, size_t *len)
{
    socket_end *e = ctx;
    socket_op op;

    memcpy(&op, req, sizeof op);
    uint64_t *over = &e->tickets[(op.sends ? 1 : 3) * e->group->workers + op.peer];
    e->awaited[op.peer] |= !op.sends;
    if (*over != op.ticket)
        return GW_PENDING;
    gw_status st = advance(e, &op);
    memcpy(req, &op, sizeof op);
    if (st != GW_OK)
        return st;
    ++*over;
    if (!op.sends)
        *len = (size_t)op.len;
    return GW_OK;
}

/* Looks at what was tested since the last time: bytes that nobody has asked for yet, or
 * the end of a worker that has left, would make it return at once, again and again. */
static gw_status toy_wait(void *ctx, double seconds)
{
    socket_end *e = ctx;
    struct pollfd fds[64];
    nfds_t n = 0;

    for (int r = 0; r < e->group->workers && n < 64; r++) {
        if (e->fds[r] >= 0 && (e->awaited[r] || e->full[r]))
            fds[n++] = (struct pollfd){.fd = e->fds[r],
                                       .events = (e->awaited[r] ? POLLIN : 0) |
                                                 (e->full[r] ? POLLOUT : 0)};
        e->awaited[r] = false;
    }
    return poll(fds, n, (int)ceil(seconds * 1000)) > 0 ? GW_OK : GW_PENDING;
}

static void toy_close(void *ctx)
{
    socket_end *e = ctx;

    for (int r = 0; r < e->group->workers; r++)
        if (e->fds[r] >= 0)
            shutdown(e->fds[r], SHUT_WR);
    free(e);
}

gw_status socket_comm_new(gw_comm **out, socket_group *g, int rank, int without_wait,
                          double timeout)
{
    gw_transport table = {.struct_size = sizeof table,
                          .name = "sockets",
                          .send = toy_send,
                          .recv = toy_recv,
                          .test = toy_test,
                          .wait = without_wait ? NULL : toy_wait,
                          .close = toy_close};
    gw_comm_options opt = {.struct_size = sizeof opt, .timeout_seconds = timeout};
    size_t p = (size_t)g->workers;
    socket_end *e =
        calloc(1, sizeof *e + 4 * p * sizeof(uint64_t) + 2 * p * sizeof(bool));

    e->group = g;
    e->rank = rank;
    e->fds = g->fds + rank * g->workers;
    e->tickets = (uint64_t *)(e + 1);
    e->full = (bool *)(e->tickets + 4 * p);
    e->awaited = e->full + p;
    return gw_comm_new(out, &table, e, rank, g->workers, &opt);
}

int socket_group_fd(const socket_group *g, int rank, int peer)
{
    return g->fds[rank * g->workers + peer];
}

gw_status stream_comm_new(gw_comm **out, socket_group *g, int rank, double timeout)
{
    gw_comm_options opt = {.struct_size = sizeof opt, .timeout_seconds = timeout};
    int *row = g->fds + rank * g->workers;
    gw_status st = gw_comm_sockets(out, row, NULL, rank, g->workers, &opt);

    for (int r = 0; st == GW_OK && r < g->workers; r++)
        row[r] = -1;
    return st;
}

int tcp_pair(int pair[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0);

    pair[0] = socket(AF_INET, SOCK_STREAM, 0);
    pair[1] = -1;
    if (bind(listener, (struct sockaddr *)&at, len) == 0 && listen(listener, 1) == 0 &&
        getsockname(listener, (struct sockaddr *)&at, &len) == 0 &&
        connect(pair[0], (struct sockaddr *)&at, len) == 0)
        pair[1] = accept(listener, NULL, NULL);
    close(listener);
    return pair[1] >= 0 ? 0 : -1;
}
