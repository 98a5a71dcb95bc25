/* SPDX-License-Identifier: Apache-2.0
 *
 * test_finish.c - gw_sync_finish() after any number of steps: it leaves the same model
 * on all workers, and every bit as it was where that is so already; likewise in a run
 * that was stopped right before it and resumed. */
#define _GNU_SOURCE
#include "support_ranks.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "support_model.h"
#include "sync/sync.h"

enum { N = MODEL_FLOATS, WORKERS_MAX = 5 };

typedef struct job {
    const char *spec;
    int steps;
    bool resumes;    /* right before it finishes */
    bool unstarted;  /* without gw_sync_start() */
    uint64_t digest; /* of worker 0's last model */
    bool left_alone; /* worker 0's model was equal to the others' already */
} job;

/* Whether all workers have the same bits. */
static gw_status same_everywhere(gw_comm *c, const float *x, bool *same)
{
    uint64_t own = model_digest(x), all[WORKERS_MAX];
    size_t lens[WORKERS_MAX];

    *same = true;
    PASS_ON(gw_allgather(c, &own, sizeof own, all, sizeof own, lens));
    for (int r = 0; r < gw_comm_workers(c); r++)
        *same = *same && all[r] == own;
    return GW_OK;
}

/* Replaces the sync by a new one with its state. */
static gw_status resume(gw_comm *c, gw_sync **s, const char *spec)
{
    size_t len = gw_sync_state_len(*s), rank = (size_t)gw_comm_rank(c);
    void *state = malloc(len);
    gw_status st = gw_sync_save(*s, state, len);

    gw_sync_free(*s);
    *s = NULL;
    if (st == GW_OK)
        st = model_sync(s, c, spec, GW_NONFINITE_STOP);
    if (st == GW_OK)
        st = gw_sync_load_one(*s, state, len, rank, (size_t)gw_comm_workers(c));
    free(state);
    return st;
}

static gw_status train(gw_comm *c, gw_sync **s, float *x, float *g, const job *j)
{
    if (!j->unstarted)
        PASS_ON(gw_sync_start(*s, x));
    for (int t = 1; t <= j->steps; t++) {
        model_gradient(g, x, gw_comm_rank(c), t);
        PASS_ON(gw_sync_gradient(*s, g));
        for (size_t i = 0; i < N; i++)
            x[i] -= 0.1f * g[i];
        PASS_ON(gw_sync_model(*s, x));
    }
    return j->resumes ? resume(c, s, j->spec) : GW_OK;
}

static gw_status finish(gw_comm *c, gw_sync *s, float *x, job *j)
{
    uint64_t before = model_digest(x), sent = gw_sync_stats(s).bytes_sent;
    bool equal, after;

    PASS_ON(same_everywhere(c, x, &equal));
    PASS_ON(gw_sync_finish(s, x));
    PASS_ON(same_everywhere(c, x, &after));
    REQUIRE(after, "%s: models differ after %d steps", j->spec, j->steps);
    REQUIRE(!equal || j->unstarted || j->steps == 0 || s->kept[GWI_MEAN] != NULL ||
                model_digest(x) == before,
            "%s: models that are equal after %d steps are changed", j->spec, j->steps);
    bool silent = gw_sync_stats(s).bytes_sent == sent;
    REQUIRE(equal || !silent, "%s: nothing is sent after %d steps", j->spec, j->steps);
    if (gw_comm_rank(c) == 0) {
        j->digest = model_digest(x);
        j->left_alone = silent;
    }
    return GW_OK;
}

static gw_status body(gw_comm *c, void *arg)
{
    job *j = arg;
    float *x = malloc(2 * N * sizeof *x);
    gw_sync *s = NULL;
    gw_status st = model_sync(&s, c, j->spec, GW_NONFINITE_STOP);

    for (size_t i = 0; i < N; i++)
        x[i] = test_float(1, i);
    if (st == GW_OK)
        st = train(c, &s, x, x + N, j);
    if (st == GW_OK)
        st = finish(c, s, x, j);
    gw_sync_free(s);
    free(x);
    return st;
}

static const char *const specs[] = {
    "local:2",
    "local:3,start=2",
    "local:grow,grow=4",
    "local:2,average=polyak",
    "local:3,start=4,average=polyak",
    "local:2+topk:0.05+q:4",
    "local:2+gtopk:0.05",
    "local:2+drop:0.9+1bit",
    "local:2,start=2+topk:0.05",
    "local:1+q:4",
    "pqasgd:2,4",
    "pqasgd:1,8",
    "pqasgd:3,8,via=gather,residual=on",
    "oneshot",
    "oneshot:polyak",
    "spa:3",
};

static void test_any_number_of_steps(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        for (int steps = 0; steps <= 7; steps++)
            for (int workers = 2; workers <= WORKERS_MAX; workers++) {
                job j = {.spec = specs[i], .steps = steps}, k = j;
                assert_run_ok(ranks_run(RANKS_THREADS, workers, body, &j));
                k.resumes = true;
                assert_run_ok(ranks_run(RANKS_THREADS, workers, body, &k));
                if (j.digest != k.digest || j.left_alone != k.left_alone)
                    fail_msg("'%s' resumed after %d steps ends otherwise", j.spec,
                             steps);
            }
}

/* In which of steps 1 to 7 the last word has been said. */
static void test_when_nothing_is_left_to_do(void **state)
{
    static const struct {
        const char *spec, *equal;
    } table[] = {
        {"local:2", ".x.x.x."},
        {"local:3,start=2", "xx..x.."},
        {"pqasgd:3,8", "..x..x."},
        {"local:2+topk:0.05+q:4", ".x.x.x."},
        {"pqasgd:1,8", "xxxxxxx"},
        {"local:2,average=polyak", "......."},
        {"local:3,start=4,average=polyak", "xxxx..."},
        {"oneshot", "......."},
        {"spa:3", "......."},
        {"dense", "xxxxxxx"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        for (int steps = 1; steps <= 7; steps++) {
            job j = {.spec = table[i].spec, .steps = steps};
            assert_run_ok(ranks_run(RANKS_THREADS, 3, body, &j));
            if (j.left_alone != (table[i].equal[steps - 1] == 'x'))
                fail_msg("'%s' after %d steps: %s", j.spec, steps,
                         j.left_alone ? "left alone" : "averaged");
        }
}

/* Nobody knows then whether dense steps have begun with equal models. */
static void test_without_a_start(void **state)
{
    job j = {.spec = "local:3,start=4", .steps = 3, .unstarted = true};

    (void)state;
    assert_run_ok(ranks_run(RANKS_THREADS, 3, body, &j));
    assert_false(j.left_alone);
}

/* Who leaves out the last exchange of models, which was due, gets the average. */
static gw_status forgetful_body(gw_comm *c, void *arg)
{
    float *x = calloc(2 * N, sizeof *x);
    bool same;
    gw_sync *s;

    (void)arg;
    PASS_ON(model_sync(&s, c, "local:2", GW_NONFINITE_STOP));
    PASS_ON(gw_sync_start(s, x));
    for (int t = 1; t <= 2; t++) {
        model_gradient(x + N, x, gw_comm_rank(c), t);
        PASS_ON(gw_sync_gradient(s, x + N));
        for (size_t i = 0; i < N; i++)
            x[i] -= x[N + i];
        if (t < 2)
            PASS_ON(gw_sync_model(s, x));
    }
    PASS_ON(gw_sync_finish(s, x));
    PASS_ON(same_everywhere(c, x, &same));
    gw_sync_free(s);
    free(x);
    REQUIRE(same, "models differ");
    return GW_OK;
}

static void test_last_exchange_left_out(void **state)
{
    (void)state;
    assert_run_ok(ranks_run(RANKS_THREADS, 3, forgetful_body, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_number_of_steps),
        cmocka_unit_test(test_when_nothing_is_left_to_do),
        cmocka_unit_test(test_without_a_start),
        cmocka_unit_test(test_last_exchange_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
