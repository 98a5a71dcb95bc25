/* SPDX-License-Identifier: Apache-2.0
 *
 * test_streams.c - gw_comm_streams() over streams that scramble their bytes, read ahead
 * of what is asked for, and keep what they have taken for a while, as one that encrypts
 * does. */
#define _GNU_SOURCE
#include "support_ranks.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gradwire_streams.h"
#include "support_sockets.h"

enum { WORKERS = 3, AHEAD = 300, STAGE = 70, FLOATS = 60000 };

typedef struct scrambled {
    int fd;
    uint8_t in[AHEAD], out[STAGE];
    size_t in_at, in_len, out_len;
    int calls; /* every third read and write does nothing */
} scrambled;

static void scramble(uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        bytes[i] ^= 0x5a;
}

static int pauses(scrambled *s)
{
    return s->calls++ % 3 == 2;
}

static long read_some(void *ctx, void *buf, size_t len)
{
    scrambled *s = ctx;
    size_t n;

    if (s->in_at == s->in_len) {
        if (pauses(s))
            return 0;
        ssize_t got = recv(s->fd, s->in, sizeof s->in, 0);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
            return -1;
        s->in_at = 0;
        s->in_len = got > 0 ? (size_t)got : 0;
        scramble(s->in, s->in_len);
    }
    n = s->in_len - s->in_at < len ? s->in_len - s->in_at : len;
    memcpy(buf, s->in + s->in_at, n);
    s->in_at += n;
    return (long)n;
}

static int send_out(scrambled *s)
{
    ssize_t n = s->out_len > 0 && !pauses(s)
                    ? send(s->fd, s->out, s->out_len, MSG_NOSIGNAL)
                    : 0;

    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    s->out_len -= (size_t)n;
    memmove(s->out, s->out + n, s->out_len);
    return 0;
}

static long write_some(void *ctx, const struct iovec *parts, int count)
{
    scrambled *s = ctx;
    size_t taken = 0;

    if (send_out(s) != 0)
        return -1;
    for (int i = 0; i < count && s->out_len < sizeof s->out; i++) {
        size_t room = sizeof s->out - s->out_len;
        size_t n = parts[i].iov_len < room ? parts[i].iov_len : room;
        memcpy(s->out + s->out_len, parts[i].iov_base, n);
        scramble(s->out + s->out_len, n);
        s->out_len += n;
        taken += n;
        if (n < parts[i].iov_len)
            break;
    }
    return send_out(s) != 0 ? -1 : (long)taken;
}

static size_t unread(void *ctx)
{
    const scrambled *s = ctx;

    return s->in_len - s->in_at;
}

static size_t unsent(void *ctx)
{
    const scrambled *s = ctx;

    return s->out_len;
}

static void release(void *ctx)
{
    free(ctx);
}

static gw_stream scrambled_stream(int fd)
{
    scrambled *s = calloc(1, sizeof *s);

    assert_non_null(s);
    s->fd = fd;
    return (gw_stream){fd, s, read_some, write_some, unread, unsent, release};
}

/* ---- the same results as over bare sockets ------------------------------------------
 */

typedef struct rank_of_test {
    socket_group *group;
    int rank;
    pthread_t thread;
    gw_status status;
    float x[FLOATS];
} rank_of_test;

static gw_status collectives(gw_comm *comm, rank_of_test *r)
{
    uint8_t all[WORKERS * 900];
    size_t lens[WORKERS];

    for (int i = 0; i < FLOATS; i++)
        r->x[i] = test_float((uint64_t)r->rank, (uint64_t)i);
    for (int turn = 0; turn < 3; turn++) {
        PASS_ON(gw_allreduce(comm, r->x, FLOATS));
        PASS_ON(gw_allgather(comm, r->x, (size_t)(r->rank * 100), all, 900, lens));
        PASS_ON(gw_barrier(comm));
    }
    return gw_broadcast(comm, r->x, sizeof r->x, 1);
}

static void *run_rank(void *arg)
{
    rank_of_test *r = arg;
    gw_stream streams[WORKERS] = {{.fd = -1}};
    gw_comm *comm;

    for (int p = 0; p < WORKERS; p++)
        if (p != r->rank)
            streams[p] = scrambled_stream(dup(socket_group_fd(r->group, r->rank, p)));
    r->status = gw_comm_streams(&comm, streams, NULL, r->rank, WORKERS, NULL);
    if (r->status == GW_OK)
        r->status = collectives(comm, r);
    gw_comm_free(comm);
    return NULL;
}

static void test_streams_may_buffer_both_ways(void **state)
{
    static rank_of_test ranks[WORKERS];
    socket_group *group = socket_group_new(WORKERS);

    (void)state;
    assert_non_null(group);
    for (int r = 0; r < WORKERS; r++) {
        ranks[r].group = group;
        ranks[r].rank = r;
        pthread_create(&ranks[r].thread, NULL, run_rank, &ranks[r]);
    }
    for (int r = 0; r < WORKERS; r++)
        pthread_join(ranks[r].thread, NULL);
    socket_group_free(group);
    for (int r = 0; r < WORKERS; r++) {
        assert_int_equal(ranks[r].status, GW_OK);
        assert_memory_equal(ranks[r].x, ranks[0].x, sizeof ranks[0].x);
    }
}

static void test_bad_arguments(void **state)
{
    gw_stream none[2] = {{.fd = -1}, {.fd = -1}};
    gw_comm *comm;

    (void)state;
    assert_int_equal(gw_comm_streams(&comm, NULL, NULL, 0, 1, NULL), GW_ERR_ARG);
    assert_null(comm);
    assert_int_equal(gw_comm_streams(&comm, none, NULL, 2, 2, NULL), GW_ERR_ARG);
    assert_int_equal(gw_comm_streams(&comm, none, NULL, 0, 2, NULL), GW_ERR_ARG);
    assert_null(comm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams_may_buffer_both_ways),
        cmocka_unit_test(test_bad_arguments),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
