/* SPDX-License-Identifier: Apache-2.0
 *
 * test_train_waiting.c - work of worker 0 that takes longer than workers may be
 * silent: nobody gives up, and what went wrong is said by worker 0. */
#define _GNU_SOURCE
#include "common.h"
#include "run/slow_work.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

/* Seconds of silence that a busy machine does not reach, and a longer time. */
#define LIMIT 2.0
#define LONG  5

typedef struct trial {
    int seconds;
    gw_status status;      /* of the work */
    _Atomic int done;      /* how often it was done */
    _Atomic int left_soon; /* who did not wait for it */
} trial;

static gw_status work(void *arg)
{
    trial *t = arg;
    struct timespec nap = {.tv_sec = t->seconds};

    nanosleep(&nap, NULL);
    t->done++;
    return t->status == GW_OK ? GW_OK : gw_fail(t->status, "the disk is gone");
}

/* All meet after it, also if it failed. */
static gw_status body(gw_comm *comm, void *arg)
{
    trial *t = arg;
    gw_status st = gwt_slow_work(comm, LIMIT, work, t);
    char why[64] = "";

    if (t->done == 0)
        t->left_soon++;
    if (st != GW_OK)
        strncpy(why, gw_error_message(), sizeof why - 1);
    GWT_TRY(gw_barrier(comm));
    if (gw_comm_rank(comm) != 0)
        return st;
    if (st != t->status || (st != GW_OK && strcmp(why, "the disk is gone") != 0))
        return gw_fail(GW_ERR_ARG, "worker 0 says %s: %s", gw_status_name(st), why);
    return GW_OK;
}

static void try_it(int workers, trial *t)
{
    gw_local_options opt = {.struct_size = sizeof opt,
                            .workers = workers,
                            .spawn = GW_SPAWN_THREADS,
                            .timeout_seconds = LIMIT};

    if (gw_local_run(&opt, body, t) != GW_OK)
        fail_msg("%d workers: %s", workers, gw_error_message());
    assert_int_equal(t->left_soon, 0);
}

static void takes_long(void **state)
{
    trial t = {.seconds = LONG};

    (void)state;
    try_it(3, &t);
    assert_int_equal(t.done, 1);
}

static void fails(void **state)
{
    (void)state;
    for (int workers = 1; workers <= 4; workers++) {
        trial t = {.status = GW_ERR_SYSTEM};
        try_it(workers, &t);
        assert_int_equal(t.done, 1);
    }
}

static void is_done_once_each_time(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        trial t = {.seconds = 0};
        try_it(1 + i % 5, &t);
        assert_int_equal(t.done, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_long),
        cmocka_unit_test(fails),
        cmocka_unit_test(is_done_once_each_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
