/* SPDX-License-Identifier: Apache-2.0
 *
 * test_comm_interrupt.c - gw_comm_interrupt(): a wait that nobody would end is ended
 * from another thread, and the other workers learn why. */
#define _GNU_SOURCE
#include "support_ranks.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

#include "support_sockets.h"

/* A worker in a collective that the other one does not call. */
typedef struct waiter {
    gw_comm *comm;
    sem_t begun;
    gw_status status;
    char message[512];
} waiter;

static void *wait_for_nobody(void *arg)
{
    waiter *w = arg;

    sem_post(&w->begun);
    w->status = gw_barrier(w->comm);
    snprintf(w->message, sizeof w->message, "%s", gw_error_message());
    return NULL;
}

/* Worker 0 waits and is interrupted; worker 1 comes later. */
static void interrupt_one(gw_comm *zero, gw_comm *one)
{
    waiter w = {.comm = zero};
    pthread_t thread;

    sem_init(&w.begun, 0, 0);
    pthread_create(&thread, NULL, wait_for_nobody, &w);
    sem_wait(&w.begun);
    gw_comm_interrupt(zero);
    pthread_join(thread, NULL);
    assert_int_equal(w.status, GW_ERR_STOPPED);
    assert_non_null(strstr(w.message, "worker 0 was interrupted"));
    assert_int_equal(gw_barrier(zero), GW_ERR_STOPPED);
    assert_int_equal(gw_barrier(one), GW_ERR_PEER);
    assert_non_null(strstr(gw_error_message(), "worker 0"));
    sem_destroy(&w.begun);
}

static void test_sockets(void **state)
{
    socket_group *group = socket_group_new(2);
    gw_comm *comms[2];

    (void)state;
    for (int r = 0; r < 2; r++)
        assert_int_equal(stream_comm_new(&comms[r], group, r, 0), GW_OK);
    interrupt_one(comms[0], comms[1]);
    assert_non_null(strstr(gw_error_message(), "was interrupted"));
    for (int r = 0; r < 2; r++)
        gw_comm_free(comms[r]);
    socket_group_free(group);
}

/* The same where the transport cannot sleep, and in the one of threads. */
static void test_other_transports(void **state)
{
    socket_group *group = socket_group_new(2);
    gw_local_options opt = {
        .struct_size = sizeof opt, .workers = 2, .spawn = GW_SPAWN_THREADS};
    gw_local_group *threads;
    gw_comm *comms[2];

    (void)state;
    for (int r = 0; r < 2; r++)
        assert_int_equal(socket_comm_new(&comms[r], group, r, 1, 0), GW_OK);
    gw_comm_interrupt(comms[0]);
    assert_int_equal(gw_barrier(comms[0]), GW_ERR_STOPPED);
    for (int r = 0; r < 2; r++)
        gw_comm_free(comms[r]);
    socket_group_free(group);

    assert_int_equal(gw_local_group_new(&threads, &opt), GW_OK);
    for (int r = 0; r < 2; r++)
        assert_int_equal(gw_local_join(&comms[r], threads, r), GW_OK);
    gw_comm_interrupt(comms[1]);
    assert_int_equal(gw_barrier(comms[1]), GW_ERR_STOPPED);
    for (int r = 0; r < 2; r++)
        gw_comm_free(comms[r]);
    gw_local_group_free(threads);
}

/* Nothing more is sent: what others would take for an answer is not one. */
static void test_nothing_is_sent_afterwards(void **state)
{
    socket_group *group = socket_group_new(2);
    gw_comm *comms[2];
    char byte = 1;

    (void)state;
    for (int r = 0; r < 2; r++)
        assert_int_equal(stream_comm_new(&comms[r], group, r, 0), GW_OK);
    gw_comm_interrupt(comms[0]);
    assert_int_equal(gw_transfer(comms[0], 0, &byte, 1, NULL, 1), GW_ERR_STOPPED);
    assert_int_equal(gw_transfer(comms[1], 0, NULL, 1, &byte, 1), GW_ERR_PEER);
    for (int r = 0; r < 2; r++)
        gw_comm_free(comms[r]);
    socket_group_free(group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sockets),
        cmocka_unit_test(test_other_transports),
        cmocka_unit_test(test_nothing_is_sent_afterwards),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
