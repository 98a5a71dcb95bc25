/* SPDX-License-Identifier: Apache-2.0
 *
 * test_train_run.c - whole runs: the same seed gives the same model however the
 * workers are started; many workers do what one with a larger batch does; stops,
 * skipped steps and the run directory. */
#define _GNU_SOURCE
#include "layers/compute.h"
#include "run/job.h"
#include "data/shuffle.h"
#include "support_training.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static gwt_config small(void)
{
    gwt_config config = small_training();

    config.force = 1;
    config.workers = 2;
    config.epochs = 2;
    return config;
}

/* ---- the same bits ---------------------------------------------------------- */

static void same_seed_same_model(void **state)
{
    static const int workers[] = {1, 2, 3, 4, 5, 8};
    static const char *const sync[] = {"dense", "none", "gtopk:0.1", "local:4"};

    (void)state;
    for (size_t s = 0; s < 4; s++)
        for (size_t i = 0; i < sizeof workers / sizeof workers[0]; i++) {
            gwt_config c = small();
            c.workers = workers[i];
            c.sync = sync[s];
            gwt_summary first = run(&c), again = run(&c);
            c.spawn = GW_SPAWN_THREADS;
            gwt_summary threads = run(&c);
            assert_true(first.model_hash == again.model_hash);
            assert_true(first.model_hash == threads.model_hash);
            assert_true(first.test_accuracy == threads.test_accuracy);
            assert_true(first.stats.bytes_sent == threads.stats.bytes_sent);
            c.seed++;
            assert_true(run(&c).model_hash != first.model_hash);
        }
}

/* A network with statistics of its own, on the engine's convolutions. */
static void a_residual_network_keeps_its_bits(void **state)
{
    gwt_config c = small();

    (void)state;
    c.model = "resnet20";
    c.steps = 4;
    c.sync = "local:3";
    c.spawn = GW_SPAWN_PROCESSES;
    gwt_summary first = run(&c);
    c.spawn = GW_SPAWN_THREADS;
    gwt_summary threads = run(&c);
    assert_true(first.model_hash == threads.model_hash);
    assert_true(first.test_loss == threads.test_loss);
}

static void a_run_learns(void **state)
{
    static const char *const optimizer[] = {"sgd", "adagrad", "adam", "adamw"};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        gwt_config c = small();
        c.optimizer = optimizer[i];
        c.model = "fnn3";
        c.lr = i >= 2 ? 0.001 : 0.02;
        gwt_summary s = run(&c);
        assert_true(s.test_accuracy > 0.9);
        assert_true(s.train_loss < 1.0);
        assert_int_equal(s.steps, 2 * (700 / 16));
        assert_int_equal(s.equal, 1);
        assert_true(isnan(s.drift) && isnan(s.test_accuracy_workers));
        assert_true(isnan(s.test_loss_workers) && isnan(s.perplexity_workers));
        assert_true(s.compute_s > 0 && s.sync_s > 0 && s.eval_s > 0);
        assert_true(s.compute_s + s.sync_s + s.eval_s <= s.wall_s);
    }
}

static void models_that_differ_are_averaged(void **state)
{
    gwt_config c = small();

    (void)state;
    c.sync = "none";
    gwt_summary s = run(&c);
    assert_int_equal(s.equal, 0);
    assert_int_equal(s.stats.bytes_sent, 0);
    assert_true(s.drift > 1e-3 && s.drift < 0.3);
    assert_true(s.test_accuracy_workers > 0.5 && s.test_accuracy_workers <= 1.0);
    assert_true(s.test_loss_workers > 0.0 && s.test_loss_workers < 2.0);
    assert_true(s.test_loss_workers != s.test_loss && isnan(s.perplexity_workers));
    /* One worker alone is its own average, if it is asked at all. */
    c.workers = 1;
    s = run(&c);
    assert_true(s.equal ? isnan(s.drift) : s.drift == 0.0);
}

/* After an exchange workers have one model, which they evaluate together. */
static void one_model_is_evaluated_once(void **state)
{
    gwt_config c = small();

    (void)state;
    c.workers = 4;
    c.steps = 6;
    c.sync = "local:3";
    gwt_summary s = run(&c);
    assert_true(s.equal == 0 && s.drift == 0.0);
    assert_true(s.test_loss_workers == s.test_loss);
    assert_true(s.test_accuracy_workers == s.test_accuracy);
    c.steps = 7;
    s = run(&c);
    assert_true(s.drift > 0.0 && s.test_loss_workers != s.test_loss);
}

/* Every recipe in the library, the ones added later too, trains and ends with one
 * model; those that let workers differ say by how much. */
static void every_recipe_trains(void **state)
{
    static const char *const needs[][2] = {
        {"topk", "topk:0.1"}, {"gtopk", "gtopk:0.1"},   {"oktopk", "oktopk:0.1"},
        {"drop", "drop:0.9"}, {"qsgd", "qsgd:4"},       {"local", "local:4"},
        {"spa", "spa:4"},     {"pqasgd", "pqasgd:4,4"}, {"sparseloco", "sparseloco:2"},
    };
    const char *name;

    (void)state;
    for (size_t i = 0; (name = gw_recipe_name(i)) != NULL; i++) {
        gwt_config c = small();
        c.sync = gw_recipe_example(i);
        c.workers = 3;
        c.hyper.momentum =
            0.0; /* gradients that come late and momentum do not go together */
        for (size_t k = 0; k < sizeof needs / sizeof needs[0]; k++)
            c.sync = strcmp(name, needs[k][0]) == 0 ? needs[k][1] : c.sync;
        gwt_summary s = run(&c);
        if (!(s.test_accuracy > 0.7))
            fail_msg("%s: accuracy %g", c.sync, s.test_accuracy);
        assert_true(s.equal == (isnan(s.drift) != 0));
    }
}

/* ---- many workers and one ----------------------------------------------------- */

/* The loop as its own description has it, with nothing around it. */
typedef struct twin {
    const gwt_data *data;
    size_t batch;
    float *params; /* of rank 0, at the end */
} twin;

enum { TWIN_STEPS = 50, TWIN_SEED = 11 };

static gw_status twin_steps(const twin *t, gw_comm *comm, gwt_model *model,
                            gw_sync *sync)
{
    static _Thread_local uint32_t order[4096];
    static _Thread_local uint32_t labels[4096];
    const gwt_hyper hyper = {0};
    float *slot[GWT_SLOTS_MAX] = {NULL, NULL};
    gwt_score score;

    gwt_shuffle(order, t->data->train.count, TWIN_SEED, 0);
    for (size_t s = 0; s < TWIN_STEPS; s++) {
        size_t first =
            gwt_shard_first(s, gw_comm_workers(comm), gw_comm_rank(comm), t->batch);
        gwt_data_batch(t->data, &t->data->train, order, first, t->batch,
                       gwt_model_input(model), labels);
        gwt_pass pass = {.batch = t->batch, .training = 1, .step = s};
        GWT_TRY(gwt_model_train(model, labels, &pass, &score));
        GWT_TRY(gw_sync_gradient(sync, gwt_model_grad(model)));
        gwt_optimizer_at(0)->step(gwt_model_params(model), gwt_model_grad(model), slot,
                                  gwt_model_floats(model), 0.1, s, &hyper);
        GWT_TRY(gw_sync_model(sync, gwt_model_params(model)));
    }
    return GW_OK;
}

static gw_status twin_worker(gw_comm *comm, void *arg)
{
    const twin *t = arg;
    gwt_model *model;
    gw_layout *layout;
    gw_sync *sync;
    size_t count;

    gwt_compute_threads(1);
    GWT_TRY(gwt_model_new(&model, gwt_model_at(1), t->data->shape, t->data->classes,
                          t->batch));
    gwt_model_init(model, TWIN_SEED);
    const gw_tensor *tensors = gwt_model_tensors(model, &count);
    GWT_TRY(gw_layout_new(&layout, tensors, count));
    GWT_TRY(gw_sync_new(&sync, "dense", layout, comm, NULL));
    gw_status st = twin_steps(t, comm, model, sync);
    if (gw_comm_rank(comm) == 0)
        memcpy(t->params, gwt_model_params(model),
               gwt_model_floats(model) * sizeof(float));
    gw_sync_free(sync);
    gw_layout_free(layout);
    gwt_model_free(model);
    return st;
}

static float *twin_run(const gwt_data *data, int workers, size_t batch, size_t n)
{
    twin t = {data, batch, calloc(n, sizeof(float))};
    gw_local_options opt = {
        .struct_size = sizeof opt, .workers = workers, .spawn = GW_SPAWN_THREADS};

    assert_non_null(t.params);
    if (gw_local_run(&opt, twin_worker, &t) != GW_OK)
        fail_msg("%s", gw_error_message());
    return t.params;
}

static void many_workers_follow_one(void **state)
{
    const size_t n = 20 * 200 + 200 + 200 * 200 + 200 + 200 * 4 + 4;
    gwt_data data;

    (void)state;
    assert_int_equal(
        gwt_data_load(&data, "synthetic:train=3100,test=10,dim=20,classes=4", NULL),
        GW_OK);
    for (int workers = 2; workers <= 5; workers++) {
        float *many = twin_run(&data, workers, 60 / (size_t)workers, n);
        float *one = twin_run(&data, 1, 60 / (size_t)workers * (size_t)workers, n);
        double apart = 0.0, length = 0.0;
        for (size_t i = 0; i < n; i++) {
            apart += pow((double)many[i] - (double)one[i], 2);
            length += pow((double)one[i], 2);
        }
        assert_true(sqrt(apart / length) < 1e-4);
        free(many);
        free(one);
    }
    gwt_data_free(&data);
}

/* The real loop gives the bits of the twin. */
static void the_loop_does_the_same(void **state)
{
    const char *name = "synthetic:train=3100,test=10,dim=20,classes=4";
    const size_t n = 20 * 200 + 200 + 200 * 200 + 200 + 200 * 4 + 4;
    gwt_config c = small();
    gwt_data data;

    (void)state;
    assert_int_equal(gwt_data_load(&data, name, NULL), GW_OK);
    c.model = "fnn3";
    c.data = name;
    c.hyper.momentum = 0.0;
    c.steps = TWIN_STEPS;
    c.seed = TWIN_SEED;
    c.batch = 20;
    for (c.workers = 1; c.workers <= 3; c.workers++) {
        float *params = twin_run(&data, c.workers, 20, n);
        assert_true(run(&c).model_hash == gwt_hash(params, n));
        free(params);
    }
    gwt_data_free(&data);
}

/* ---- the end of a run ------------------------------------------------------------ */

/* Asks for a stop in step 30 of a run far longer. */
static void stop_in_step_30(void *arg, gwt_event event, const gwt_progress *p)
{
    if (event == GWT_EVENT_STEP && p->step == 30)
        gwt_job_stop(arg);
}

static void a_stop_ends_all_workers_together(void **state)
{
    static const char *const sync[] = {"dense", "none", "local:4"};

    (void)state;
    for (int i = 0; i < 6; i++) {
        gwt_config c = small();
        gwt_job *job;
        c.epochs = 100000;
        c.workers = 3;
        c.sync = sync[i % 3];
        c.spawn = i / 3 ? GW_SPAWN_THREADS : GW_SPAWN_PROCESSES;
        assert_int_equal(gwt_job_new(&job, &c), GW_OK);
        gwt_observer observer = {stop_in_step_30, job};
        if (gwt_job_run(job, &observer) != GW_OK)
            fail_msg("%s", gw_error_message());
        assert_int_equal(gwt_job_summary(job)->stopped, 1);
        assert_true(gwt_job_summary(job)->steps >= 30);
        assert_true(gwt_job_summary(job)->test_accuracy > 0.0);
        gwt_job_free(job);
    }
}

static void a_stop_before_the_first_step(void **state)
{
    gwt_config c = small();
    gwt_job *job;

    (void)state;
    assert_int_equal(gwt_job_new(&job, &c), GW_OK);
    gwt_job_stop(job);
    assert_int_equal(gwt_job_run(job, NULL), GW_OK);
    assert_int_equal(gwt_job_summary(job)->steps, 0);
    assert_true(isnan(gwt_job_summary(job)->train_loss));
    gwt_job_free(job);
}

/* Workers at unlike speeds: whoever is ahead when the stop comes, all do the same
 * number of steps. */
enum { RACERS = 4 };

static gwt_stop race_word;
static uint64_t race_steps[RACERS];

static void *race(void *arg)
{
    uint64_t *steps = arg;

    while (gwt_stop_enter(&race_word, *steps + 1)) {
        *steps += 1;
        for (ptrdiff_t i = 0; i <= steps - race_steps; i++)
            sched_yield();
    }
    return NULL;
}

static void unequal_workers_stop_after_the_same_step(void **state)
{
    pthread_t thread[RACERS];

    (void)state;
    for (int trial = 0; trial < 20; trial++) {
        atomic_store(&race_word.word, 0);
        memset(race_steps, 0, sizeof race_steps);
        for (size_t i = 0; i < RACERS; i++)
            assert_int_equal(pthread_create(&thread[i], NULL, race, &race_steps[i]), 0);
        usleep(300);
        gwt_stop_request(&race_word);
        for (size_t i = 0; i < RACERS; i++)
            pthread_join(thread[i], NULL);
        for (size_t i = 1; i < RACERS; i++)
            assert_true(race_steps[i] == race_steps[0]);
    }
}

/* A rate that makes everything overflow. */
static gwt_config explosive(void)
{
    gwt_config c = small();

    c.model = "fnn3";
    c.lr = 1e6;
    c.steps = 40;
    return c;
}

static void overflow_stops_the_run(void **state)
{
    gwt_config c = explosive();
    gwt_job *job;

    (void)state;
    assert_int_equal(gwt_job_new(&job, &c), GW_OK);
    assert_int_equal(gwt_job_run(job, NULL), GW_ERR_NUMBER);
    assert_non_null(strstr(gw_error_message(), "step"));
    gwt_job_free(job);
}

static void overflow_skips_steps(void **state)
{
    gwt_config c = explosive();

    (void)state;
    c.nonfinite = GW_NONFINITE_SKIP;
    gwt_summary s = run(&c);
    assert_int_equal(s.steps, 40);
    assert_true(s.skipped > 0 && s.skipped < 40);
    assert_true(s.skipped == s.stats.skipped);
}

/* ---- the run directory --------------------------------------------------------------
 */

static size_t lines_of(const char *name, const char *must_hold)
{
    char line[2048];
    size_t n = 0;
    FILE *f = fopen(in_folder(name), "r");

    assert_non_null(f);
    for (; fgets(line, sizeof line, f) != NULL; n++)
        if (must_hold != NULL)
            assert_non_null(strstr(line, must_hold));
    fclose(f);
    return n;
}

static void a_run_leaves_its_files(void **state)
{
    gwt_config c = small();
    gwt_job *job;

    (void)state;
    run(&c);
    /* 86 steps: every 7th, and the ends of both epochs (43 and 86). */
    assert_int_equal(lines_of("metrics.jsonl", "\"loss\": "), 12 + 2);
    assert_true(lines_of("summary.json", NULL) > 30);
    c.force = 0;
    assert_int_equal(gwt_job_new(&job, &c), GW_ERR_ARG);
    assert_null(job);
    assert_non_null(strstr(gw_error_message(), "--force"));
}

static void wrong_settings_are_refused(void **state)
{
    gwt_job *job;

    (void)state;
    for (int i = 0; i < 7; i++) {
        gwt_config c = small();
        c.model = i == 0 ? "fnn33" : c.model;
        c.data = i == 1 ? "synthetic:x=1" : c.data;
        c.sync = i == 2 ? "dens" : c.sync;
        c.link = i == 3 ? "1parsec" : NULL;
        c.optimizer = i == 4 ? "sdg" : c.optimizer;
        c.schedule = i == 5 ? "linear" : c.schedule;
        c.batch = i == 6 ? 351 : c.batch;
        gw_status st = gwt_job_new(&job, &c);
        if (st != (i == 2 ? GW_ERR_SPEC : GW_ERR_ARG))
            fail_msg("case %d: %s", i, gw_status_name(st));
        assert_null(job);
    }
}

static void no_memory_is_an_error(void **state)
{
    gwt_config c = small();
    gwt_job *job = NULL;

    (void)state;
    for (size_t k = 0; job == NULL; k++) {
        gwt_alloc_fail_at(k);
        gw_status st = gwt_job_new(&job, &c);
        assert_int_equal(st, job != NULL ? GW_OK : GW_ERR_NOMEM);
    }
    gwt_alloc_fail_at((size_t)-1);
    gwt_job_free(job);
    gwt_job_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_seed_same_model),
        cmocka_unit_test(a_residual_network_keeps_its_bits),
        cmocka_unit_test(a_run_learns),
        cmocka_unit_test(models_that_differ_are_averaged),
        cmocka_unit_test(one_model_is_evaluated_once),
        cmocka_unit_test(every_recipe_trains),
        cmocka_unit_test(many_workers_follow_one),
        cmocka_unit_test(the_loop_does_the_same),
        cmocka_unit_test(a_stop_ends_all_workers_together),
        cmocka_unit_test(a_stop_before_the_first_step),
        cmocka_unit_test(unequal_workers_stop_after_the_same_step),
        cmocka_unit_test(overflow_stops_the_run),
        cmocka_unit_test(overflow_skips_steps),
        cmocka_unit_test(a_run_leaves_its_files),
        cmocka_unit_test(wrong_settings_are_refused),
        cmocka_unit_test(no_memory_is_an_error),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
