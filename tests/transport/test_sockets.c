/* SPDX-License-Identifier: Apache-2.0
 *
 * test_sockets.c - gw_comm_sockets() when others die, fail, leave or misbehave. That
 * it carries messages is in test_collectives.c and test_conformance.c. */
#define _GNU_SOURCE
#include "support_ranks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm.h"
#include "support_sockets.h"

enum { WORKERS = 4 };

typedef struct rank_of_test {
    socket_group *group;
    int rank;
    gw_status (*act)(gw_comm *comm, struct rank_of_test *r);
    pthread_t thread;
    gw_status status;
    char message[512];
} rank_of_test;

static void *run_rank(void *arg)
{
    rank_of_test *r = arg;
    gw_comm *comm = NULL;

    r->status = stream_comm_new(&comm, r->group, r->rank, 0);
    if (r->status == GW_OK)
        r->status = r->act(comm, r);
    snprintf(r->message, sizeof r->message, "%s",
             r->status != GW_OK ? gw_error_message() : "");
    gw_comm_free(comm);
    return NULL;
}

static void run_ranks(rank_of_test *ranks,
                      gw_status (*act)(gw_comm *comm, rank_of_test *r))
{
    socket_group *group = socket_group_new(WORKERS);

    assert_non_null(group);
    for (int r = 0; r < WORKERS; r++) {
        ranks[r] = (rank_of_test){.group = group, .rank = r, .act = act};
        pthread_create(&ranks[r].thread, NULL, run_rank, &ranks[r]);
    }
    for (int r = 0; r < WORKERS; r++)
        pthread_join(ranks[r].thread, NULL);
    socket_group_free(group);
}

/* ---- somebody goes ------------------------------------------------------ */

/* Workers wait for each other in a ring, so only one of them waits for worker 3. */
static gw_status reducing(gw_comm *c, rank_of_test *r)
{
    float x[8] = {0};

    (void)r;
    for (;;)
        PASS_ON(gw_allreduce(c, x, 8));
}

/* There is no worker 3: its ends of the sockets close, as when its process is
 * killed. */
static void test_killed_worker_is_named_by_all(void **state)
{
    socket_group *group = socket_group_new(WORKERS);
    rank_of_test ranks[WORKERS];

    (void)state;
    for (int r = 0; r < 3; r++) {
        ranks[r] = (rank_of_test){.group = group, .rank = r, .act = reducing};
        pthread_create(&ranks[r].thread, NULL, run_rank, &ranks[r]);
    }
    for (int p = 0; p < 3; p++)
        shutdown(socket_group_fd(group, 3, p), SHUT_RDWR);
    for (int r = 0; r < 3; r++) {
        pthread_join(ranks[r].thread, NULL);
        assert_int_equal(ranks[r].status, GW_ERR_PEER);
        assert_non_null(strstr(ranks[r].message, "worker 3 on host ? is gone"));
    }
    socket_group_free(group);
}

/* ---- somebody fails ----------------------------------------------------- */

static gw_status failing(gw_comm *c, rank_of_test *r)
{
    PASS_ON(gw_barrier(c));
    if (r->rank == 2) {
        gw_fail(GW_ERR_DATA, "worker 2 read nonsense");
        return gwi_comm_break(c, GW_ERR_DATA);
    }
    return reducing(c, r);
}

static void test_reason_reaches_all(void **state)
{
    rank_of_test ranks[WORKERS];

    (void)state;
    run_ranks(ranks, failing);
    for (int r = 0; r < WORKERS; r++) {
        assert_int_equal(ranks[r].status, r == 2 ? GW_ERR_DATA : GW_ERR_PEER);
        assert_non_null(strstr(ranks[r].message, "worker 2 read nonsense"));
    }
}

/* ---- somebody ends in order --------------------------------------------- */

/* Worker 3 leaves after its last message while others still wait for each other. */
static gw_status leaving(gw_comm *c, rank_of_test *r)
{
    uint8_t byte = 7, in = 0;

    if (r->rank == 3)
        return gw_broadcast(c, &byte, 1, 3);
    PASS_ON(gw_broadcast(c, &in, 1, 3));
    REQUIRE(in == 7, "got %d", in);
    if (r->rank == 1)
        usleep(120000);
    PASS_ON(r->rank == 1 ? gwi_send(c, &c->ops[0], 0, &byte, 1) : GW_OK);
    PASS_ON(r->rank == 0 ? gwi_recv(c, &c->ops[0], 1, &in, 1) : GW_OK);
    return gwi_wait(c, &c->ops[0]);
}

static void test_goodbye_is_no_loss(void **state)
{
    rank_of_test ranks[WORKERS];

    (void)state;
    run_ranks(ranks, leaving);
    for (int r = 0; r < WORKERS; r++)
        if (ranks[r].status != GW_OK)
            fail_msg("worker %d: %s", r, ranks[r].message);
}

static gw_status too_early(gw_comm *c, rank_of_test *r)
{
    return r->rank == 3 ? GW_OK : gw_barrier(c);
}

static void test_leaving_too_early_is_noticed(void **state)
{
    rank_of_test ranks[WORKERS];

    (void)state;
    run_ranks(ranks, too_early);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(ranks[r].status, GW_ERR_PEER);
        assert_non_null(strstr(ranks[r].message, "worker 3 on host ? has ended"));
    }
}

/* The other end of a connection: it gives signs of life without reading, until the
 * comm is being closed, and reads only then. */
typedef struct late_reader {
    int fd;
    _Atomic int closing;
    size_t got;
} late_reader;

static void *read_late(void *arg)
{
    static const uint8_t alive[8] = {0, 0, 0, 0, 0, 0, 0, 3};
    late_reader *l = arg;
    char bytes[4096];
    ssize_t n;

    for (int after = 0; after < 20; after += atomic_load(&l->closing)) {
        (void)!send(l->fd, alive, sizeof alive, MSG_NOSIGNAL);
        usleep(10000);
    }
    while ((n = recv(l->fd, bytes, sizeof bytes, 0)) > 0)
        l->got += (size_t)n;
    return NULL;
}

/* A worker sends a long message, which its own socket takes, and ends. Signs of life
 * come for it while the message has not left yet. */
static void test_last_message_arrives(void **state)
{
    enum { LEN = 1 << 20 };
    int fds[2] = {-1, -1}, pair[2], room = 4 * LEN, few = 1 << 17;
    char *message = calloc(1, LEN);
    late_reader late = {.closing = 0};
    pthread_t thread;
    gw_comm *comm;

    (void)state;
    assert_int_equal(tcp_pair(pair), 0);
    fds[1] = pair[0];
    late.fd = pair[1];
    setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    setsockopt(pair[1], SOL_SOCKET, SO_RCVBUF, &few, sizeof few);
    assert_run_ok(gw_comm_sockets(&comm, fds, NULL, 0, 2, NULL));
    pthread_create(&thread, NULL, read_late, &late);
    assert_run_ok(gwi_send(comm, &comm->ops[0], 1, message, LEN));
    assert_run_ok(gwi_wait(comm, &comm->ops[0]));
    atomic_store(&late.closing, 1);
    gw_comm_free(comm);
    pthread_join(thread, NULL);
    assert_int_equal(late.got, 8 + LEN + 8);
    close(pair[1]);
    free(message);
}

/* ---- bytes that are no frames ------------------------------------------- */

static void expect_from(const void *bytes, size_t len, gw_status expected)
{
    socket_group *group = socket_group_new(2);
    uint8_t in[16];
    gw_comm *comm;

    assert_run_ok(stream_comm_new(&comm, group, 0, 0));
    assert_int_equal(send(socket_group_fd(group, 1, 0), bytes, len, 0), (ssize_t)len);
    shutdown(socket_group_fd(group, 1, 0), SHUT_WR);
    gw_status st = gwi_recv(comm, &comm->ops[0], 1, in, sizeof in);
    if (st == GW_OK)
        st = gwi_wait(comm, &comm->ops[0]);
    assert_int_equal(st, expected);
    gw_comm_free(comm);
    socket_group_free(group);
}

static void test_bad_frames(void **state)
{
    static const uint8_t good[] = {2, 0, 0, 0, 0, 0, 0, 0, 1, 2};
    static const uint8_t long_message[] = {17, 0, 0, 0, 0, 0, 0, 0, 1};
    static const uint8_t huge[] = {255, 255, 255, 255, 255, 255, 255, 0, 1};
    static const uint8_t long_reason[] = {0, 2, 0, 0, 0, 0, 0, 2, 1};
    static const uint8_t unknown[] = {0, 0, 0, 0, 0, 0, 0, 9};

    (void)state;
    expect_from(good, sizeof good, GW_OK);
    expect_from(good, sizeof good - 1, GW_ERR_PEER);
    expect_from(good, 3, GW_ERR_PEER);
    expect_from(long_message, sizeof long_message, GW_ERR_DATA);
    expect_from(huge, sizeof huge, GW_ERR_DATA);
    expect_from(long_reason, sizeof long_reason, GW_ERR_DATA);
    expect_from(unknown, sizeof unknown, GW_ERR_DATA);
}

/* ---- arguments and memory ----------------------------------------------- */

static void test_wrong_arguments(void **state)
{
    int fds[2] = {-1, -1};
    gw_comm *comm;

    (void)state;
    assert_int_equal(gw_comm_sockets(&comm, NULL, NULL, 0, 2, NULL), GW_ERR_ARG);
    assert_int_equal(gw_comm_sockets(&comm, fds, NULL, 2, 2, NULL), GW_ERR_ARG);
    assert_int_equal(gw_comm_sockets(&comm, fds, NULL, 0, 2, NULL), GW_ERR_ARG);
    assert_null(comm);
    assert_run_ok(gw_comm_sockets(&comm, fds, NULL, 0, 1, NULL));
    gw_comm_free(comm);
}

static void test_no_memory(void **state)
{
    int fds[1] = {-1};
    gw_comm *comm = NULL;

    (void)state;
    for (size_t k = 0; comm == NULL; k++) {
        gwi_alloc_fail_at(k);
        gw_status st = gw_comm_sockets(&comm, fds, NULL, 0, 1, NULL);
        assert_int_equal(st, comm != NULL ? GW_OK : GW_ERR_NOMEM);
    }
    gwi_alloc_fail_at((size_t)-1);
    gw_comm_free(comm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_worker_is_named_by_all),
        cmocka_unit_test(test_reason_reaches_all),
        cmocka_unit_test(test_goodbye_is_no_loss),
        cmocka_unit_test(test_leaving_too_early_is_noticed),
        cmocka_unit_test(test_last_message_arrives),
        cmocka_unit_test(test_bad_frames),
        cmocka_unit_test(test_wrong_arguments),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
