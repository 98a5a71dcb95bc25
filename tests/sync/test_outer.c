/* SPDX-License-Identifier: Apache-2.0
 *
 * test_outer.c - the outer step by hand: published check values, what it refuses, and
 * what a run that goes on with other workers has of its velocity. */
#define _GNU_SOURCE
#include "support_ranks.h"

#include <math.h>
#include <string.h>

#include "sync/sync.h"

enum { N = 5, ROUNDS = 2, EVERY = 3 };

static gw_status make_sync(gw_sync **sync, gw_comm *c, const char *spec)
{
    gw_tensor tensor = {.name = "w", .rows = 1, .cols = N};
    gw_layout *layout;

    PASS_ON(gw_layout_new(&layout, &tensor, 1));
    gw_status st = gw_sync_new(sync, spec, layout, c, NULL);
    gw_layout_free(layout);
    return st;
}

/* ---- by hand ---------------------------------------------------------------- */

typedef struct history {
    const char *spec;
    double model[ROUNDS]; /* after each exchange */
} history;

/* The models begin with 1. The workers' changes of a round differ, and are on average
 * 0.3 and then 0.1 down. */
static gw_status history_body(gw_comm *c, void *arg)
{
    static const double down[ROUNDS] = {0.3, 0.1};
    const history *h = arg;
    double own = gw_comm_rank(c) - (gw_comm_workers(c) - 1) / 2.0;
    float x[N], g[N] = {0};
    gw_sync *s;

    for (size_t i = 0; i < N; i++)
        x[i] = 1;
    PASS_ON(make_sync(&s, c, h->spec));
    PASS_ON(gw_sync_start(s, x));
    for (int t = 0; t < ROUNDS * EVERY; t++) {
        PASS_ON(gw_sync_gradient(s, g));
        for (size_t i = 0; i < N; i++)
            x[i] -= (float)((down[t / EVERY] + 0.01 * own) / EVERY);
        PASS_ON(gw_sync_model(s, gw_sync_model_due(s) ? x : NULL));
        double want = h->model[t / EVERY];
        REQUIRE((t + 1) % EVERY != 0 || fabs((double)x[N - 1] - want) < 1e-5,
                "%s: %g after round %d, not %g", h->spec, (double)x[N - 1], t / EVERY,
                want);
    }
    gw_sync_free(s);
    return GW_OK;
}

static void test_histories(void **state)
{
    static const history histories[] = {
        {"local:3+outer:0.7,0.9", {0.601, 0.2979}}, /* DiLoCo's */
        {"diloco:3", {0.601, 0.2979}},
        {"local:3+outer:0.7,0.9,nesterov=off", {0.79, 0.531}},
        {"local:3+outer:0.4,0", {0.88, 0.84}},
        {"local:3+outer:1,0", {0.7, 0.6}},
        {"local:3", {0.7, 0.6}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof histories / sizeof *histories; i++)
        for (int workers = 1; workers <= 5; workers += 2)
            assert_run_ok(ranks_run(RANKS_THREADS, workers, history_body,
                                    (void *)(uintptr_t)&histories[i]));
}

/* ---- what it refuses ---------------------------------------------------------- */

static void test_refused(void **state)
{
    static const struct {
        const char *spec, *says;
    } refused[] = {
        {"outer:0.7,0.9", "cannot begin with 'outer'"},
        {"dense+outer:0.7,0.9", "as in 'local:30+outer'"},
        {"topk:0.01+outer", "as in 'local:30+outer'"},
        {"outer+local:8", "begin with one of"},
        {"local:8+outer+topk:0.1", "'topk' must come before 'outer'"},
        {"diloco:8+outer:0.5,0.9", "both have an outer step"},
        {"spa:4+outer", "cannot be combined"},
        {"oneshot+outer", "cannot be combined"},
        {"local:8+outer:0", "expected above 0"},
        {"local:8+outer:0.7,1", "from 0 to below 1"},
        {"diloco", "requires every"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_int_equal(gw_spec_check(refused[i].spec, NULL, 0), GW_ERR_SPEC);
        if (strstr(gw_error_message(), refused[i].says) == NULL)
            fail_msg("'%s': %s", refused[i].spec, gw_error_message());
    }
}

static void test_printed_in_full(void **state)
{
    char text[256];

    (void)state;
    assert_run_ok(gw_spec_check("diloco:30", text, sizeof text));
    assert_string_equal(text, "diloco:every=30,lr=0.7,momentum=0.9,nesterov=on,"
                              "start=0,average=none");
}

/* ---- other workers -------------------------------------------------------------- */

typedef struct handed {
    uint8_t states[3][4096];
    size_t lens[3];
} handed;

static gw_status one_round(gw_sync *s, float *x)
{
    float g[N] = {0};

    for (int t = 0; t < EVERY; t++) {
        PASS_ON(gw_sync_gradient(s, g));
        for (size_t i = 0; i < N; i++)
            x[i] -= 0.1f;
        PASS_ON(gw_sync_model(s, gw_sync_model_due(s) ? x : NULL));
    }
    return GW_OK;
}

static gw_status saving_body(gw_comm *c, void *arg)
{
    handed *h = arg;
    int rank = gw_comm_rank(c);
    float x[N] = {0};
    gw_sync *s;

    PASS_ON(make_sync(&s, c, "diloco:3"));
    PASS_ON(gw_sync_start(s, x));
    PASS_ON(one_round(s, x));
    h->lens[rank] = gw_sync_state_len(s);
    gw_status st = gw_sync_save(s, h->states[rank], sizeof h->states[rank]);
    gw_sync_free(s);
    return st;
}

/* The velocity is that of the workers before, on every worker: -0.3, and not the sum.
 */
static gw_status loading_body(gw_comm *c, void *arg)
{
    const handed *h = arg;
    const void *states[] = {h->states[0], h->states[1], h->states[2]};
    gw_sync *s;

    PASS_ON(make_sync(&s, c, "diloco:3"));
    PASS_ON(gw_sync_load(s, states, h->lens, 3));
    for (size_t i = 0; i < N; i++)
        REQUIRE(fabsf(s->kept[GWI_VELOCITY][i] + 0.3f) < 1e-6f, "the velocity is %g",
                (double)s->kept[GWI_VELOCITY][i]);
    gw_sync_free(s);
    return GW_OK;
}

static void test_handed_on(void **state)
{
    handed h = {0};

    (void)state;
    assert_run_ok(ranks_run(RANKS_THREADS, 3, saving_body, &h));
    for (int workers = 1; workers <= 5; workers++)
        assert_run_ok(ranks_run(RANKS_THREADS, workers, loading_body, &h));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_histories),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_printed_in_full),
        cmocka_unit_test(test_handed_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
