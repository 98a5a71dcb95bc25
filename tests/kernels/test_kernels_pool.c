/* SPDX-License-Identifier: Apache-2.0
 *
 * test_kernels_pool.c - every block once, whoever runs it. */
#define _GNU_SOURCE
#include "kernels/pool.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { BLOCKS = 1000 };

/* The thread sanitizer does not allow threads in a child of a process that had
 * some, whoever starts them. */
#if defined(__SANITIZE_THREAD__)
#define THREADS_AFTER_FORK 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define THREADS_AFTER_FORK 0
#endif
#endif
#ifndef THREADS_AFTER_FORK
#define THREADS_AFTER_FORK 1
#endif

typedef struct tally {
    atomic_int calls[BLOCKS];
} tally;

static void count_block(void *arg, size_t block)
{
    tally *t = arg;

    atomic_fetch_add(&t->calls[block], 1);
}

/* Whether each of the first n blocks was called `times` and no other at all. */
static int called(tally *t, size_t n, int times)
{
    for (size_t b = 0; b < BLOCKS; b++)
        if (atomic_load(&t->calls[b]) != (b < n ? times : 0))
            return 0;
    return 1;
}

static int every_block_once(size_t n)
{
    tally t = {0};

    gwi_parallel(n, count_block, &t);
    return called(&t, n, 1);
}

static void each_block_once(void **unused)
{
    (void)unused;
    for (unsigned threads = 1; threads <= 5; threads++) {
        gwi_threads_set(threads);
        for (int trial = 0; trial < 200; trial++)
            assert_true(every_block_once((size_t)trial * 5));
    }
}

/* Blocks that wait for each other: only true if they run at the same time. */
static void meet(void *arg, size_t block)
{
    (void)block;
    pthread_barrier_wait(arg);
}

static void blocks_run_together(void **unused)
{
    pthread_barrier_t barrier;

    (void)unused;
    gwi_threads_set(3);
    assert_int_equal(pthread_barrier_init(&barrier, NULL, 3), 0);
    gwi_parallel(3, meet, &barrier);
    pthread_barrier_destroy(&barrier);
}

static void count_inside(void *arg, size_t block)
{
    (void)block;
    gwi_parallel(BLOCKS, count_block, arg);
}

static void a_block_may_call_again(void **unused)
{
    tally t = {0};

    (void)unused;
    gwi_threads_set(3);
    gwi_parallel(7, count_inside, &t);
    assert_true(called(&t, BLOCKS, 7));
}

static void *call_often(void *result)
{
    int good = 1;

    for (int i = 0; i < 300; i++)
        good &= every_block_once(50);
    *(int *)result = good;
    return NULL;
}

static void many_callers(void **unused)
{
    pthread_t thread[4];
    int good[4];

    (void)unused;
    gwi_threads_set(3);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, call_often, &good[i]), 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(thread[i], NULL);
        assert_true(good[i]);
    }
}

/* Two blocks that begin and end together with the test's own thread. */
static void meet_twice(void *arg, size_t block)
{
    meet(arg, block);
    meet(arg, block);
}

static void *keep_busy(void *barrier)
{
    gwi_parallel(2, meet_twice, barrier);
    return NULL;
}

static void child_main(void)
{
    pthread_barrier_t barrier;

    alarm(10);
    pthread_barrier_init(&barrier, NULL, 3);
    gwi_parallel(3, meet, &barrier);
    exit(every_block_once(BLOCKS) ? 0 : 1);
}

/* Forks while the pool is in use by another thread: in the child its locks are
 * held by threads that are not there. */
static void a_child_has_its_own(void **unused)
{
    pthread_barrier_t barrier;
    pthread_t thread;
    int status;

    (void)unused;
    if (!THREADS_AFTER_FORK)
        skip();
    gwi_threads_set(3);
    pthread_barrier_init(&barrier, NULL, 3);
    assert_int_equal(pthread_create(&thread, NULL, keep_busy, &barrier), 0);
    meet(&barrier, 0);
    pid_t child = fork();
    if (child == 0)
        child_main();
    meet(&barrier, 0);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&barrier);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_true(every_block_once(BLOCKS));
}

static unsigned threads_for(const char *text)
{
    if (text)
        setenv("GW_THREADS", text, 1);
    else
        unsetenv("GW_THREADS");
    gwi_threads_set(0);
    return gwi_threads();
}

static void the_environment_decides(void **unused)
{
    (void)unused;
    assert_int_equal(threads_for("3"), 3);
    assert_int_equal(threads_for("1000000"), GWI_THREADS_MAX);
    assert_int_equal(threads_for("0"), 1);
    assert_int_equal(threads_for("-2"), 1);
    assert_int_equal(threads_for("two"), 1);
    assert_int_equal(threads_for("2x"), 1);
    assert_int_equal(threads_for(""), 1);
    assert_int_equal(threads_for(NULL), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_block_once),
        cmocka_unit_test(blocks_run_together),
        cmocka_unit_test(a_block_may_call_again),
        cmocka_unit_test(many_callers),
        cmocka_unit_test(a_child_has_its_own),
        cmocka_unit_test(the_environment_decides),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
