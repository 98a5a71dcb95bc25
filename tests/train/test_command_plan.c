/* SPDX-License-Identifier: Apache-2.0
 *
 * test_command_plan.c - trials of 'gradwire plan' when not all of their threads can be
 * started: the others have ended before anything of theirs is freed. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static int start_thread(pthread_t *thread, const pthread_attr_t *attr,
                        void *(*body)(void *), void *arg);

/* The trial comes with threads that can be counted. */
#include "../../cli/plan/virtual_net.c"
#define pthread_create start_thread
#include "../../cli/plan/plan_trial.c"
#undef pthread_create

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { WORKERS = 5 };

/* What heavy_gradient.c would make up. */
void gwc_heavy_gradient(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = 1.0f / (float)(1 + i % 97);
}

static int may_start;
static _Atomic int running;

typedef struct counted {
    void *(*body)(void *);
    void *arg;
} counted;

static void *run_counted(void *arg)
{
    counted c = *(counted *)arg;

    free(arg);
    void *result = c.body(c.arg);
    running--;
    return result;
}

static int start_thread(pthread_t *thread, const pthread_attr_t *attr,
                        void *(*body)(void *), void *arg)
{
    counted *c = malloc(sizeof *c);

    assert_non_null(c);
    if (may_start-- == 0) {
        free(c);
        return EAGAIN;
    }
    *c = (counted){body, arg};
    running++;
    return pthread_create(thread, attr, run_counted, c);
}

static void ends_those_that_were_started(void **state)
{
    const gwc_link link = {1e8, 1e-4};
    const gwc_plan_job plan = {.params = 1000,
                               .workers = WORKERS,
                               .compute = 1e-3,
                               .share = 1,
                               .link = &link,
                               .links = 1};
    gwc_plan_result result;

    (void)state;
    for (int n = 0; n <= WORKERS; n++) {
        may_start = n;
        gw_status st = gwc_plan_try(&result, &plan, "topk:0.1");
        assert_int_equal(running, 0);
        assert_int_equal(st, n < WORKERS ? GW_ERR_SYSTEM : GW_OK);
    }
    assert_true(result.bytes > 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ends_those_that_were_started)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
