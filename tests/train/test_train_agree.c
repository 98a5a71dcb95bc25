/* SPDX-License-Identifier: Apache-2.0
 *
 * test_train_agree.c - workers that were started one by one: agreeing on failures and
 * on when to stop, comparing settings, and a run over a comm that is there already.
 * Threads stand for ranks of MPI. */
#define _GNU_SOURCE
#include "support_ranks.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/agree.h"
#include "run/stop_together.h"

enum { WORKERS = 3 };

static gw_status run(gw_body *body, void *arg)
{
    return ranks_run(RANKS_THREADS, WORKERS, body, arg);
}

/* ---- failures ------------------------------------------------------------------- */

/* Every worker hears the same of the one that failed, and the comm stays good. */
static gw_status one_fails(gw_comm *c, void *arg)
{
    char first[512] = "";

    (void)arg;
    PASS_ON(gwt_agree(c, GW_OK));
    gw_status own = GW_OK;
    if (gw_comm_rank(c) == 1)
        own = gw_fail(GW_ERR_SYSTEM, "cannot read a file");
    gw_status st = gwt_agree(c, own);
    REQUIRE(st == GW_ERR_SYSTEM, "the status is %s", gw_status_name(st));
    REQUIRE(strncmp(gw_error_message(), "worker 1 on host ", 17) == 0 &&
                strstr(gw_error_message(), "cannot read a file") != NULL,
            "the message is '%s'", strdupa(gw_error_message()));
    snprintf(first, sizeof first, "%s", gw_error_message());
    PASS_ON(gw_broadcast(c, first, sizeof first, 0));
    REQUIRE(strcmp(first, gw_error_message()) == 0, "messages differ");
    return gw_barrier(c);
}

static gw_status all_fail(gw_comm *c, void *arg)
{
    (void)arg;
    gw_status st = gwt_agree(c, gw_fail(GW_ERR_ARG, "no such model"));
    REQUIRE(st == GW_ERR_ARG && strcmp(gw_error_message(), "no such model") == 0,
            "the message is '%s'", strdupa(gw_error_message()));
    return gw_barrier(c);
}

static void test_failures(void **state)
{
    (void)state;
    assert_run_ok(run(one_fails, NULL));
    assert_run_ok(run(all_fail, NULL));
}

/* ---- stopping ------------------------------------------------------------------- */

/* Worker 2 asks after some steps; all end before the same one. */
static gw_status stops(gw_comm *c, void *arg)
{
    uint64_t *ends = arg;
    gwt_stop stop = {0};
    gwt_stop_together pact = {0};
    int go = 1;
    uint64_t t;

    for (t = 1; t < 100000000; t++) {
        if (gw_comm_rank(c) == 2 && t == 40)
            gwt_stop_request(&stop);
        PASS_ON(gwt_stop_together_enter(&pact, c, &stop, t, &go));
        if (!go)
            break;
    }
    REQUIRE(!go && t >= 40, "no end, or one too early: %llu", (unsigned long long)t);
    ends[gw_comm_rank(c)] = t;
    return GW_OK;
}

static void test_stop(void **state)
{
    uint64_t ends[WORKERS] = {0};

    (void)state;
    assert_run_ok(run(stops, ends));
    for (int r = 1; r < WORKERS; r++)
        assert_int_equal(ends[r], ends[0]);
}

/* ---- runs ------------------------------------------------------------------------ */

typedef struct plan {
    char out[64];
    uint64_t odd_batch; /* worker 1's, if not 0 */
    const char *odd_model;
    int stop; /* worker 1 asks for it at once */
    uint64_t hash, steps;
    int stopped;
} plan;

static gwt_config config_of(const plan *p)
{
    return (gwt_config){.model = "softmax",
                        .data = "synthetic:train=600,test=50,dim=20,classes=4",
                        .sync = "gtopk:0.1",
                        .optimizer = "sgd",
                        .schedule = "constant",
                        .warmup = "0",
                        .out = p->out,
                        .force = 1,
                        .keep = 2,
                        .workers = WORKERS,
                        .spawn = GW_SPAWN_THREADS,
                        .threads = 1,
                        .timeout = 60,
                        .steps = 30,
                        .batch = 8,
                        .seed = 3,
                        .lr = 0.1};
}

static gw_status train_over(gw_comm *c, void *arg)
{
    plan *p = arg;
    gwt_config config = config_of(p);
    gwt_job *job;

    config.comm = c;
    if (gw_comm_rank(c) == 1 && p->odd_batch != 0)
        config.batch = p->odd_batch;
    if (gw_comm_rank(c) == 1 && p->odd_model != NULL)
        config.model = p->odd_model;
    PASS_ON(gwt_job_new(&job, &config));
    if (p->stop && gw_comm_rank(c) == 1)
        gwt_job_stop(job);
    gw_status st = gwt_job_run(job, NULL);
    if (st == GW_OK && gw_comm_rank(c) == 0) {
        p->hash = gwt_job_summary(job)->model_hash;
        p->steps = gwt_job_summary(job)->steps;
        p->stopped = gwt_job_summary(job)->stopped;
    }
    gwt_job_free(job);
    return st;
}

static int set_up(void **state)
{
    plan *p = calloc(1, sizeof *p);

    snprintf(p->out, sizeof p->out, "/tmp/gradwire-agree-XXXXXX");
    *state = p;
    return p == NULL || mkdtemp(p->out) == NULL;
}

static int clean_up(void **state)
{
    plan *p = *state;
    char command[96];

    snprintf(command, sizeof command, "rm -r '%s'", p->out);
    int code = system(command);
    free(p);
    return code;
}

static void test_same_run(void **state)
{
    plan *p = *state;
    gwt_config config = config_of(p);
    gwt_job *job;

    assert_run_ok(run(train_over, p));
    assert_int_equal(gwt_job_new(&job, &config), GW_OK);
    assert_run_ok(gwt_job_run(job, NULL));
    assert_true(gwt_job_summary(job)->model_hash == p->hash);
    assert_int_equal(p->steps, 30);
    assert_int_equal(p->stopped, 0);
    gwt_job_free(job);
}

static void test_stopped_run(void **state)
{
    plan *p = *state;

    p->stop = 1;
    assert_run_ok(run(train_over, p));
    assert_int_equal(p->stopped, 1);
    assert_int_equal(p->steps, 0);
}

static void test_differing(void **state)
{
    plan *p = *state;

    p->odd_batch = 16;
    assert_int_equal(run(train_over, p), GW_ERR_MISMATCH);
    assert_non_null(strstr(gw_error_message(), "worker 1 on host "));
    assert_non_null(strstr(gw_error_message(), "--batch 16"));
    assert_non_null(strstr(gw_error_message(), "--batch 8"));
    p->odd_batch = 0;
    p->odd_model = "nonesuch";
    assert_int_equal(run(train_over, p), GW_ERR_ARG);
    assert_non_null(strstr(gw_error_message(), "worker 1 on host "));
    assert_non_null(strstr(gw_error_message(), "nonesuch"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_stop),
        cmocka_unit_test_setup_teardown(test_same_run, set_up, clean_up),
        cmocka_unit_test_setup_teardown(test_stopped_run, set_up, clean_up),
        cmocka_unit_test_setup_teardown(test_differing, set_up, clean_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
