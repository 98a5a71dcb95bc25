/* SPDX-License-Identifier: Apache-2.0
 *
 * test_late.c - exchanges beside the caller (delay=1): results come one step late and
 * are those of the method without delay; nothing else may use the comm meanwhile; time
 * on the wire costs nothing while the caller computes; failures are named, and nothing
 * hangs. */
#define _GNU_SOURCE
#include "support_ranks.h"

#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support_model.h"
#include "sync/beside/late.h"

enum { N = MODEL_FLOATS, STEPS = 6 };

static void fill(float *g, int rank, int t)
{
    for (size_t i = 0; i < N; i++)
        g[i] = test_float((uint64_t)(100 * t + rank), i);
}

/* ---- what comes out -------------------------------------------------------------- */

/* Gradients do not depend on the model here, so that both runs have the same. */
static gw_status shifted(gw_comm *c, void *arg)
{
    const char *const *specs = arg;
    float *all = calloc((STEPS + 2) * N, sizeof *all), *g = all + (STEPS + 1) * N;
    gw_sync *s;
    int late = 0;

    for (int which = 0; which < 2; which++) {
        PASS_ON(model_sync(&s, c, specs[which], GW_NONFINITE_STOP));
        REQUIRE(!gw_sync_pending(s), "something is under way before the first step");
        for (int t = 1; t <= STEPS; t++) {
            fill(g, gw_comm_rank(c), t);
            PASS_ON(gw_sync_gradient(s, g));
            late = gw_sync_pending(s);
            REQUIRE(late == which, "%s: pending is %d", specs[which], late);
            if (which == 0)
                memcpy(all + t * N, g, N * sizeof *g);
            else /* zeros in the first step */
                REQUIRE(memcmp(all + (t - 1) * N, g, N * sizeof *g) == 0,
                        "step %d is not step %d of '%s'", t, t - 1, specs[0]);
        }
        if (which == 1) {
            PASS_ON(gw_sync_drain(s, g));
            REQUIRE(memcmp(all + STEPS * N, g, N * sizeof *g) == 0, "the last is lost");
            REQUIRE(!gw_sync_pending(s), "it is still under way");
            REQUIRE(gw_sync_drain(s, g) == GW_ERR_ARG, "it was drained twice");
        }
        gw_sync_free(s);
    }
    free(all);
    return GW_OK;
}

static void test_one_step_late(void **state)
{
    static const char *const pairs[][2] = {
        {"dense", "dense:delay=1,lead=0"},
        {"topk:0.02", "topk:0.02,delay=1,lead=0"},
        {"gtopk:0.05,warmup=2+q:4+momentum:0.9",
         "gtopk:0.05,warmup=2,delay=1,lead=0+q:4+momentum:0.9"},
        {"oktopk:0.05", "oktopk:0.05,delay=1,lead=0"},
        {"randk:0.1+ef21", "randk:0.1,delay=1,lead=0+ef21"},
        {"lowrank:2", "lowrank:2,delay=1,lead=0"},
        {"qsgd:4", "qsgd:4,delay=1,lead=0"},
        {"sign", "sign:delay=1,lead=0"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        assert_run_ok(
            ranks_run(RANKS_THREADS, 3, shifted, (void *)(uintptr_t)pairs[i]));
}

/* ---- the comm -------------------------------------------------------------------- */

/* Collectives of the caller come after the exchange, on all workers alike. */
static gw_status mixed(gw_comm *c, void *arg)
{
    float *g = calloc(N, sizeof *g);
    gw_sync *s;

    (void)arg;
    PASS_ON(model_sync(&s, c, "topk:0.02,delay=1", GW_NONFINITE_STOP));
    gw_traffic before = gw_comm_traffic(c);
    for (int t = 1; t <= STEPS; t++) {
        float sum = 1;
        fill(g, gw_comm_rank(c), t);
        PASS_ON(gw_sync_set_rate(s, 0.1 / t));
        PASS_ON(gw_sync_gradient(s, g));
        PASS_ON(gw_allreduce(c, &sum, 1));
        REQUIRE((int)sum == gw_comm_workers(c), "the sum is %g", (double)sum);
        PASS_ON(gw_barrier(c));
        REQUIRE(gw_sync_residual_norm(s) > 0, "nothing is left");
        gw_stats seen = gw_sync_stats(s);
        REQUIRE(seen.steps == (uint64_t)t && (seen.bytes_sent > 0) == (t > 1),
                "%d steps, %d bytes", (int)seen.steps, (int)seen.bytes_sent);
    }
    PASS_ON(gw_sync_finish(s, g));
    gw_traffic after = gw_comm_traffic(c);
    REQUIRE(gw_sync_stats(s).bytes_sent < after.bytes_sent - before.bytes_sent,
            "more was counted than has crossed");
    gw_sync_free(s);
    free(g);
    return GW_OK;
}

static void test_one_thread_at_a_time(void **state)
{
    (void)state;
    for (rank_kind kind = 0; kind < RANKS_KINDS; kind++)
        assert_run_ok(ranks_run(kind, 3, mixed, NULL));
}

/* ---- time ------------------------------------------------------------------------ */

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Computes, asleep, for 3 times the latency of the link; the caller waits for less. */
static gw_status slept(gw_comm *c, void *arg)
{
    struct timespec nap = {.tv_nsec = 300000000};
    float *g = calloc(N, sizeof *g);
    gw_sync *s;

    PASS_ON(model_sync(&s, c, arg, GW_NONFINITE_STOP));
    double began = now();
    for (int t = 1; t <= 3; t++) {
        fill(g, gw_comm_rank(c), t);
        PASS_ON(gw_sync_gradient(s, g));
        nanosleep(&nap, NULL);
    }
    PASS_ON(gw_barrier(c));
    double took = now() - began, waited = gw_sync_stats(s).wait_seconds;
    REQUIRE(waited < 0.5 * took, "%g of %g s were spent waiting", waited, took);
    gw_sync_free(s);
    free(g);
    return GW_OK;
}

static void test_waiting_is_the_callers(void **state)
{
    (void)state;
    assert_run_ok(
        ranks_run_with(RANKS_THREADS, 2, "1gbit,100ms", 0, slept, "topk:0.02,delay=1"));
}

/* ---- failures -------------------------------------------------------------------- */

/* The last worker leaves after two steps, without a word. */
static gw_status left_alone(gw_comm *c, void *arg)
{
    float *g = calloc(N, sizeof *g);
    bool leaves = gw_comm_rank(c) == gw_comm_workers(c) - 1;
    gw_status st = GW_OK, again;
    gw_sync *s;

    (void)arg;
    PASS_ON(model_sync(&s, c, "dense:delay=1", GW_NONFINITE_STOP));
    for (int t = 1; st == GW_OK && t <= 5 && !(leaves && t == 3); t++) {
        fill(g, gw_comm_rank(c), t);
        st = gw_sync_gradient(s, g);
    }
    if (!leaves) {
        char state[64];
        again = gw_sync_gradient(s, g);
        REQUIRE(st == GW_ERR_PEER && again == GW_ERR_PEER, "%s, then %s",
                gw_status_name(st), gw_status_name(again));
        REQUIRE(gw_sync_finish(s, g) == GW_ERR_PEER, "it has finished");
        REQUIRE(gw_sync_save(s, state, sizeof state) != GW_OK, "it was saved");
    }
    gw_sync_free(s);
    free(g);
    return leaves ? gw_fail(GW_ERR_STOPPED, "this one leaves") : GW_OK;
}

static void test_a_worker_leaves(void **state)
{
    (void)state;
    for (rank_kind kind = 0; kind < RANKS_KINDS; kind++) {
        gw_status st = ranks_run(kind, 3, left_alone, NULL);
        if (st != GW_ERR_STOPPED)
            fail_msg("%s: %s: %s", rank_kind_name(kind), gw_status_name(st),
                     gw_error_message());
    }
}

/* A sync that is freed while it exchanges ends its exchange first. */
static gw_status freed(gw_comm *c, void *arg)
{
    float *g = calloc(N, sizeof *g);
    gw_sync *s;

    (void)arg;
    for (int i = 0; i < 20; i++) {
        PASS_ON(model_sync(&s, c, "gtopk:0.02,delay=1", GW_NONFINITE_STOP));
        fill(g, gw_comm_rank(c), i);
        PASS_ON(gw_sync_gradient(s, g));
        gw_sync_free(s);
    }
    free(g);
    return gw_barrier(c);
}

static void test_freed_under_way(void **state)
{
    (void)state;
    assert_run_ok(ranks_run(RANKS_THREADS, 4, freed, NULL));
}

/* Another thread, or this one, asks an exchange that waits for others to stop. The
 * other worker never enters the exchange, and does not leave before it has ended. */
static gw_status interrupted(gw_comm *c, void *arg)
{
    sem_t *ended = arg;
    float *g = calloc(N, sizeof *g);
    gw_status first = GW_OK, second = GW_OK;
    gw_sync *s;

    PASS_ON(model_sync(&s, c, "dense:delay=1", GW_NONFINITE_STOP));
    if (gw_comm_rank(c) == 0) {
        first = gw_sync_gradient(s, g);
        gw_comm_interrupt(c);
        second = gw_sync_gradient(s, g);
        sem_post(ended);
    } else {
        sem_wait(ended);
    }
    gw_sync_free(s);
    free(g);
    REQUIRE(first == GW_OK, "the first step: %s", gw_status_name(first));
    REQUIRE(gw_comm_rank(c) != 0 || second == GW_ERR_STOPPED, "the second step: %s",
            gw_status_name(second));
    return GW_OK;
}

static void test_interrupted(void **state)
{
    sem_t ended;

    (void)state;
    assert_int_equal(sem_init(&ended, 0, 0), 0);
    assert_run_ok(ranks_run(RANKS_THREADS, 2, interrupted, &ended));
    sem_destroy(&ended);
}

/* ---- specs ----------------------------------------------------------------------- */

static void refused(const char *spec, const char *why)
{
    assert_int_equal(gw_spec_check(spec, NULL, 0), GW_ERR_SPEC);
    if (strstr(gw_error_message(), why) == NULL)
        fail_msg("'%s': %s", spec, gw_error_message());
}

static void test_specs(void **state)
{
    char text[256];

    (void)state;
    refused("topk:0.01,delay=2", "delay");
    refused("none:delay=1", "no option 'delay'");
    refused("update+topk:0.01,delay=1", "first stage, 'update'");
    refused("dense:1", "too many");
    assert_int_equal(gw_spec_check("dense:delay=0", text, sizeof text), GW_OK);
    assert_string_equal(text, "dense");
    assert_int_equal(gw_spec_check("sign:delay=1", text, sizeof text), GW_OK);
    assert_non_null(strstr(text, "delay=1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_step_late),
        cmocka_unit_test(test_one_thread_at_a_time),
        cmocka_unit_test(test_waiting_is_the_callers),
        cmocka_unit_test(test_a_worker_leaves),
        cmocka_unit_test(test_freed_under_way),
        cmocka_unit_test(test_interrupted),
        cmocka_unit_test(test_specs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
