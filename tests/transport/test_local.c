/* SPDX-License-Identifier: Apache-2.0
 *
 * test_local.c - the local transport when things go wrong: workers that die, stop,
 * fail, leave early or send the wrong thing. */
#define _GNU_SOURCE
#include "support_ranks.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "comm.h"

static gw_status run(gw_spawn spawn, int workers, double timeout, gw_body *body,
                     void *arg)
{
    gw_local_options opt = {.struct_size = sizeof opt,
                            .workers = workers,
                            .spawn = spawn,
                            .timeout_seconds = timeout};

    return gw_local_run(&opt, body, arg);
}

static void assert_message(const char *part)
{
    if (strstr(gw_error_message(), part) == NULL)
        fail_msg("'%s' is not in '%s'", part, gw_error_message());
}

/* The last worker does something to itself after a few rounds of exchange. */
typedef struct mishap {
    int at_round;
    int signal;
} mishap;

static gw_status mishap_body(gw_comm *c, void *arg)
{
    const mishap *m = arg;
    float x[3000] = {0};

    for (int round = 0; round < 10; round++) {
        gwi_comm_set_step(c, (uint64_t)round);
        if (round == m->at_round && gw_comm_rank(c) == gw_comm_workers(c) - 1)
            raise(m->signal);
        PASS_ON(gw_allreduce(c, x, 3000));
    }
    return GW_OK;
}

static void test_killed_worker_is_named(void **state)
{
    int counts[] = {2, 5};

    (void)state;
    for (int i = 0; i < 2; i++) {
        for (int round = 0; round < 10; round += 3) {
            mishap m = {.at_round = round, .signal = SIGKILL};
            char expected[64];
            double begin = gwi_now();
            assert_int_equal(run(GW_SPAWN_PROCESSES, counts[i], 0, mishap_body, &m),
                             GW_ERR_PEER);
            snprintf(expected, sizeof expected, "worker %d on host", counts[i] - 1);
            assert_message(expected);
            assert_message("killed by signal 9");
            snprintf(expected, sizeof expected, "step %d", round);
            assert_message(expected);
            assert_true(gwi_now() - begin < 5);
            assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
        }
    }
}

static void test_stopped_worker_is_named(void **state)
{
    mishap m = {.at_round = 4, .signal = SIGSTOP};

    (void)state;
    assert_int_equal(run(GW_SPAWN_PROCESSES, 4, 1.5, mishap_body, &m), GW_ERR_TIMEOUT);
    assert_message("worker 3 on host");
    assert_message("has not answered for 1.5 s");
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static gw_status exits_body(gw_comm *c, void *arg)
{
    (void)arg;
    if (gw_comm_rank(c) == 1)
        _exit(7);
    return gw_barrier(c);
}

static void test_exit_is_named(void **state)
{
    (void)state;
    assert_int_equal(run(GW_SPAWN_PROCESSES, 3, 0, exits_body, NULL), GW_ERR_PEER);
    assert_message("worker 1");
    assert_message("exited with code 7");
}

/* A failure of one worker's own is what is reported, not that others noticed. */
static gw_status fails_body(gw_comm *c, void *arg)
{
    (void)arg;
    if (gw_comm_rank(c) == 2)
        return gw_fail(GW_ERR_SYSTEM, "the disk of worker 2 is full");
    return gw_barrier(c);
}

static void test_own_failure_comes_first(void **state)
{
    (void)state;
    for (int spawn = 0; spawn < 2; spawn++) {
        assert_int_equal(run((gw_spawn)spawn, 4, 0, fails_body, NULL), GW_ERR_SYSTEM);
        assert_string_equal(gw_error_message(), "the disk of worker 2 is full");
    }
}

static gw_status leaves_body(gw_comm *c, void *arg)
{
    (void)arg;
    return gw_comm_rank(c) == 0 ? GW_OK : gw_barrier(c);
}

static void test_early_leaver_is_named(void **state)
{
    (void)state;
    for (int spawn = 0; spawn < 2; spawn++) {
        assert_int_equal(run((gw_spawn)spawn, 2, 0, leaves_body, NULL), GW_ERR_PEER);
        assert_message("worker 0 on host");
        assert_message("has already ended");
    }
}

/* What a worker sent before it left can still be read. */
static gw_status last_words_body(gw_comm *c, void *arg)
{
    int word = 42;
    gwi_op op;

    (void)arg;
    if (gw_comm_rank(c) == 0) {
        PASS_ON(gwi_send(c, &op, 1, &word, sizeof word));
        return gwi_wait(c, &op);
    }
    word = 0;
    usleep(100000);
    PASS_ON(gwi_recv(c, &op, 0, &word, sizeof word));
    PASS_ON(gwi_wait(c, &op));
    REQUIRE(word == 42, "the last word was %d", word);
    return GW_OK;
}

static void test_last_words_arrive(void **state)
{
    (void)state;
    for (int spawn = 0; spawn < 2; spawn++)
        assert_run_ok(run((gw_spawn)spawn, 2, 0, last_words_body, NULL));
}

/* One worker sends more than the other expects. */
static gw_status too_long_body(gw_comm *c, void *arg)
{
    char buf[100] = {0};
    gwi_op op;

    (void)arg;
    if (gw_comm_rank(c) == 0) {
        PASS_ON(gwi_send(c, &op, 1, buf, 100));
        return gwi_wait(c, &op);
    }
    PASS_ON(gwi_recv(c, &op, 0, buf, 99));
    return gwi_wait(c, &op);
}

static void test_too_long_is_refused(void **state)
{
    (void)state;
    assert_int_equal(run(GW_SPAWN_THREADS, 2, 0, too_long_body, NULL), GW_ERR_DATA);
    assert_message("worker 0 sent 100 bytes, expected at most 99");
}

static gw_status silent_body(gw_comm *c, void *arg)
{
    (void)arg;
    if (gw_comm_rank(c) == 1)
        usleep(1200000);
    return gw_barrier(c);
}

static void test_slow_thread_is_named(void **state)
{
    (void)state;
    assert_int_equal(run(GW_SPAWN_THREADS, 3, 0.3, silent_body, NULL), GW_ERR_TIMEOUT);
    assert_message("has not answered for 0.3 s");
}

/* After a failure the comm stays failed, and says why. */
static gw_status broken_body(gw_comm *c, void *arg)
{
    float x = 0;

    (void)arg;
    if (gw_comm_rank(c) == 1)
        return GW_OK;
    gw_status first = gw_allreduce(c, &x, 1);
    gw_status second = gw_allreduce(c, &x, 1);
    REQUIRE(first == GW_ERR_PEER && second == GW_ERR_PEER, "%d then %d", first, second);
    REQUIRE(strstr(gw_error_message(), "has failed before") != NULL, "%s",
            gw_error_message());
    return GW_OK;
}

static void test_broken_comm_stays_broken(void **state)
{
    (void)state;
    assert_run_ok(run(GW_SPAWN_THREADS, 2, 0, broken_body, NULL));
}

/* ---- the death of the parent -------------------------------------------- */

static gw_status tell_pid_body(gw_comm *c, void *arg)
{
    int *pipe_end = arg;
    pid_t pid = getpid();

    if (write(*pipe_end, &pid, sizeof pid) != sizeof pid)
        return GW_ERR_SYSTEM;
    PASS_ON(gw_barrier(c));
    pause();
    return GW_OK;
}

static bool is_gone(pid_t pid)
{
    for (int i = 0; i < 100; i++) {
        char path[40], line[200] = "";
        snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
        FILE *f = fopen(path, "r");
        if (f == NULL)
            return true;
        bool zombie =
            fgets(line, sizeof line, f) != NULL && strstr(line, ") Z ") != NULL;
        fclose(f);
        if (zombie)
            return true;
        usleep(20000);
    }
    return false;
}

static void test_workers_die_with_parent(void **state)
{
    pid_t workers[3], parent;
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    parent = fork();
    if (parent == 0) {
        run(GW_SPAWN_PROCESSES, 3, 0, tell_pid_body, &ends[1]);
        _exit(0);
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(read(ends[0], &workers[i], sizeof workers[i]), sizeof(pid_t));
    kill(parent, SIGKILL);
    waitpid(parent, NULL, 0);
    for (int i = 0; i < 3; i++)
        assert_true(is_gone(workers[i]));
    close(ends[0]);
    close(ends[1]);
}

/* ---- groups without a supervisor ---------------------------------------- */

/* A forked worker that nobody watches is still seen to be gone. */
static void test_unwatched_death_is_seen(void **state)
{
    gw_local_options opt = {.struct_size = sizeof opt, .workers = 2};
    gw_local_group *group;
    gw_comm *comm;

    (void)state;
    assert_run_ok(gw_local_group_new(&group, &opt));
    pid_t child = fork();
    if (child == 0) {
        if (gw_local_join(&comm, group, 1) == GW_OK)
            usleep(200000);
        _exit(0); /* without leaving */
    }
    assert_run_ok(gw_local_join(&comm, group, 0));
    double begin = gwi_now();
    assert_int_equal(gw_barrier(comm), GW_ERR_PEER);
    assert_message("worker 1 on host");
    assert_true(gwi_now() - begin < 3);
    gw_comm_free(comm);
    gw_local_group_free(group);
    waitpid(child, NULL, 0);
}

/* A helper that a worker forks has a copy of its comm, and leaves, or fails. */
static gw_status forking_body(gw_comm *c, void *arg)
{
    const bool *fails = arg;

    PASS_ON(gw_barrier(c));
    if (gw_comm_rank(c) == 1) {
        pid_t child = fork();
        if (child == 0) {
            if (*fails)
                gw_comm_fail(c, GW_ERR_DATA);
            gw_comm_free(c);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    return gw_barrier(c);
}

static void test_helper_does_not_speak_for_worker(void **state)
{
    bool fails[] = {false, true};

    (void)state;
    for (int i = 0; i < 2; i++)
        assert_run_ok(run(GW_SPAWN_PROCESSES, 3, 0, forking_body, &fails[i]));
}

static void test_wrong_use_is_refused(void **state)
{
    gw_local_options opt = {.struct_size = sizeof opt, .workers = 0};
    gw_local_group *group;
    gw_comm *comm, *again;

    (void)state;
    assert_int_equal(gw_local_run(&opt, fails_body, NULL), GW_ERR_ARG);
    assert_message("number of workers 0");
    opt.workers = 2;
    assert_int_equal(gw_local_run(&opt, NULL, NULL), GW_ERR_ARG);
    opt.link = "1gbit,fast";
    assert_int_equal(gw_local_run(&opt, fails_body, NULL), GW_ERR_ARG);
    assert_message("invalid link latency 'fast'");
    opt.link = NULL;
    opt.struct_size = 3;
    assert_int_equal(gw_local_run(&opt, fails_body, NULL), GW_ERR_ARG);
    opt.struct_size = sizeof opt;
    assert_run_ok(gw_local_group_new(&group, &opt));
    assert_run_ok(gw_local_join(&comm, group, 0));
    assert_int_equal(gw_local_join(&again, group, 0), GW_ERR_ARG);
    assert_int_equal(gw_local_join(&again, group, 2), GW_ERR_ARG);
    gw_comm_free(comm);
    gw_local_group_free(group);
}

/* Every allocation fails in turn: always a clean status, nothing leaked. */
static void test_no_memory(void **state)
{
    gw_local_options opt = {.struct_size = sizeof opt, .workers = 2, .link = "1gbit"};
    gw_local_group *group = NULL;
    gw_comm *comm = NULL;

    (void)state;
    for (size_t k = 0; comm == NULL; k++) {
        gwi_alloc_fail_at(k);
        gw_status st = gw_local_group_new(&group, &opt);
        if (st == GW_OK)
            st = gw_local_join(&comm, group, 0);
        gwi_alloc_fail_at((size_t)-1);
        assert_int_equal(st, comm != NULL ? GW_OK : GW_ERR_NOMEM);
        if (comm == NULL)
            gw_local_group_free(group);
    }
    gw_comm_free(comm);
    gw_local_group_free(group);
}

/* ---- eight workers on few cores ----------------------------------------- */

static gw_status idle_body(gw_comm *c, void *arg)
{
    struct timespec before, after;

    (void)arg;
    PASS_ON(gw_barrier(c));
    if (gw_comm_rank(c) == 0)
        usleep(600000);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    PASS_ON(gw_barrier(c));
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    double cpu = (double)(after.tv_sec - before.tv_sec) +
                 1e-9 * (double)(after.tv_nsec - before.tv_nsec);
    REQUIRE(cpu < 0.1, "waiting for 0.6 s took %g s of processor time", cpu);
    return GW_OK;
}

static void test_waiting_sleeps(void **state)
{
    (void)state;
    assert_run_ok(run(GW_SPAWN_PROCESSES, 8, 0, idle_body, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_worker_is_named),
        cmocka_unit_test(test_stopped_worker_is_named),
        cmocka_unit_test(test_exit_is_named),
        cmocka_unit_test(test_own_failure_comes_first),
        cmocka_unit_test(test_early_leaver_is_named),
        cmocka_unit_test(test_last_words_arrive),
        cmocka_unit_test(test_too_long_is_refused),
        cmocka_unit_test(test_slow_thread_is_named),
        cmocka_unit_test(test_broken_comm_stays_broken),
        cmocka_unit_test(test_workers_die_with_parent),
        cmocka_unit_test(test_unwatched_death_is_seen),
        cmocka_unit_test(test_helper_does_not_speak_for_worker),
        cmocka_unit_test(test_wrong_use_is_refused),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_waiting_sleeps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
