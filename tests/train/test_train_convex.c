/* SPDX-License-Identifier: Apache-2.0
 *
 * test_train_convex.c - convex problems: the gradient is that of the loss, the optimum
 * is the optimum, the risk is what samples say; and simulated workers end where real
 * ones do. */
#include "convex/convex.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { DIM = 7, SAMPLES = 200000 };

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

static const gwt_convex_kind kinds[] = {GWT_LOGISTIC, GWT_LEAST_SQUARES, GWT_QUADRATIC};

/* The loss of one sample, as the definition says. */
static double loss(const gwt_convex *c, const float *row, const double *w)
{
    double z = 0.0, curve = 0.0, y = (double)row[c->dim];

    for (size_t k = 0; k < c->dim; k++) {
        z += w[k] * (double)row[k];
        curve += 0.5 / (double)(k + 1) * pow(w[k] - c->optimum[k], 2.0);
    }
    if (c->kind == GWT_LOGISTIC)
        return log(1.0 + exp(z)) - y * z;
    return c->kind == GWT_QUADRATIC ? curve - y * z : 0.5 * (z - y) * (z - y);
}

static void some_point(double *w, uint64_t which)
{
    for (size_t k = 0; k < DIM; k++)
        w[k] = (double)(gwt_random(9, 90, which, k) >> 40) * 0x1p-23 - 0.5;
}

static void gradients_are_those_of_the_loss(void **state)
{
    double w[DIM], grad[DIM];
    float row[DIM + 1];
    const double h = 1e-5;
    gwt_convex c;

    (void)state;
    for (uint64_t i = 0; i < 60; i++) {
        gwt_convex_init(&c, kinds[i % 3], DIM, 2.0, 4);
        gwt_convex_sample(&c, i, row);
        some_point(w, i);
        gwt_convex_gradient(&c, row, w, grad);
        for (size_t k = 0; k < DIM; k++) {
            double up, down, at = w[k];
            w[k] = at + h, up = loss(&c, row, w);
            w[k] = at - h, down = loss(&c, row, w);
            w[k] = at;
            if (fabs((up - down) / (2.0 * h) - grad[k]) > 1e-8)
                fail_msg("problem %d, coordinate %zu: %.12g, not %.12g", c.kind, k,
                         grad[k], (up - down) / (2.0 * h));
        }
    }
}

/* A sum of values that are all alike, and how well their mean is known. */
typedef struct tally {
    double n, sum, squares;
} tally;

static void add(tally *t, double x)
{
    t->n += 1.0;
    t->sum += x;
    t->squares += x * x;
}

static void mean_is(const char *what, const tally *t, double want)
{
    double mean = t->sum / t->n, variance = t->squares / t->n - mean * mean;

    if (fabs(mean - want) > 5.0 * sqrt(variance / t->n) + 1e-12)
        fail_msg("%s: the mean is %g, not %g", what, mean, want);
}

/* Features have mean 0 and the stated variance, and are not correlated. */
static void samples_have_their_moments(void **state)
{
    tally mean[DIM] = {{0}}, square[DIM] = {{0}}, product[DIM] = {{0}};
    float row[DIM + 1];
    gwt_convex c;

    (void)state;
    gwt_convex_init(&c, GWT_LOGISTIC, DIM, 2.0, 11);
    for (uint64_t i = 0; i < SAMPLES; i++) {
        gwt_convex_sample(&c, i, row);
        for (size_t k = 0; k < DIM; k++) {
            double x = (double)row[k];
            add(&mean[k], x);
            add(&square[k], x * x);
            add(&product[k], x * (double)row[(k + 1) % DIM]);
        }
    }
    for (size_t k = 0; k < DIM; k++) {
        mean_is("feature", &mean[k], 0.0);
        mean_is("its square", &square[k], 1.0 / (double)(k + 1));
        mean_is("its product with the next", &product[k], 0.0);
    }
}

/* Over many samples the gradient at the optimum is nothing, and the loss elsewhere
 * exceeds that at the optimum by the excess risk. */
static void the_risk_is_what_samples_say(void **state)
{
    double w[DIM], g[DIM];
    float row[DIM + 1];
    gwt_convex c;

    (void)state;
    some_point(w, 3);
    for (size_t j = 0; j < COUNT(kinds); j++) {
        tally grad[DIM] = {{0}}, excess = {0};
        gwt_convex_init(&c, kinds[j], DIM, 2.0, 12 + j);
        for (uint64_t i = 0; i < SAMPLES; i++) {
            gwt_convex_sample(&c, i, row);
            gwt_convex_gradient(&c, row, c.optimum, g);
            for (size_t k = 0; k < DIM; k++)
                add(&grad[k], g[k]);
            add(&excess, loss(&c, row, w) - loss(&c, row, c.optimum));
        }
        for (size_t k = 0; k < DIM; k++)
            mean_is("gradient at the optimum", &grad[k], 0.0);
        mean_is("excess loss", &excess, gwt_convex_excess(&c, w));
    }
}

/* Exactly: no excess there, and the same small one on both sides. */
static void the_optimum_is_the_optimum(void **state)
{
    const double h = 1e-3;
    double w[DIM];
    gwt_convex c;

    (void)state;
    for (size_t j = 0; j < COUNT(kinds); j++) {
        gwt_convex_init(&c, kinds[j], DIM, 2.0, 5);
        assert_true(fabs(gwt_convex_excess(&c, c.optimum)) < 1e-14);
        for (size_t k = 0; k < DIM; k++) {
            memcpy(w, c.optimum, sizeof w);
            w[k] += h;
            double up = gwt_convex_excess(&c, w);
            w[k] -= 2.0 * h;
            double down = gwt_convex_excess(&c, w);
            assert_true(up > 1e-10 && down > 1e-10);
            assert_true(fabs(up - down) < 2e-3 * up);
        }
    }
}

/* ---- workers ------------------------------------------------------------------------
 */

static void make(gwt_study *study, gwt_convex_kind kind, uint64_t gradients,
                 int workers, uint64_t seed)
{
    gwt_study_config config = {.gradients = gradients,
                               .workers = workers,
                               .rate = kind == GWT_LOGISTIC ? 3.0 : 0.2,
                               .alpha = 0.6};

    gwt_convex_init(&config.problem, kind, DIM, 2.0, seed);
    assert_int_equal(gwt_study_init(study, &config), GW_OK);
}

static double apart(const gwt_study_result *a, const gwt_study_result *b)
{
    double most = 0.0;

    for (size_t k = 0; k < DIM; k++)
        most = fmax(most, fabs(a->w[k] - b->w[k]));
    return most;
}

static void simulated_workers_end_where_real_ones_do(void **state)
{
    static const char *const specs[] = {
        "oneshot",
        "oneshot:average=polyak",
        "local:1,average=polyak",
        "local:7,average=polyak",
        "local:7",
        "local:grow,grow=3,average=polyak",
        "local:grow,average=polyak",
    };
    gwt_study_result real, simulated, other = {0};
    gwt_study study;

    (void)state;
    for (size_t j = 0; j < COUNT(kinds); j++) {
        make(&study, kinds[j], 1203, 4, 21 + j);
        for (size_t i = 0; i < COUNT(specs); i++) {
            assert_int_equal(gwt_study_threads(&study, specs[i], &real), GW_OK);
            assert_int_equal(gwt_study_simulate(&study, specs[i], &simulated), GW_OK);
            if (apart(&real, &simulated) > 2e-6)
                fail_msg("'%s' of problem %d: %g apart", specs[i], kinds[j],
                         apart(&real, &simulated));
            assert_int_equal(real.rounds, simulated.rounds);
            /* The tolerance must be able to tell one method from another, which on
             * a quadratic with additive noise is not so. */
            if (kinds[j] != GWT_QUADRATIC)
                assert_true(apart(&simulated, &other) > 2e-5);
            other = simulated;
        }
        gwt_study_free(&study);
    }
}

/* Averaging gradients in every step is averaging models in every step. */
static void dense_is_local_1(void **state)
{
    gwt_study_result dense, local, simulated;
    gwt_study study;

    (void)state;
    make(&study, GWT_LOGISTIC, 2000, 4, 8);
    assert_int_equal(gwt_study_threads(&study, "dense", &dense), GW_OK);
    assert_int_equal(gwt_study_simulate(&study, "local:1", &local), GW_OK);
    assert_true(apart(&dense, &local) < 1e-5);
    assert_int_equal(gwt_study_simulate(&study, "dense", &simulated), GW_OK);
    assert_true(apart(&local, &simulated) == 0.0);
    assert_int_equal(dense.rounds, 500);
    assert_int_equal(local.rounds, 500);
    gwt_study_free(&study);
}

/* With additive noise averaging commutes with the steps: no method differs. */
static void a_quadratic_knows_no_rounds(void **state)
{
    gwt_study_result one, many;
    gwt_study study;

    (void)state;
    make(&study, GWT_QUADRATIC, 20000, 8, 31);
    assert_int_equal(gwt_study_simulate(&study, "oneshot:average=polyak", &one), GW_OK);
    assert_int_equal(gwt_study_simulate(&study, "local:1,average=polyak", &many),
                     GW_OK);
    assert_true(apart(&one, &many) < 1e-12);
    assert_int_equal(one.rounds, 1);
    assert_int_equal(many.rounds, 2500);
    gwt_study_free(&study);
}

static void the_seed_decides(void **state)
{
    gwt_study_result first, again;
    gwt_study study;

    (void)state;
    make(&study, GWT_LOGISTIC, 5000, 4, 77);
    assert_int_equal(gwt_study_simulate(&study, "local:9", &first), GW_OK);
    gwt_study_free(&study);
    make(&study, GWT_LOGISTIC, 5000, 4, 77);
    assert_int_equal(gwt_study_simulate(&study, "local:9", &again), GW_OK);
    gwt_study_free(&study);
    assert_memory_equal(first.w, again.w, sizeof first.w);
    make(&study, GWT_LOGISTIC, 5000, 4, 78);
    assert_int_equal(gwt_study_simulate(&study, "local:9", &again), GW_OK);
    gwt_study_free(&study);
    assert_true(apart(&first, &again) > 1e-3);
}

/* Many gradients bring the average to the optimum, about as near as any method can
 * come, d / 2T; workers who looked at the same samples would stay far above. */
static void the_average_reaches_the_optimum(void **state)
{
    gwt_study_result r;
    gwt_study study;

    (void)state;
    make(&study, GWT_LOGISTIC, 200000, 16, 3);
    assert_int_equal(gwt_study_simulate(&study, "local:9,average=polyak", &r), GW_OK);
    double best = DIM / (2.0 * 200000.0);
    double excess = gwt_convex_excess(&study.config.problem, r.w);
    if (excess > 5.0 * best)
        fail_msg("excess risk %g, %g times the best", excess, excess / best);
    gwt_study_free(&study);
}

static void what_cannot_be_done_is_refused(void **state)
{
    static const char *const unknown[] = {"local:4,start=8",  "topk:0.1", "qsgd:4",
                                          "local:4+topk:0.1", "none",     "spa:2"};
    gwt_study_config config = {.gradients = 3, .workers = 4};
    gwt_study_result r;
    gwt_study study;

    (void)state;
    make(&study, GWT_LOGISTIC, 100, 2, 1);
    for (size_t i = 0; i < COUNT(unknown); i++)
        assert_int_equal(gwt_study_simulate(&study, unknown[i], &r), GW_ERR_ARG);
    assert_int_equal(gwt_study_simulate(&study, "locl:4", &r), GW_ERR_SPEC);
    assert_int_equal(gwt_study_threads(&study, "locl:4", &r), GW_ERR_SPEC);
    gwt_study_free(&study);
    gwt_convex_init(&config.problem, GWT_LOGISTIC, DIM, 2.0, 1);
    assert_int_equal(gwt_study_init(&study, &config), GW_ERR_ARG);
    gwt_study_free(&study);
    config.gradients = 100;
    for (size_t k = 0; k < 2; k++) {
        gwt_alloc_fail_at(k);
        assert_int_equal(gwt_study_init(&study, &config), GW_ERR_NOMEM);
        gwt_alloc_fail_at((size_t)-1);
        gwt_study_free(&study);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_of_the_loss),
        cmocka_unit_test(samples_have_their_moments),
        cmocka_unit_test(the_risk_is_what_samples_say),
        cmocka_unit_test(the_optimum_is_the_optimum),
        cmocka_unit_test(simulated_workers_end_where_real_ones_do),
        cmocka_unit_test(dense_is_local_1),
        cmocka_unit_test(a_quadratic_knows_no_rounds),
        cmocka_unit_test(the_seed_decides),
        cmocka_unit_test(the_average_reaches_the_optimum),
        cmocka_unit_test(what_cannot_be_done_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
