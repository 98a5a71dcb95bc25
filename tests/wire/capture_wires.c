/* SPDX-License-Identifier: Apache-2.0
 *
 * capture_wires.c - comms that write down every byte which crosses them. */
#define _GNU_SOURCE
#include "capture_wires.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm.h"

/* ---- tapes -------------------------------------------------------------- */

static void append(tape *t, const void *bytes, size_t len)
{
    if (t->len + len > t->cap) {
        t->cap = 2 * (t->len + len) + 4096;
        t->bytes = realloc(t->bytes, t->cap);
        if (t->bytes == NULL) {
            fprintf(stderr, "no memory to record into\n");
            exit(1);
        }
    }
    if (len > 0)
        memcpy(t->bytes + t->len, bytes, len);
    t->len += len;
}

/* A sync may send beside its caller. */
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

void tape_put(tape *t, tape_kind kind, unsigned a, unsigned b, unsigned c,
              const void *content, size_t len)
{
    uint32_t head[4] = {kind, a, b, c};
    uint64_t length = len;

    pthread_mutex_lock(&one_at_a_time);
    append(t, head, sizeof head);
    append(t, &length, sizeof length);
    append(t, content, len);
    pthread_mutex_unlock(&one_at_a_time);
}

/* ---- messages ----------------------------------------------------------- */

typedef struct tap {
    gw_comm *inner;
    tape *tape;
} tap;

static gw_status tap_send(void *ctx, int to, const void *buf, size_t len,
                          gw_request *req)
{
    tap *t = ctx;

    tape_put(t->tape, TAPE_MESSAGE, (unsigned)t->inner->rank, (unsigned)to, 0, buf,
             len);
    return t->inner->table.send(t->inner->ctx, to, buf, len, req);
}

static gw_status tap_recv(void *ctx, int from, void *buf, size_t cap, gw_request *req)
{
    tap *t = ctx;

    return t->inner->table.recv(t->inner->ctx, from, buf, cap, req);
}

static gw_status tap_test(void *ctx, gw_request *req, size_t *len)
{
    tap *t = ctx;

    return t->inner->table.test(t->inner->ctx, req, len);
}

static gw_status tap_wait(void *ctx, double seconds)
{
    tap *t = ctx;

    return t->inner->table.wait(t->inner->ctx, seconds);
}

static int tap_lost(void *ctx)
{
    tap *t = ctx;

    return t->inner->table.lost(t->inner->ctx);
}

static const gw_transport tap_table = {.struct_size = sizeof(gw_transport),
                                       .name = "tapped",
                                       .send = tap_send,
                                       .recv = tap_recv,
                                       .test = tap_test,
                                       .wait = tap_wait,
                                       .lost = tap_lost};

gw_status tapped_comm_new(gw_comm **out, void **memory, gw_comm *inner, tape *t)
{
    tap *context = malloc(sizeof *context);

    *memory = context;
    if (context == NULL)
        return gw_fail(GW_ERR_NOMEM, "no memory for a tap");
    *context = (tap){inner, t};
    return gw_comm_new(out, &tap_table, context, gw_comm_rank(inner),
                       gw_comm_workers(inner), NULL);
}

/* ---- sockets ------------------------------------------------------------ */

/* One direction: from the far end of the sender's socket to that of the receiver's. */
typedef struct middleman {
    int from, to, in, out;
    tape seen; /* the bytes alone */
    pthread_t thread;
} middleman;

struct tapped_sockets {
    int workers;
    int *fds; /* [workers][workers], those of the workers */
    middleman *men;
    size_t count;
};

static void *hand_on(void *arg)
{
    middleman *m = arg;
    char bytes[65536];
    ssize_t n;

    while ((n = recv(m->in, bytes, sizeof bytes, 0)) > 0) {
        append(&m->seen, bytes, (size_t)n);
        for (ssize_t at = 0; at < n;) {
            ssize_t sent = send(m->out, bytes + at, (size_t)(n - at), MSG_NOSIGNAL);
            if (sent < 0)
                break; /* the receiver is gone; what was sent to it still counts */
            at += sent;
        }
    }
    shutdown(m->out, SHUT_WR);
    return NULL;
}

static void place(tapped_sockets *s, int from, int to, int in, int out)
{
    middleman *m = &s->men[s->count++];

    *m = (middleman){.from = from, .to = to, .in = in, .out = out};
    pthread_create(&m->thread, NULL, hand_on, m);
}

static int connect_pair(tapped_sockets *s, int a, int b)
{
    int left[2], right[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, left) != 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, right) != 0)
        return 0;
    s->fds[a * s->workers + b] = left[0];
    s->fds[b * s->workers + a] = right[0];
    place(s, a, b, left[1], right[1]);
    place(s, b, a, right[1], left[1]);
    return 1;
}

tapped_sockets *tapped_sockets_new(int workers)
{
    size_t p = (size_t)workers;
    tapped_sockets *s = calloc(1, sizeof *s);

    if (s == NULL)
        return NULL;
    s->workers = workers;
    s->fds = calloc(p * p, sizeof *s->fds);
    s->men = calloc(p * p, sizeof *s->men);
    if (s->fds == NULL || s->men == NULL)
        return NULL;
    for (int a = 0; a < workers; a++)
        for (int b = a + 1; b < workers; b++)
            if (!connect_pair(s, a, b))
                return NULL;
    return s;
}

const int *tapped_sockets_of(const tapped_sockets *s, int rank)
{
    return s->fds + rank * s->workers;
}

void tapped_sockets_end(tapped_sockets *s, tape *t)
{
    for (size_t i = 0; i < s->count; i++)
        pthread_join(s->men[i].thread, NULL);
    for (size_t i = 0; i < s->count; i++) {
        middleman *m = &s->men[i];
        tape_put(t, TAPE_STREAM, (unsigned)m->from, (unsigned)m->to, 0, m->seen.bytes,
                 m->seen.len);
        free(m->seen.bytes);
        close(m->in);
    }
    free(s->fds);
    free(s->men);
    free(s);
}
