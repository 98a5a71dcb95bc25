/* SPDX-License-Identifier: Apache-2.0
 *
 * test_streams.c - gw_comm_streams() over streams that scramble their bytes, read ahead
 * of what is asked for, and keep what they have taken for a while, as one that encrypts
 * does; and gw_comm_striped() over several of them, of which one may end. */
#define _GNU_SOURCE
#include "support_ranks.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm.h"
#include "gradwire_elastic.h"
#include "gradwire_streams.h"
#include "support_sockets.h"
#include "transport/sockets.h"

enum { WORKERS = 3, AHEAD = 300, STAGE = 70, FLOATS = 60000 };

/* Connections of a striped pair, and what they carry in turns. */
enum { LINES = 3, STRIPE = 65536 };

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

/* ---- several connections to each worker ------------------------------------------ */

/* Both ends of all connections between two workers. */
typedef struct rope {
    int ends[2][LINES];
} rope;

static void open_rope(rope *r)
{
    for (int k = 0; k < LINES; k++) {
        int pair[2];
        assert_int_equal(tcp_pair(pair), 0);
        r->ends[0][k] = pair[0];
        r->ends[1][k] = pair[1];
    }
}

/* A comm of two workers over all connections of a rope; its end takes them over. */
static gw_comm *comm_over(const rope *r, int rank, int scrambles)
{
    gw_comm_options opt = {.struct_size = sizeof opt, .timeout_seconds = 100};
    gw_stream streams[LINES];
    const gw_stream *each[2] = {streams, streams};
    int counts[2] = {LINES, LINES};
    gw_comm *comm;

    for (int k = 0; k < LINES; k++)
        streams[k] = scrambles ? scrambled_stream(r->ends[rank][k])
                               : gwi_stream_plain(r->ends[rank][k]);
    assert_run_ok(gw_comm_striped(&comm, each, counts, NULL, rank, 2, &opt));
    return comm;
}

typedef struct end_of_rope {
    const rope *rope;
    int rank, scrambles;
    gw_status (*act)(gw_comm *comm, int rank);
    pthread_t thread;
    gw_status status;
} end_of_rope;

static void *run_end(void *arg)
{
    end_of_rope *e = arg;
    gw_comm *comm = comm_over(e->rope, e->rank, e->scrambles);

    e->status = e->act(comm, e->rank);
    gw_comm_free(comm);
    return NULL;
}

static void start_end(end_of_rope *e, const rope *r, int rank,
                      gw_status (*act)(gw_comm *comm, int rank), int scrambles)
{
    *e = (end_of_rope){.rope = r, .rank = rank, .act = act, .scrambles = scrambles};
    assert_int_equal(pthread_create(&e->thread, NULL, run_end, e), 0);
}

/* Messages whose lengths have nothing to do with those of stripes, both ways. */
static gw_status exchange_all(gw_comm *comm, int rank)
{
    static const size_t lens[] = {0, 1, 8, STRIPE - 8, STRIPE, 3 * STRIPE + 5, 777};
    static uint8_t out[2][4 * STRIPE], all[2][8 * STRIPE];
    size_t got[2], other = (size_t)(1 - rank);

    for (size_t i = 0; i < 60; i++) {
        size_t len = lens[i % (sizeof lens / sizeof lens[0])];
        for (size_t b = 0; b < len; b++)
            out[rank][b] = (uint8_t)(test_random(i, b) + (uint64_t)rank);
        PASS_ON(gw_allgather(comm, out[rank], len, all[rank], 4 * STRIPE, got));
        for (size_t b = 0; b < len; b++)
            if (all[rank][other * 4 * STRIPE + b] !=
                (uint8_t)(test_random(i, b) + (uint64_t)other))
                return GW_ERR_DATA;
    }
    return GW_OK;
}

/* Who evaluates after every step announces it every time, however short steps are. */
static gw_status pause_often(gw_comm *comm, int rank)
{
    (void)rank;
    for (int i = 0; i < 2000; i++) {
        gw_comm_pause(comm);
        PASS_ON(gw_barrier(comm));
    }
    return GW_OK;
}

static void run_two(gw_status (*act)(gw_comm *comm, int rank), int scrambles)
{
    end_of_rope ends[2];
    rope r;

    open_rope(&r);
    for (int rank = 0; rank < 2; rank++)
        start_end(&ends[rank], &r, rank, act, scrambles);
    for (int rank = 0; rank < 2; rank++) {
        pthread_join(ends[rank].thread, NULL);
        assert_int_equal(ends[rank].status, GW_OK);
    }
}

static void test_stripes_keep_the_order_of_bytes(void **state)
{
    (void)state;
    run_two(exchange_all, 0);
    run_two(exchange_all, 1);
}

/* Worker 0 ends while the other one still has much to read, which its goodbye follows
 * on another connection than the last that ends. */
static gw_status send_and_end(gw_comm *comm, int rank)
{
    static float x[2][1 << 20];

    if (rank == 1)
        usleep(300000);
    PASS_ON(gw_broadcast(comm, x[rank], sizeof x[rank], 0));
    if (rank == 1)
        usleep(300000);
    return rank == 1 ? gw_broadcast(comm, x[rank], 0, 0)
                     : gw_broadcast(comm, NULL, 0, 0);
}

static void test_pauses_are_no_flood(void **state)
{
    (void)state;
    run_two(pause_often, 0);
}

static void test_a_stream_ends_in_order(void **state)
{
    (void)state;
    run_two(send_and_end, 0);
    run_two(send_and_end, 1);
}

static gw_status go_on(gw_comm *comm, int rank)
{
    static float x[2][30000];
    gw_status st;

    do
        st = gw_allreduce(comm, x[rank], 30000);
    while (st == GW_OK);
    return st;
}

/* Waits for a message that is never sent, or lets the other one wait. */
static gw_status wait_idly(gw_comm *comm, int rank)
{
    char byte;

    if (rank == 0)
        return gw_broadcast(comm, &byte, 1, 1);
    usleep(200000);
    return GW_ERR_PEER;
}

/* Whichever connection ends, and whether messages flow or not, the worker is lost. The
 * bound is generous; the time limit is longer. */
static void lose_line(int k, gw_status (*act)(gw_comm *comm, int rank))
{
    end_of_rope ends[2];
    rope r;

    open_rope(&r);
    int also = dup(r.ends[1][k]);
    for (int rank = 0; rank < 2; rank++)
        start_end(&ends[rank], &r, rank, act, 0);
    usleep(50000);
    double begin = gwi_now();
    shutdown(also, SHUT_RDWR);
    close(also);
    for (int rank = 0; rank < 2; rank++) {
        pthread_join(ends[rank].thread, NULL);
        assert_int_equal(ends[rank].status, GW_ERR_PEER);
    }
    assert_true(gwi_now() - begin < 60);
}

static void test_the_end_of_one_line_is_the_end(void **state)
{
    (void)state;
    for (int k = 0; k < LINES; k++)
        lose_line(k, go_on);
    lose_line(0, wait_idly);
}

/* Signs of life go on along the first connection, whose turn it stays. */
static gw_status wait_both(gw_comm *comm, int rank)
{
    gwi_op op;
    char byte;

    PASS_ON(gwi_recv(comm, &op, 1 - rank, &byte, 1));
    return gwi_wait(comm, &op);
}

static void test_an_idle_line_that_ends_is_noticed(void **state)
{
    (void)state;
    lose_line(LINES - 1, wait_both);
}

/* ---- a peer that is hostile -------------------------------------------------------
 */

static void put_all(int fd, const uint8_t *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);
        assert_true(n > 0);
        bytes += n;
        len -= (size_t)n;
    }
}

/* A message of 100000 bytes over two connections, by hand, and then noise on the one
 * whose turn it is. */
static void test_the_layout_of_stripes_and_garbage(void **state)
{
    static uint8_t frame[8 + 100000 + 64], got[100000];
    gwi_op op;
    rope r;

    (void)state;
    open_rope(&r);
    gw_comm *comm = comm_over(&r, 0, 0);
    for (size_t i = 0; i < sizeof frame; i++)
        frame[i] = (uint8_t)(test_random(3, i) | 0x80);
    memcpy(frame, "\xa0\x86\x01\0\0\0\0\0", 8); /* 100000 */
    put_all(r.ends[1][1], frame + STRIPE, 8 + sizeof got - STRIPE);
    put_all(r.ends[1][0], frame, STRIPE);
    assert_run_ok(gwi_recv(comm, &op, 1, got, sizeof got));
    assert_run_ok(gwi_wait_exactly(comm, &op, sizeof got));
    assert_memory_equal(got, frame + 8, sizeof got);
    put_all(r.ends[1][1], frame + 8 + sizeof got, 64);
    assert_run_ok(gwi_recv(comm, &op, 1, got, sizeof got));
    assert_int_equal(gwi_wait(comm, &op), GW_ERR_DATA);
    gw_comm_free(comm);
    for (int k = 0; k < LINES; k++)
        close(r.ends[1][k]);
}

/* Random bytes on all connections at once: an error, whatever they are. */
static void test_noise_on_all_lines(void **state)
{
    uint8_t noise[999];
    gw_status st;

    (void)state;
    for (uint64_t turn = 0; turn < 200; turn++) {
        gwi_op op;
        rope r;
        open_rope(&r);
        gw_comm *comm = comm_over(&r, 0, 0);
        for (int k = 0; k < LINES; k++) {
            for (size_t i = 0; i < sizeof noise; i++)
                noise[i] = (uint8_t)test_random(turn * LINES + (uint64_t)k, i);
            put_all(r.ends[1][k], noise, sizeof noise);
            close(r.ends[1][k]);
        }
        assert_run_ok(gwi_recv(comm, &op, 1, noise, sizeof noise));
        st = gwi_wait(comm, &op);
        assert_true(st == GW_ERR_DATA || st == GW_ERR_PEER);
        gw_comm_free(comm);
    }
}

static void test_counts_of_lines(void **state)
{
    gw_stream none[2] = {{.fd = -1}, {.fd = -1}};
    const gw_stream *each[2] = {none, none};
    int counts[2] = {1, 0};
    gw_comm *comm;

    (void)state;
    assert_int_equal(gw_comm_striped(&comm, each, counts, NULL, 0, 2, NULL),
                     GW_ERR_ARG);
    counts[1] = GW_MOST_STRIPES + 1;
    assert_int_equal(gw_comm_striped(&comm, each, counts, NULL, 0, 2, NULL),
                     GW_ERR_ARG);
    counts[1] = 2;
    assert_int_equal(gw_comm_striped(&comm, each, counts, NULL, 0, 2, NULL),
                     GW_ERR_ARG);
    assert_null(comm);
    assert_int_equal(gw_comm_striped(&comm, each, NULL, NULL, 0, 2, NULL), GW_ERR_ARG);
    assert_run_ok(gw_comm_striped(&comm, each, counts, NULL, 0, 1, NULL));
    gw_comm_free(comm);
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
        cmocka_unit_test(test_stripes_keep_the_order_of_bytes),
        cmocka_unit_test(test_pauses_are_no_flood),
        cmocka_unit_test(test_a_stream_ends_in_order),
        cmocka_unit_test(test_the_end_of_one_line_is_the_end),
        cmocka_unit_test(test_an_idle_line_that_ends_is_noticed),
        cmocka_unit_test(test_the_layout_of_stripes_and_garbage),
        cmocka_unit_test(test_noise_on_all_lines),
        cmocka_unit_test(test_counts_of_lines),
        cmocka_unit_test(test_bad_arguments),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
