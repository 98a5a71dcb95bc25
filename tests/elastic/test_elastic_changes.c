/* SPDX-License-Identifier: Apache-2.0
 *
 * test_elastic_changes.c - what workers that join, leave or die bring, take and lose.
 */
#include <math.h>
#include <string.h>

#include "support_elastic.h"

enum { WORKERS = 3, ALL = WORKERS + 1, STEPS = 9 };

static void require_good(const elastic_result *r, int count)
{
    for (int i = 0; i < count; i++)
        if (r[i].status != GW_OK)
            fail_msg("worker %d: %s", i, r[i].message);
}

/* What went in is what came out and what waits, of all workers that did not die. */
static void require_conserved(const elastic_result *r, int count)
{
    for (size_t i = 0; i < ELASTIC_FLOATS; i++) {
        double in = 0, waits = 0;
        for (int w = 0; w < count; w++) {
            in += r[w].fed[i];
            waits += r[w].residual[i];
        }
        double out = r[0].applied[i];
        if (fabs(in - out - waits) > 1e-4)
            fail_msg("float %zu: %g in, %g out, %g waits", i, in, out, waits);
    }
}

/* Worker 1 leaves; what it had not sent is sent by another. A spare joins. */
static void test_a_leaver_hands_over(void **state)
{
    static const char *const specs[] = {"topk:0.05", "gtopk:0.05", "topk:0.05+q:4"};
    static elastic_result r[ALL];

    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        elastic_plan plan = {
            .spec = specs[i], .workers = WORKERS, .spares = 1, .steps = STEPS};
        plan.death[1].leaves_at = 5;
        elastic_run(&plan, r);
        require_good(r, ALL);
        assert_true(r[1].left);
        for (size_t k = 0; k < ELASTIC_FLOATS; k++)
            assert_true(r[1].residual[k] == 0);
        assert_int_equal(r[3].first_step, 4);
        require_conserved(r, ALL);
    }
}

/* The last one that knows anything leaves: the spare has it all. */
static void test_the_last_one_leaves(void **state)
{
    static elastic_result r[2];
    elastic_plan plan = {
        .spec = "topk:0.05", .workers = 1, .spares = 1, .steps = STEPS};

    (void)state;
    plan.death[0].leaves_at = 5;
    elastic_run(&plan, r);
    require_good(r, 2);
    assert_true(r[0].left);
    assert_int_equal(r[1].first_step, 4);
    for (size_t i = 0; i < ELASTIC_FLOATS; i++) {
        double in = r[0].fed[i] + r[1].fed[i];
        assert_true(fabs(in - r[1].applied[i] - r[1].residual[i]) < 1e-4);
    }
}

/* Survivors are told how much the dead had not sent. The guard measures after 1, 2, 4
 * and 8 exchanges. */
static void test_a_loss_is_a_number(void **state)
{
    static elastic_result r[ALL];
    elastic_plan plan = {.spec = "topk:0.05", .workers = WORKERS, .steps = STEPS};
    double sum = 0;

    (void)state;
    plan.death[2].step = 5;
    elastic_run(&plan, r);
    require_good(r, WORKERS);
    for (size_t i = 0; i < ELASTIC_FLOATS; i++)
        sum += (double)r[2].residual[i] * r[2].residual[i];
    assert_true(fabs(r[0].lost - sqrt(sum)) < 1e-6 * r[0].lost);
    assert_true(r[1].lost == r[0].lost);
}

/* The estimate of ef21 stays the mean of what workers stand for; with everything sent,
 * that is the mean of the gradients. */
static void test_estimates_follow_the_workers(void **state)
{
    static elastic_result r[ALL];
    elastic_plan plan = {.spec = "topk:0.3+ef21", .workers = WORKERS, .spares = 1};

    (void)state;
    plan.steps = 40;
    plan.death[2].step = 20;
    elastic_run(&plan, r);
    require_good(r, ALL);
    for (int w = 1; w < ALL; w++)
        if (w != 2)
            assert_memory_equal(r[0].estimate, r[w].estimate, sizeof r[0].estimate);
}

/* ---- a sync by itself ------------------------------------------------------------ */

static gw_status make(gw_sync **sync, gw_layout **layout, gw_comm *comm,
                      const char *spec)
{
    static const gw_tensor tensors[] = {{"a", 0, 10, 20}, {"b", 200, 1, 3}};

    PASS_ON(gw_layout_new(layout, tensors, 2));
    return gw_sync_new(sync, spec, *layout, comm, NULL);
}

static gw_status enter_refused(gw_comm *comm, void *arg)
{
    float params[ELASTIC_FLOATS] = {0};
    gw_layout *layout;
    gw_sync *sync;

    PASS_ON(make(&sync, &layout, comm, arg));
    gw_status st = gw_sync_enter(&sync, comm, params, NULL, NULL);
    gw_sync_free(sync);
    gw_layout_free(layout);
    REQUIRE(st == GW_ERR_SPEC, "'%s' entered: %s", (char *)arg, gw_status_name(st));
    return GW_OK;
}

static void test_models_that_never_meet(void **state)
{
    char *specs[] = {"none", "oneshot", "a2sgd", "dense:delay=1"};

    (void)state;
    for (int i = 0; i < 4; i++)
        assert_run_ok(ranks_run(RANKS_THREADS, 2, enter_refused, specs[i]));
}

static float value(int rank, int step, size_t i)
{
    return test_float((uint64_t)(100 * rank + step), i);
}

/* Gradients in pieces and tensor by tensor give the bits of one call. */
static gw_status enter_pieces(gw_comm *comm, void *arg)
{
    float params[ELASTIC_FLOATS] = {0}, v[3][ELASTIC_FLOATS];
    gw_layout *layout[3];
    gw_sync *sync[3];

    for (int i = 0; i < 3; i++) {
        PASS_ON(make(&sync[i], &layout[i], comm, arg));
        PASS_ON(gw_sync_enter(&sync[i], comm, params, NULL, NULL));
        REQUIRE(gw_sync_overlaps(sync[i]) == 0, "it overlaps");
    }
    for (int step = 0; step < 4; step++) {
        gw_piece pieces[] = {{v[1], 100}, {v[1] + 100, ELASTIC_FLOATS - 100}};
        for (int i = 0; i < 3; i++)
            for (size_t k = 0; k < ELASTIC_FLOATS; k++)
                v[i][k] = value(gw_comm_rank(comm), step, k);
        PASS_ON(gw_sync_gradient(sync[0], v[0]));
        PASS_ON(gw_sync_gradient_pieces(sync[1], pieces, 2));
        PASS_ON(gw_sync_gradient_part(sync[2], v[2], 1));
        PASS_ON(gw_sync_gradient_part(sync[2], v[2], 0));
        PASS_ON(gw_sync_gradient(sync[2], v[2]));
        REQUIRE(memcmp(v[0], v[1], sizeof v[0]) == 0, "pieces differ");
        REQUIRE(memcmp(v[0], v[2], sizeof v[0]) == 0, "parts differ");
    }
    for (int i = 0; i < 3; i++) {
        gw_sync_free(sync[i]);
        gw_layout_free(layout[i]);
    }
    return GW_OK;
}

static void test_gradients_in_pieces(void **state)
{
    (void)state;
    assert_run_ok(ranks_run(RANKS_THREADS, 3, enter_pieces, "dense"));
    assert_run_ok(ranks_run(RANKS_THREADS, 3, enter_pieces, "topk:0.1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_leaver_hands_over),
        cmocka_unit_test(test_the_last_one_leaves),
        cmocka_unit_test(test_a_loss_is_a_number),
        cmocka_unit_test(test_estimates_follow_the_workers),
        cmocka_unit_test(test_models_that_never_meet),
        cmocka_unit_test(test_gradients_in_pieces),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
