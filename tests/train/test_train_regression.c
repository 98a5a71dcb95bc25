/* SPDX-License-Identifier: Apache-2.0
 *
 * test_train_regression.c - models with one output: their losses, their made-up
 * data, and that they find what the data was made with. */
#include "convex/convex.h"
#include "data/data.h"
#include "models/model.h"
#include "optim/optimizer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { BATCH = 4, DIM = 6 };

typedef gwt_score loss_of(const float *z, const uint32_t *y, size_t batch,
                          float *delta);

/* Central differences of the mean loss, in steps that are exact in floats. */
static void expect_slope(loss_of *loss, const float *z, const uint32_t *y)
{
    const float h = 0x1p-10f;
    float delta[BATCH], moved[BATCH];
    gwt_score s = loss(z, y, BATCH, delta);

    assert_int_equal(s.count, BATCH);
    for (size_t i = 0; i < BATCH; i++) {
        memcpy(moved, z, sizeof moved);
        moved[i] = z[i] + h;
        double up = loss(moved, y, BATCH, NULL).loss;
        moved[i] = z[i] - h;
        double down = loss(moved, y, BATCH, NULL).loss;
        assert_true(fabs((double)delta[i] - (up - down) / (2.0 * (double)h * BATCH)) <
                    1e-5);
    }
}

static void losses_and_slopes(void **state)
{
    const float z[BATCH] = {0.5f, -2.0f, 0.0f, 3.0f}, y[BATCH] = {1.0f, -2.0f, 7.5f};
    const uint32_t labels[BATCH] = {1, 0, 1, 0};
    uint32_t targets[BATCH];
    gwt_score s;

    (void)state;
    memcpy(targets, y, sizeof targets);
    expect_slope(gwt_logistic_loss, z, labels);
    expect_slope(gwt_squares_loss, z, targets);
    s = gwt_logistic_loss(z, labels, BATCH, NULL);
    assert_int_equal(s.correct, 2);
    double want = log1p(exp(-0.5)) + log1p(exp(-2.0)) + log(2.0) + log1p(exp(3.0));
    assert_true(fabs(s.loss - want) < 1e-12);
    s = gwt_squares_loss(z, targets, BATCH, NULL);
    assert_true(fabs(s.loss - (0.25 + 0.0 + 7.5 * 7.5 + 9.0) / 2.0) < 1e-12);
    /* Outputs that are far off, or nothing at all. */
    const float far[2] = {-1e4f, NAN};
    s = gwt_logistic_loss(far, labels, 1, NULL);
    assert_true(fabs(s.loss - 1e4) < 1e-6);
    assert_true(isnan(gwt_logistic_loss(far + 1, labels, 1, NULL).loss));
    assert_int_equal(gwt_logistic_loss(far + 1, labels + 1, 1, NULL).correct, 0);
}

/* Trains on one worker, and gives the excess risk of what it found. */
static double train(const char *name, gwt_convex_kind kind)
{
    enum { STEPS = 400, ROWS = 250 };
    static uint32_t labels[ROWS];
    const gwt_model_spec *spec;
    const gwt_optimizer *sgd;
    double w[DIM];
    gwt_model *m;
    gwt_data data;
    gwt_convex c;
    gwt_score s;

    assert_int_equal(gwt_model_find(name, &spec), GW_OK);
    assert_int_equal(gwt_optimizer_find("sgd", &sgd), GW_OK);
    char set[64] = "";
    strcat(strcat(set, name), ":dim=6,train=20000,test=10");
    assert_int_equal(gwt_data_load(&data, set, NULL), GW_OK);
    assert_int_equal(data.classes, kind == GWT_LOGISTIC ? 2 : 0);
    assert_int_equal(gwt_model_new(&m, spec, data.shape, data.classes, ROWS), GW_OK);
    assert_int_equal(gwt_model_floats(m), DIM + 1);
    gwt_model_init(m, 1);
    for (uint64_t t = 0; t < STEPS; t++) {
        gwt_pass pass = {.batch = ROWS, .training = 1};
        gwt_hyper hyper = {0};
        gwt_data_batch(&data, &data.train, NULL, (size_t)t * ROWS % 20000, ROWS,
                       gwt_model_input(m), labels);
        assert_int_equal(gwt_model_train(m, labels, &pass, &s), GW_OK);
        sgd->step(gwt_model_params(m), gwt_model_grad(m), NULL, DIM + 1,
                  t < STEPS / 2 ? 1.0 : 0.2, t, &hyper);
    }
    for (size_t k = 0; k < DIM; k++)
        w[k] = (double)gwt_model_params(m)[k];
    gwt_convex_init(&c, kind, DIM, 2.0, 1);
    gwt_model_free(m);
    gwt_data_free(&data);
    return gwt_convex_excess(&c, w);
}

/* The excess risk of the best that 20000 samples allow is about DIM / 40000. */
static void finds_the_optimum(void **state)
{
    (void)state;
    assert_true(train("logistic", GWT_LOGISTIC) < 2e-3);
    assert_true(train("least-squares", GWT_LEAST_SQUARES) < 2e-3);
}

static void fits_only_its_data(void **state)
{
    static const struct {
        const char *model;
        size_t classes;
        gw_status want;
    } cases[] = {
        {"logistic", 2, GW_OK},      {"logistic", 10, GW_ERR_ARG},
        {"logistic", 0, GW_ERR_ARG}, {"least-squares", 0, GW_OK},
        {"softmax", 0, GW_ERR_ARG},  {"least-squares", 2, GW_ERR_ARG},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const gwt_model_spec *spec;
        gwt_model *m;
        assert_int_equal(gwt_model_find(cases[i].model, &spec), GW_OK);
        assert_int_equal(
            gwt_model_new(&m, spec, (gwt_shape){1, 1, DIM}, cases[i].classes, 8),
            cases[i].want);
        gwt_model_free(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_and_slopes),
        cmocka_unit_test(finds_the_optimum),
        cmocka_unit_test(fits_only_its_data),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
