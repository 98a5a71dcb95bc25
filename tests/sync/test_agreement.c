/* SPDX-License-Identifier: Apache-2.0
 *
 * test_agreement.c - a model that has become another than the others' is found at the
 * next comparison, and the worker that has it is named. */
#define _GNU_SOURCE
#include "support_model.h"
#include "support_ranks.h"

#include <stdlib.h>
#include <string.h>

enum { WORKERS = 4, N = MODEL_FLOATS, STEPS = 12, NEVER = 99 };

typedef struct scene {
    const char *spec;
    int odd, at; /* worker `odd` changes a bit of its model after this step */
    int found;   /* the step in which it is found; 0: in none, STEPS + 1: at the end */
    const char *ranks; /* who is named */
} scene;

static gw_status one_step(const scene *sc, gw_sync *s, int rank, int t, float *x,
                          float *g)
{
    model_gradient(g, x, rank, t);
    PASS_ON(gw_sync_gradient(s, g));
    for (size_t i = 0; i < N; i++)
        x[i] -= 0.01f * g[i];
    gw_status st = gw_sync_model(s, x);
    if (rank == sc->odd && t == sc->at)
        x[N - 1] += 0.5f;
    return st;
}

static gw_status scene_body(gw_comm *c, void *arg)
{
    const scene *sc = arg;
    float *x = calloc(2 * N, sizeof *x);
    gw_sync *s;
    gw_status st = GW_OK;
    int t = 0;

    PASS_ON(model_sync(&s, c, sc->spec, GW_NONFINITE_STOP));
    PASS_ON(gw_sync_start(s, x));
    while (st == GW_OK && ++t <= STEPS)
        st = one_step(sc, s, gw_comm_rank(c), t, x, x + N);
    if (st == GW_OK)
        st = gw_sync_finish(s, x);
    gw_sync_free(s);
    free(x);
    if (sc->found == 0)
        return st;
    REQUIRE(st == GW_ERR_DIFFER && t == sc->found, "%s: %s in step %d (%.200s)",
            sc->spec, gw_status_name(st), t, gw_error_message());
    REQUIRE(strstr(gw_error_message(), sc->ranks) != NULL, "'%.300s' names not '%s'",
            gw_error_message(), sc->ranks);
    return GW_OK;
}

static void test_who_differs_is_named(void **state)
{
    static const scene scenes[] = {
        {"dense+check:5", 2, 3, 5, "another model: 2 "},
        {"dense+check:5", 0, 5, 10, "another model: 0 "},
        {"gtopk:0.02+check:4", 3, 1, 4, "another model: 3 "},
        {"topk:0.02+q:4+check:1", 1, 2, 3, "another model: 1 "},
        {"drop:0.95+check:7", 1, 1, 7, "another model: 1 "},
        {"qsgd:4+check:7", 1, 1, 7, "another model: 1 "},
        /* Models are averaged, so nothing differs after that. */
        {"local:2+check:1", 1, 3, 0, ""},
        /* Changes since the last common model: a difference stays. */
        {"pqasgd:2,8+check:3", NEVER, 0, 0, ""},
        {"local:grow,grow=8+check:2", NEVER, 0, 0, ""},
        {"dense+check:0", 1, 3, 0, ""},
        /* Nothing is said: every 1000 steps, and at the end. */
        {"dense", 1, 3, STEPS + 1, "another model: 1 "},
        {"dense", NEVER, 0, 0, ""},
        /* Drifting models are equal after those steps that average them. */
        {"a2sgd:resync=6", 3, 12, STEPS + 1, "another model: 3 "},
        {"a2sgd:resync=5", NEVER, 0, 0, ""},
        {"oneshot", NEVER, 0, 0, ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
        assert_run_ok(ranks_run(RANKS_THREADS, WORKERS, scene_body,
                                (void *)(uintptr_t)&scenes[i]));
}

static void test_where_it_fits(void **state)
{
    static const char *const refused[] = {"none+check:5", "a2sgd+check:5", "check:5"};
    static const char *const taken[] = {"spa:3+check:0", "oneshot+check:0",
                                        "a2sgd:resync=2+check:4"};
    char text[256];

    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_int_equal(gw_spec_check(refused[i], NULL, 0), GW_ERR_SPEC);
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        assert_int_equal(gw_spec_check(taken[i], NULL, 0), GW_OK);
    assert_int_equal(gw_spec_check("qsgd:4+check:9", text, sizeof text), GW_OK);
    assert_non_null(strstr(text, "+check:every=9"));
    assert_int_equal(gw_spec_check("qsgd:4", text, sizeof text), GW_OK);
    assert_null(strstr(text, "check"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_differs_is_named),
        cmocka_unit_test(test_where_it_fits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
