/* SPDX-License-Identifier: Apache-2.0
 *
 * test_train_evaluate.c - evaluation of models with statistics of the data: the
 * workers' averaged for what they share, their own for their own models, and each
 * goes on with its own. */
#include "layers/compute.h"
#include "run/job.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { WORKERS = 3, BATCH = 16, STEPS = 3, SEED = 5, MAX_BATCH = 32 };

typedef struct scene {
    const gwt_data *data;
    int equal; /* whether all workers have the same parameters */
    float *params[WORKERS], *stats[WORKERS];
    gwt_evaluation verdict[WORKERS];
    int kept[WORKERS]; /* whether the evaluation left model and statistics alone */
} scene;

static const char *const data_name = "synthetic:train=400,test=150,dim=12,classes=3";

static gwt_model *make(const gwt_data *data)
{
    const gwt_model_spec *spec;
    gwt_model *m;

    assert_int_equal(gwt_model_find("resnet20", &spec), GW_OK);
    assert_int_equal(gwt_model_new(&m, spec, data->shape, data->classes, MAX_BATCH),
                     GW_OK);
    gwt_model_init(m, SEED);
    return m;
}

static float *copy_of(const float *x, size_t n)
{
    float *copy = malloc(n * sizeof *x);

    assert_non_null(copy);
    memcpy(copy, x, n * sizeof *x);
    return copy;
}

/* A few steps on batches of the worker's own; parameters move only where workers
 * may differ. */
static gw_status train(const scene *s, gwt_model *m, int rank)
{
    uint32_t labels[BATCH];
    gwt_score score;

    for (size_t t = 0; t < STEPS; t++) {
        gwt_data_batch(s->data, &s->data->train, NULL,
                       ((size_t)rank * STEPS + t) * BATCH, BATCH, gwt_model_input(m),
                       labels);
        GWT_TRY(gwt_model_train(m, labels, &(gwt_pass){.batch = BATCH, .training = 1},
                                &score));
        for (size_t i = 0; !s->equal && i < gwt_model_floats(m); i++)
            gwt_model_params(m)[i] -= 0.05f * gwt_model_grad(m)[i];
    }
    return GW_OK;
}

static gw_status work(gw_comm *comm, void *arg)
{
    scene *s = arg;
    int rank = gw_comm_rank(comm);
    size_t floats;
    gw_status st;

    gwt_compute_threads(1);
    gwt_model *m = make(s->data);
    GWT_TRY(train(s, m, rank));
    float *stats = gwt_model_stats(m, &floats);
    size_t n = gwt_model_floats(m);
    float *average = malloc(n * sizeof *average);
    s->params[rank] = copy_of(gwt_model_params(m), n);
    s->stats[rank] = copy_of(stats, floats);
    st = gwt_evaluate(&s->verdict[rank], comm, s->data, &s->data->test, m, s->equal,
                      average);
    s->kept[rank] =
        memcmp(s->stats[rank], stats, floats * sizeof *stats) == 0 &&
        memcmp(s->params[rank], gwt_model_params(m), n * sizeof *stats) == 0;
    free(average);
    gwt_model_free(m);
    return st;
}

/* ---- by hand
 * --------------------------------------------------------------------------- */

static void mean_of(float *out, float *const *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double sum = 0.0;
        for (size_t w = 0; w < WORKERS; w++)
            sum += (double)x[w][i];
        out[i] = (float)(sum / WORKERS);
    }
}

static gwt_score score_all(gwt_model *m, const gwt_data *data)
{
    gwt_score sum = {0}, part;
    uint32_t labels[MAX_BATCH];

    for (size_t i = 0; i < data->test.count; i += MAX_BATCH) {
        size_t left = data->test.count - i, n = left < MAX_BATCH ? left : MAX_BATCH;
        gwt_data_batch(data, &data->test, NULL, i, n, gwt_model_input(m), labels);
        assert_int_equal(gwt_model_score(m, labels, n, &part), GW_OK);
        sum.loss += part.loss;
        sum.correct += part.correct;
    }
    return sum;
}

static void check_average(const scene *s, gwt_model *m)
{
    size_t floats, tests = s->data->test.count;
    float *stats = gwt_model_stats(m, &floats);

    mean_of(gwt_model_params(m), s->params, gwt_model_floats(m));
    mean_of(stats, s->stats, floats);
    gwt_score want = score_all(m, s->data);
    for (int w = 0; w < WORKERS; w++) {
        double loss = want.loss / (double)tests;
        assert_true(fabs(s->verdict[w].loss - loss) < 1e-4 * loss);
        assert_true(
            fabs(s->verdict[w].accuracy * (double)tests - (double)want.correct) < 1.5);
    }
}

static void check_own(const scene *s, gwt_model *m)
{
    size_t floats;
    float *stats = gwt_model_stats(m, &floats);
    double share = 0.0, loss = 0.0;

    for (int w = 0; w < WORKERS; w++) {
        memcpy(gwt_model_params(m), s->params[w], gwt_model_floats(m) * sizeof *stats);
        memcpy(stats, s->stats[w], floats * sizeof *stats);
        gwt_score own = score_all(m, s->data);
        share += (double)own.correct / (double)s->data->test.count;
        loss += own.loss / (double)s->data->test.count;
    }
    assert_true(fabs(s->verdict[0].workers_accuracy - share / WORKERS) < 1e-5);
    assert_true(fabs(s->verdict[0].workers_loss - loss / WORKERS) < 1e-4 * loss);
}

static void check_scene(const gwt_data *data, int equal)
{
    scene s = {.data = data, .equal = equal};
    gw_local_options opt = {
        .struct_size = sizeof opt, .workers = WORKERS, .spawn = GW_SPAWN_THREADS};

    if (gw_local_run(&opt, work, &s) != GW_OK)
        fail_msg("%s", gw_error_message());
    gwt_model *m = make(data);
    check_average(&s, m);
    if (!equal)
        check_own(&s, m);
    assert_true(isnan(s.verdict[0].workers_loss) == equal);
    for (int w = 0; w < WORKERS; w++) {
        assert_true(s.kept[w]);
        free(s.params[w]);
        free(s.stats[w]);
    }
    gwt_model_free(m);
}

static void statistics_are_averaged(void **state)
{
    gwt_data data;

    (void)state;
    assert_int_equal(gwt_data_load(&data, data_name, NULL), GW_OK);
    check_scene(&data, 1);
    check_scene(&data, 0);
    gwt_data_free(&data);
}

/* A hash goes on where another ended. */
static void hashes_are_of_all_floats(void **state)
{
    const float x[4] = {1.0f, 2.0f, 3.0f, 4.0f};

    (void)state;
    assert_true(gwt_hash_more(gwt_hash(x, 3), x + 3, 1) == gwt_hash(x, 4));
    assert_true(gwt_hash_more(gwt_hash(x, 4), x, 0) == gwt_hash(x, 4));
    assert_true(gwt_hash(x, 4) != gwt_hash(x, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statistics_are_averaged),
        cmocka_unit_test(hashes_are_of_all_floats),
    };

    gwt_compute_threads(1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
